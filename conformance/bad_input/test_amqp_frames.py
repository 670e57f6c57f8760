"""Random, truncated and mutated frames on the AMQP port affect nobody but their sender."""

import asyncio
import random
import struct

from conformance.bad_input.attack import GROWTH_BYTES_MAX, attack, numbered
from conformance.bad_input.mutations import broken
from conformance.conftest import Target
from conformance.wire.amqp import PROTOCOL_HEADER, AmqpClient, Delivery
from conformance.wire.running import run
from pamqp import base, body, commands, frame, header
from pamqp.exceptions import UnmarshalingException

QUEUE = "bystander"
VICTIM = "victim"
BYSTANDER_PAUSE_S = 0.002
SETTLED_WITHIN_S = 60.0
RABBITMQ_PART = 0.05
"""RabbitMQ gets only this share of the input, because it holds a refused connection for seconds
before it closes it."""


def framed(method: base.Frame, channel: int = 1) -> bytes:
    return frame.marshal(method, channel)


def published(data: bytes, **properties: object) -> bytes:
    content = header.ContentHeader(0, len(data), commands.Basic.Properties(**properties))  # type: ignore[arg-type]
    method = commands.Basic.Publish(exchange="", routing_key=VICTIM)
    return framed(method) + frame.marshal(content, 1) + frame.marshal(body.ContentBody(data), 1)


HANDSHAKE = [
    framed(commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), 0),
    framed(commands.Connection.TuneOk(2047, 131072, 0), 0),
    framed(commands.Connection.Open("/"), 0),
    framed(commands.Channel.Open()),
]
LEGAL = [
    *HANDSHAKE,
    framed(commands.Queue.Declare(queue=VICTIM, exclusive=True)),
    framed(commands.Queue.Declare(queue=VICTIM, passive=True, arguments={"x": [1, {"b": None}]})),
    framed(commands.Queue.Bind(queue=VICTIM, exchange="amq.topic", routing_key="a.#")),
    framed(commands.Exchange.Declare(exchange="amq.topic", passive=True)),
    framed(commands.Confirm.Select()),
    framed(commands.Basic.Qos(prefetch_count=10)),
    framed(commands.Basic.Consume(queue=VICTIM, consumer_tag="t")),
    framed(commands.Basic.Get(queue=VICTIM)),
    framed(commands.Basic.Ack(1, True)),
    framed(commands.Basic.Nack(1, True, True)),
    framed(commands.Basic.Cancel("t")),
    framed(commands.Channel.Close(200, "", 0, 0)),
    framed(commands.Connection.Close(200, "", 0, 0), 0),
    published(b"body"),
    published(b"x" * 200, headers={"k": "v", "n": [1, 2]}, delivery_mode=2, message_id="m"),
    b"\x08\x00\x00\x00\x00\x00\x00\xce",
]  # fmt: skip


def make(dice: random.Random) -> tuple[bytes, bytes]:
    """Broken input at any point in the life of a connection."""
    state = dice.randrange(8)
    if state == 0:
        return b"", broken(dice, [PROTOCOL_HEADER, *HANDSHAKE])
    if state <= 2:
        return PROTOCOL_HEADER + b"".join(HANDSHAKE[: dice.randrange(4)]), broken(dice, LEGAL)
    declare = framed(commands.Queue.Declare(queue="", exclusive=True))
    return PROTOCOL_HEADER + b"".join(HANDSHAKE) + declare, broken(dice, LEGAL)


def check_answer(answer: bytes) -> None:
    """Check that the answer consists of whole frames, or is the broker's protocol header."""
    while answer and answer[:4] != b"AMQP":
        if len(answer) < 8:
            return  # cut off by a reset
        size = struct.unpack_from(">I", answer, 3)[0]
        if len(answer) < size + 8:
            return
        assert answer[size + 7] == 0xCE, f"expected a frame end, got {answer[:64]!r}"
        try:
            frame.unmarshal(answer[: size + 8])
        except UnmarshalingException as error:
            # An error text quotes a malformed name byte for byte, as RabbitMQ's does, and those
            # bytes need not be UTF-8. Some seeds produce one.
            if "codec can't decode" not in str(error):
                raise
        answer = answer[size + 8 :]


class Bystander:
    """A well-behaved client of the same broker: publishes with confirms and consumes at the same
    time."""

    def __init__(self, client: AmqpClient) -> None:
        self.client = client
        self.confirmed = 0
        self.got: list[int] = []
        client.handlers.confirmed = self._confirmed
        client.handlers.delivered = self._delivered

    @classmethod
    async def open(cls, target: Target) -> "Bystander":
        bystander = cls(await AmqpClient.open(target.address))
        await bystander.client.declare_queue(QUEUE)
        await bystander.client.call(commands.Queue.Purge(queue=QUEUE), commands.Queue.PurgeOk)
        await bystander.client.confirm_select()
        await bystander.client.consume(QUEUE, prefetch=100)
        return bystander

    async def work(self) -> None:
        """Publish and consume until cancelled."""
        while True:
            self.client.publish("", QUEUE, b"%d" % self.client.published)
            await asyncio.sleep(BYSTANDER_PAUSE_S)

    async def settle(self) -> None:
        """Wait until every publish is confirmed and every message has come back."""
        async with asyncio.timeout(SETTLED_WITHIN_S):
            while min(len(self.got), self.confirmed) < self.client.published:
                await self.client.round_trip()

    def _confirmed(self, tags: list[int], acked: bool) -> None:
        assert acked
        self.confirmed += len(tags)

    def _delivered(self, delivery: Delivery) -> None:
        self.got.append(int(delivery.body))
        self.client.acknowledge(delivery.tag)


def test_broken_frames_do_not_affect_other_clients(broker: Target, frames: int, seed: int) -> None:
    """No crash, no leak, and no disturbance of others; each sender gets an error or a closed
    connection."""

    async def scenario() -> None:
        bystander = await Bystander.open(broker)
        working = asyncio.create_task(bystander.work())
        count = int(frames * RABBITMQ_PART) if broker.is_rabbitmq else frames
        pieces = numbered(count, seed, make)
        outcome = await attack(broker.address, pieces, broker.process, check_answer)
        working.cancel()
        await bystander.settle()
        assert bystander.client.closed is None
        assert bystander.got == list(range(bystander.client.published))
        assert bystander.confirmed == bystander.client.published
        assert outcome.unclosed == []
        assert outcome.sent == count
        if not broker.is_rabbitmq:
            assert outcome.growth_bytes < GROWTH_BYTES_MAX

    print(f"seed {seed}")
    run(scenario())
