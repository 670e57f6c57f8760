"""Client programs, and what they were promised.

A program sends, consumes, seeks, reads and commits; the broker that it does so at misbehaves as a
seed says. The rule: what a program expects follows from what its calls said and from nothing else;
only whether a transaction counts whose commit gave no answer is asked of the broker.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
from hypothesis import strategies as st

from arneb_pulsar.client import (
    EARLIEST,
    LATEST,
    Batching,
    Client,
    ConsumerOptions,
    InitialPosition,
    Message,
    MessageId,
    ProducerOptions,
    SubscriptionType,
)
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.errors import PulsarError, QueueFull
from arneb_pulsar.client.messages import TransactionId
from arneb_pulsar.client.producer.producer import Producer
from arneb_pulsar.client.testing import FakeBroker, Faults
from arneb_pulsar.client.transactions import Transaction
from arneb_pulsar.wire.batch import split_batch
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.metadata import parse_metadata

TOPIC: Final = "orders"
SUBSCRIPTION: Final = "billing"
CHUNK_BYTES: Final = 50
LARGE_BYTES: Final = 120
"""Three chunks, where there are chunks."""
BATCH_BYTES: Final = 100
"""Which a large message is not put into."""
TRANSACTION_S: Final = 300.0
PATIENCE_S: Final = 7_200.0
"""For the chunks of a message: a producer may be cut off longer than consumers wait by default."""


@dataclass(frozen=True)
class Setup:
    """How one program is made."""

    faults: Faults
    brokers: int
    type: SubscriptionType
    batching: bool
    batch_index_acks: bool
    queue_size: int
    auto_scaled: bool
    memory_bytes_max: int
    ack_group_s: float
    chunking: bool


SETUPS: Final = st.builds(
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
    auto_scaled=st.booleans(),
    memory_bytes_max=st.sampled_from((0, 5_000, 1 << 26)),
    ack_group_s=st.sampled_from((0.0, 0.1)),
    chunking=st.booleans(),
)
COUNTED: Final = {
    "send": 30,
    "receive": 30,
    "acknowledge": 30,
    "acknowledge_stored": 5,
    "acknowledge_cumulative": 30,
    "negative_acknowledge": 5,
    "seek_back": 30,
    "commit": 5,
    "abort": 5,
}
"""What is done up to so many times in a step."""
STEPS: Final = st.lists(
    st.one_of(
        *(st.tuples(st.just(name), st.integers(1, most)) for name, most in COUNTED.items()),
        st.tuples(st.just("pass_time"), st.sampled_from((0, 1, 30))),
        *(
            st.tuples(st.just(name), st.just(0))
            for name in (
                "redeliver", "cut", "restart", "unload", "consume_anew", "seek_to_beginning",
                "seek_to_end", "seek_to_time", "read_all",
            )
        ),
    ),
    max_size=25,
)  # fmt: skip


@dataclass
class InTransaction:
    """What belongs to one transaction."""

    id: TransactionId
    sent: list[int] = field(default_factory=list)


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
        """Since the last seek."""
        self.first_wanted = 0
        """Nothing before it has to come: the subscription was set there."""
        self.is_set = True
        """Nor may it: this consumer has set it there, and knows where it is. Another one may get
        again what stands in the same entry, as with the official clients."""
        self.settled: set[int] = set()
        """Whose acknowledgement has a receipt, on one connection: they must not come again. What
        came over an earlier one may have come over the next before it was acknowledged, and wait
        in the queue, as in the official clients."""
        self.is_calm = not (setup.faults.cut_bytes_mean or setup.faults.silent)
        self.transactions: list[InTransaction] = []
        self.refused: set[int] = set()
        """Messages of transactions whose time was up."""
        self.is_partly_acknowledged = False
        """A transaction has a part of a batch, the rest of which is acknowledged when it comes
        again."""

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
                transactions=True,
            ),
        )  # type: ignore[assignment]

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
                auto_scaled_queue=setup.auto_scaled and setup.queue_size > 0,
                batch_index_acks=setup.batch_index_acks,
                ack_group_s=setup.ack_group_s,
                negative_ack_delay_s=1.0,
                chunk_expire_s=PATIENCE_S,
            ),
        )  # type: ignore[assignment]

    async def play(self, steps: list[tuple[str, int]]) -> None:
        for name, count in steps:
            await getattr(self, name)(count)

    # Sending

    async def send(self, count: int) -> None:
        for _ in range(count):
            number, self.sent = self.sent, self.sent + 1

            def note(
                found: MessageId | None, error: Exception | None, number: int = number
            ) -> None:
                assert error is None, error
                self.stored.append(number)

            try:
                self.producer.send_nowait(self.body(number), callback=note)
            except QueueFull:  # of the client's memory; nothing has happened
                self.sent = number
                return

    def body(self, number: int) -> bytes:
        """A number; in chunks, if there are chunks."""
        return (b"%d" % number).ljust(LARGE_BYTES if self.setup.chunking else 0)

    # Consuming

    async def receive(self, count: int) -> None:
        with anyio.move_on_after(1):
            for _ in range(count):
                self.take(await self.consumer.receive())

    def take(self, message: Message[bytes]) -> None:
        number = int(message.data)
        assert number not in self.settled, f"{number} came again after its receipt"
        if self.is_set:
            assert number >= self.first_wanted, f"{number} came after a seek to {self.first_wanted}"
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

    def put_down(self, count: int) -> Iterator[Message[bytes]]:
        done, self.in_hand = self.in_hand[:count], self.in_hand[count:]
        return iter(done)

    async def consume_anew(self, _: int) -> None:
        self.is_calm = False
        self.is_set = False
        await self.consumer.close()
        self.in_hand.clear()
        await self.consume()

    # Seeking

    async def seek_back(self, which: int) -> None:
        """Behind a message that came."""
        if self.in_hand:
            message = self.in_hand[which % len(self.in_hand)]
            await self.seek(message.id, int(message.data) + 1)

    async def seek_to_beginning(self, _: int) -> None:
        await self.seek(EARLIEST, 0)

    async def seek_to_end(self, _: int) -> None:
        """Behind all that is stored, which nobody adds to meanwhile."""
        await self.producer.flush()
        await self.seek(LATEST, self.sent)

    async def seek_to_time(self, _: int) -> None:
        """To what is sent from now on."""
        await self.producer.flush()
        await anyio.sleep(1)
        first = self.sent
        await self.seek(self.broker.now_ms(), first)

    async def seek(self, where: MessageId | int, first_wanted: int) -> None:
        """Until it is done: meanwhile nobody knows where the subscription stands."""
        self.first_wanted = 0
        while True:
            try:
                await self.consumer.seek(where)
                break
            except PulsarError:
                await anyio.sleep(0.1)
        self.first_wanted, self.is_set = first_wanted, True
        self.in_hand.clear()
        self.given.clear()
        self.settled.clear()

    # Reading

    async def read_all(self, _: int) -> None:
        """A reader gets each message once, in order, whatever happens to its connection."""
        stored = len(self.stored)
        found: list[int] = []
        async with await self.client.create_reader(TOPIC, EARLIEST) as reader:
            with anyio.move_on_after(60):
                while len(found) < self.sent and await reader.has_message_available():
                    found.append(int((await reader.read()).data))
        assert found == [each for each in range(self.sent) if each in set(found)]
        if not self.transactions:
            assert found == list(range(len(found)))
            assert len(found) >= stored or not self.is_calm

    # Transactions

    async def commit(self, count: int) -> None:
        """Messages and acknowledgements that count."""
        await self.transact(count, commit=True)

    async def abort(self, count: int) -> None:
        """The same, and nothing of it counts."""
        await self.transact(count, commit=False)

    async def transact(self, count: int, *, commit: bool) -> None:
        try:
            transaction = await self.client.begin_transaction(TRANSACTION_S)
        except PulsarError:
            return
        noted = InTransaction(transaction.id)
        self.transactions.append(noted)
        acknowledged = list(self.put_down(count))
        try:
            for message in acknowledged:
                if message.batch_index >= 0:
                    self.is_partly_acknowledged = True
                await transaction.acknowledge(self.consumer, message)
            for _ in range(count):
                await self.send_in(transaction, noted)
            if not commit:
                await transaction.abort()
                return
            await transaction.commit()
        except PulsarError:
            # What was sent may be there, what was acknowledged may come.
            await self.give_up(transaction)
            return
        assert transaction.id in self.broker.transactions.committed
        if self.is_calm and not self.is_partly_acknowledged:
            self.settled |= {int(message.data) for message in acknowledged}

    async def send_in(self, transaction: Transaction, noted: InTransaction) -> None:
        number, self.sent = self.sent, self.sent + 1
        noted.sent.append(number)

        def note(found: MessageId | None, error: Exception | None) -> None:
            if error is None:
                self.stored.append(number)
            else:
                self.refused.add(number)

        try:
            await transaction.send(self.producer, self.body(number), callback=note)
        except PulsarError:
            # Never handed over, or refused: the callback would say the same.
            self.refused.add(number)
            raise

    async def give_up(self, transaction: Transaction) -> None:
        with suppress(PulsarError):  # its time will be up
            await transaction.abort()

    # The broker

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

    # The end

    async def settle(self) -> None:
        """Nothing goes wrong any more: everything must be done in the end."""
        self.broker.faults.stop()
        self.is_calm = False
        self.broker.cut()
        await self.producer.flush()
        for message in self.in_hand:
            self.consumer.acknowledge(message)
        quiet = 0
        while True:
            with anyio.move_on_after(5):
                message = await self.consumer.receive()
                self.take(message)
                self.consumer.acknowledge(message)
                quiet = 0
                continue
            if not self.broker.backlog(TOPIC, SUBSCRIPTION):
                return
            quiet += 1
            if quiet > 1 and self.is_partly_acknowledged:
                self.broker.cut()

    def judge(self) -> None:
        visible = [each for each in range(self.sent) if self.counts(each)]
        assert self.stored == [each for each in range(self.sent) if each not in self.refused], (
            "receipts come once, in the order of sends"
        )
        assert list(self.kept()) == [self.body(number) for number in visible]
        firsts = list(dict.fromkeys(each for each in self.given if each >= self.first_wanted))
        wanted = [each for each in visible if each >= self.first_wanted]
        assert firsts == wanted, "each message must come, first in the order of the topic"
        memory = self.client._context.memory
        assert (memory.used, memory.held) == (0, 0), "memory was not released"

    def counts(self, number: int) -> bool:
        """It is no message of a transaction that does not."""
        for each in self.transactions:
            if number in each.sent:
                committed = each.id in self.broker.transactions.committed
                return committed and number not in self.refused
        return True

    def kept(self) -> Iterator[bytes]:
        """What the topic has. Chunks of a message may stand there twice: it is one once its last
        chunk is there."""
        chunks: dict[int, bytes] = {}
        topic = self.broker.topic(TOPIC)
        for place, entry in enumerate(topic.entries):
            if place in topic.aborted:
                continue
            head, at = split_body(entry.body)
            metadata = parse_metadata(head)
            if entry.is_batch:
                count = metadata.num_messages_in_batch
                yield from (payload for _, payload in split_batch(entry.body[at:], count))
            elif metadata.num_chunks_from_msg > 1:
                chunks[metadata.chunk_id] = entry.body[at:]
                if metadata.chunk_id + 1 == metadata.num_chunks_from_msg:
                    yield b"".join(chunks[each] for each in range(metadata.num_chunks_from_msg))
                    chunks.clear()
            else:
                yield entry.body[at:]
