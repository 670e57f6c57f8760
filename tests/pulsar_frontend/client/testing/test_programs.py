"""Client programs on a broker that misbehaves: what was promised holds whatever the seed says.

Hypothesis writes the programs and draws the seeds. Time is a clock that jumps: a program in which
anybody waits for ever fails at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import anyio
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_pulsar.client import (
    Batching,
    Client,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    Message,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.client.producer.producer import Producer
from arneb_pulsar.client.testing import FakeBroker, Faults
from arneb_pulsar.wire.batch import split_batch
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.metadata import parse_metadata

TOPIC = "orders"
SUBSCRIPTION = "billing"
STUCK_S = 1_800.0
CHUNK_BYTES = 50
LARGE_BYTES = 120
"""Three pieces, where there are pieces."""
BATCH_BYTES = 100
"""Which a large message is not put into."""


@dataclass(frozen=True)
class Setup:
    """How one program is made."""

    faults: Faults
    brokers: int
    type: SubscriptionType
    batching: bool
    batch_index_acks: bool
    queue_size: int
    ack_group_s: float
    chunking: bool


SETUPS = st.builds(
    Setup,
    faults=st.builds(
        Faults,
        seed=st.integers(0, 1 << 32),
        delay_s_max=st.sampled_from((0.0, 0.02, 2.0)),
        cut_bytes_mean=st.sampled_from((0, 0, 3_000, 30_000)),
        silent=st.sampled_from((0.0, 0.5)),
        not_ready=st.sampled_from((0.0, 0.3)),
        doubled=st.sampled_from((0.0, 0.3)),
        refused=st.sampled_from((0.0, 0.3)),
    ),
    brokers=st.integers(1, 2),
    type=st.sampled_from(SubscriptionType),
    batching=st.booleans(),
    batch_index_acks=st.booleans(),
    queue_size=st.sampled_from((0, 1, 7, 1_000)),
    ack_group_s=st.sampled_from((0.0, 0.1)),
    chunking=st.booleans(),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 30)),
        st.tuples(st.just("receive"), st.integers(1, 30)),
        st.tuples(st.just("acknowledge"), st.integers(1, 30)),
        st.tuples(st.just("acknowledge_stored"), st.integers(1, 5)),
        st.tuples(st.just("acknowledge_cumulative"), st.integers(1, 30)),
        st.tuples(st.just("negative_acknowledge"), st.integers(1, 5)),
        st.tuples(st.just("redeliver"), st.just(0)),
        st.tuples(st.just("pass_time"), st.sampled_from((0, 1, 30))),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("unload"), st.just(0)),
        st.tuples(st.just("consume_anew"), st.just(0)),
    ),
    max_size=25,
)


class Program:
    """One program, and what it was promised."""

    def __init__(self, setup: Setup, broker: FakeBroker, client: Client) -> None:
        self.setup = setup
        self.broker = broker
        self.client = client
        self.producer: Producer[bytes]
        self.consumer: Consumer[bytes]
        self.sent = 0
        self.stored: list[int] = []
        self.in_hand: list[Message[bytes]] = []
        self.given: list[int] = []
        self.settled: set[int] = set()
        """Whose acknowledgement has a receipt, on one connection: they must not come again. What
        came over an earlier one may have come over the next before it was acknowledged, and wait
        in the queue, as in the official clients."""
        self.is_calm = not (setup.faults.cut_bytes_mean or setup.faults.silent)

    async def begin(self) -> None:
        await self.consume()
        batching = (
            Batching(messages_max=4, delay_s=0.05, bytes_max=BATCH_BYTES)
            if self.setup.batching
            else None
        )
        self.producer = await self.client.create_producer(
            TOPIC,
            ProducerOptions(
                name="p",
                send_timeout_s=0,
                batching=batching,
                chunking=self.setup.chunking,
                chunk_bytes_max=CHUNK_BYTES,
            ),
        )

    async def consume(self) -> None:
        setup = self.setup
        self.consumer = await self.client.subscribe(
            TOPIC,
            SUBSCRIPTION,
            ConsumerOptions(
                type=setup.type,
                name="c",
                initial_position=InitialPosition.EARLIEST,
                queue_size=setup.queue_size,
                batch_index_acks=setup.batch_index_acks,
                ack_group_s=setup.ack_group_s,
                negative_ack_delay_s=1.0,
            ),
        )

    async def play(self, steps: list[tuple[str, int]]) -> None:
        for name, count in steps:
            await getattr(self, name)(count)

    async def send(self, count: int) -> None:
        for _ in range(count):
            number, self.sent = self.sent, self.sent + 1

            def told(
                found: MessageId | None, error: Exception | None, number: int = number
            ) -> None:
                assert error is None, error
                self.stored.append(number)

            self.producer.send_nowait(self.body(number), callback=told)

    def body(self, number: int) -> bytes:
        """A number; in pieces, if there are pieces."""
        return (b"%d" % number).ljust(LARGE_BYTES if self.setup.chunking else 0)

    async def receive(self, count: int) -> None:
        with anyio.move_on_after(1):
            for _ in range(count):
                self.take(await self.consumer.receive())

    def take(self, message: Message[bytes]) -> None:
        number = int(message.data)
        assert number not in self.settled, f"{number} came again after its receipt"
        self.in_hand.append(message)
        self.given.append(number)

    async def acknowledge(self, count: int) -> None:
        for message in self.put_down(count):
            self.consumer.acknowledge(message)

    async def acknowledge_stored(self, count: int) -> None:
        for message in self.put_down(count):
            with anyio.move_on_after(10):
                try:
                    await self.consumer.acknowledge_stored(message)
                except PulsarError:
                    continue
                if self.setup.batch_index_acks or not self.setup.batching:
                    assert message.id.entry not in self.broker.backlog(TOPIC, SUBSCRIPTION) or (
                        message.batch_index >= 0
                    )
                    if self.is_calm:
                        self.settled.add(int(message.data))

    async def acknowledge_cumulative(self, count: int) -> None:
        if not self.setup.type.is_shared:
            for message in list(self.put_down(count))[-1:]:
                self.consumer.acknowledge_cumulative(message)

    async def negative_acknowledge(self, count: int) -> None:
        for message in self.put_down(count):
            self.consumer.negative_acknowledge(message)

    async def redeliver(self, _: int) -> None:
        self.is_calm = False
        self.in_hand.clear()
        self.consumer.redeliver_unacknowledged()

    async def pass_time(self, seconds: int) -> None:
        await anyio.sleep(seconds)

    async def cut(self, _: int) -> None:
        self.is_calm = False
        self.broker.cut()

    async def restart(self, _: int) -> None:
        self.is_calm = False
        self.broker.restart()

    async def unload(self, _: int) -> None:
        self.is_calm = False
        self.broker.unload(TOPIC)

    async def consume_anew(self, _: int) -> None:
        self.is_calm = False
        await self.consumer.close()
        self.in_hand.clear()
        await self.consume()

    def put_down(self, count: int) -> Iterator[Message[bytes]]:
        done, self.in_hand = self.in_hand[:count], self.in_hand[count:]
        return iter(done)

    async def settle(self) -> None:
        """Nothing goes wrong any more: everything must be done in the end."""
        self.broker.faults.stop()
        self.is_calm = False
        self.broker.cut()
        await self.producer.flush()
        for message in self.in_hand:
            self.consumer.acknowledge(message)
        while True:
            with anyio.move_on_after(5):
                message = await self.consumer.receive()
                self.take(message)
                self.consumer.acknowledge(message)
                continue
            if not self.broker.backlog(TOPIC, SUBSCRIPTION):
                return

    def judge(self) -> None:
        assert self.stored == list(range(self.sent)), "receipts come once, in the order of sends"
        assert list(self.kept()) == [self.body(number) for number in range(self.sent)]
        firsts = list(dict.fromkeys(self.given))
        assert firsts == list(range(self.sent)), "each came, and first in the order of the topic"

    def kept(self) -> Iterator[bytes]:
        """What the topic has. Pieces of a message may stand there twice: it is one once its last
        piece is there."""
        pieces: dict[int, bytes] = {}
        for entry in self.broker.topic(TOPIC).entries:
            head, at = split_body(entry.body)
            metadata = parse_metadata(head)
            if entry.is_batch:
                count = metadata.num_messages_in_batch
                yield from (payload for _, payload in split_batch(entry.body[at:], count))
            elif metadata.num_chunks_from_msg > 1:
                pieces[metadata.chunk_id] = entry.body[at:]
                if metadata.chunk_id + 1 == metadata.num_chunks_from_msg:
                    yield b"".join(pieces[each] for each in range(metadata.num_chunks_from_msg))
                    pieces.clear()
            else:
                yield entry.body[at:]


@settings(max_examples=25)
@given(setup=SETUPS, steps=STEPS)
def test_nothing_is_lost_doubled_or_stuck(setup: Setup, steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        broker = FakeBroker(setup.faults, brokers=setup.brokers, deduplication=True)
        options = ClientOptions(
            dial=broker.dial, seed=7, operation_timeout_s=3_600.0, backoff_cap_s=1.0
        )
        with trio.fail_after(STUCK_S):
            async with connect(broker.url, options) as client:
                program = Program(setup, broker, client)
                await program.begin()
                await program.play(steps)
                await program.settle()
                program.judge()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
