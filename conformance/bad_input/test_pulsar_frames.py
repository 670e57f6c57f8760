"""Random, truncated and mutated frames on the Pulsar port affect nobody but their sender."""

import asyncio
import random
import struct
from collections.abc import Iterator

import pytest
from conformance.bad_input.attack import GROWTH_BYTES_MAX, attack, numbered
from conformance.bad_input.mutations import broken
from conformance.brokers.arneb import Arneb
from conformance.wire.protobuf import Value, decode
from conformance.wire.pulsar import (
    Command,
    Entry,
    PulsarClient,
    connect_frame,
    payload_frame,
    simple_frame,
)
from conformance.wire.running import run

TOPIC = "persistent://public/default/bystander"
VICTIM = "persistent://public/default/victim"
FRAME_BYTES_MAX = 5 * 1024 * 1024 + 10 * 1024
BYSTANDER_PAUSE_S = 0.002


def legal_frames() -> Iterator[bytes]:
    """One of each common command, for a producer and a consumer with id 1."""
    commands: list[tuple[Command, list[tuple[int, Value]]]] = [
        (Command.PRODUCER, [(1, VICTIM), (2, 1), (3, 1)]),
        (Command.SUBSCRIBE, [(1, VICTIM), (2, "s"), (3, 1), (4, 1), (5, 2), (8, 0), (13, 1)]),
        (Command.LOOKUP, [(1, VICTIM), (2, 3)]),
        (Command.FLOW, [(1, 1), (2, 100)]),
        (Command.ACK, [(1, 1), (2, 0), (3, [(1, 1), (2, 0), (5, 1)]), (8, 4)]),
        (Command.ACK, [(1, 1), (2, 1), (3, [(1, 1), (2, 7)])]),
        (Command.REDELIVER, [(1, 1), (2, [(1, 1), (2, 0)])]),
        (Command.GET_LAST_MESSAGE_ID, [(1, 1), (2, 5)]),
        (Command.UNSUBSCRIBE, [(1, 1), (2, 6)]),
        (Command.CLOSE_CONSUMER, [(1, 1), (2, 7)]),
        (Command.CLOSE_PRODUCER, [(1, 1), (2, 8)]),
        (Command.PING, []),
        (Command.PONG, []),
    ]
    yield connect_frame()
    for command, fields in commands:
        yield simple_frame(command, fields)
    metadata: list[tuple[int, Value]] = [(1, "p"), (2, 0), (3, 1), (6, "key")]
    metadata.append((4, [(1, "k"), (2, "v")]))
    yield payload_frame(Command.SEND, [(1, 1), (2, 0), (3, 1)], metadata, b"payload")
    batch = b"".join(struct.pack(">I", 2) + b"\x18\x01" + b"x" for _ in range(3))
    yield payload_frame(Command.SEND, [(1, 1), (2, 1), (3, 3)], [*metadata, (11, 3)], batch)


LEGAL = list(legal_frames())
SETUP = LEGAL[1] + LEGAL[2]


def make(dice: random.Random) -> tuple[bytes, bytes]:
    """Broken input before CONNECT, after it, or after a producer and a consumer have been
    created."""
    match dice.randrange(4):
        case 0:
            return b"", broken(dice, LEGAL)
        case 1:
            return LEGAL[0], broken(dice, LEGAL)
        case _:
            return LEGAL[0] + SETUP, broken(dice, LEGAL)


def check_answer(answer: bytes) -> None:
    """Check that the answer consists of whole frames that contain commands."""
    while len(answer) >= 4:
        total = struct.unpack_from(">I", answer)[0]
        assert total <= FRAME_BYTES_MAX
        if len(answer) < total + 4:
            return  # cut off by a reset
        size = struct.unpack_from(">I", answer, 4)[0]
        assert 1 in decode(answer[8 : 8 + size]), "expected a command with a type"
        answer = answer[total + 4 :]


class Bystander:
    """A well-behaved client of the same broker: sends with receipts and consumes at the same
    time."""

    def __init__(self, client: PulsarClient) -> None:
        self.client = client
        self.sent = 0
        self.got: list[int] = []
        self.receipts: list[asyncio.Future[object]] = []
        client.received = self._received

    @classmethod
    async def open(cls, broker: Arneb) -> "Bystander":
        bystander = cls(await PulsarClient.open(broker.pulsar_address))
        await bystander.client.subscribe(TOPIC, "bystander")
        await bystander.client.create_producer(TOPIC)
        bystander.client.flow(1 << 20)
        return bystander

    async def work(self) -> None:
        """Send and consume until cancelled."""
        while True:
            receipt = self.client.send(self.sent, b"%d" % self.sent)
            self.receipts.append(receipt)  # type: ignore[arg-type]
            self.sent += 1
            await asyncio.sleep(BYSTANDER_PAUSE_S)

    async def settle(self) -> None:
        """Wait until every message has its receipt and has come back."""
        async with asyncio.timeout(10):
            await asyncio.gather(*self.receipts)
            while len(self.got) < self.sent:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def _received(self, _: int, entry: Entry) -> None:
        self.got.append(int(entry.payload))


@pytest.fixture
def arneb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arneb]:
    broker = Arneb(tmp_path_factory.mktemp("arneb"), listeners=("pulsar",))
    try:
        yield broker.start()
    finally:
        broker.stop()


def test_broken_frames_do_not_affect_other_clients(arneb: Arneb, frames: int, seed: int) -> None:
    """No crash, no leak, and no disturbance of others; each sender gets an error or a closed
    connection."""

    async def scenario() -> None:
        bystander = await Bystander.open(arneb)
        working = asyncio.create_task(bystander.work())
        pieces = numbered(frames, seed, make)
        outcome = await attack(arneb.pulsar_address, pieces, arneb, check_answer)
        working.cancel()
        await bystander.settle()
        assert bystander.client.closed is None
        assert bystander.got == list(range(bystander.sent))
        assert outcome.unclosed == []
        assert outcome.sent == frames
        assert outcome.growth_bytes < GROWTH_BYTES_MAX

    print(f"seed {seed}")
    run(scenario())
