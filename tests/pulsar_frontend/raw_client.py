"""A client of the tests: whole commands over a stream, one after the other."""

import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing
from google.protobuf.message import Message
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.server.listener import serve_connection
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.commands import FIELD_OF
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandConnect,
    CommandFlow,
    CommandProducer,
    CommandSend,
    CommandSubscribe,
    MessageMetadata,
)

WITHIN_S = 10.0

Reply = tuple[Any, bytes]


def body_of(payload: bytes, **fields: Any) -> bytes:
    """Headers and payload of a message."""
    values = {"producer_name": "p", "sequence_id": 1, "publish_time": 1} | fields
    return join_body(MessageMetadata(**values).SerializeToString(), payload)


class Closed(Exception):
    """The broker closed the connection."""


class RawClient:
    """One connection to the broker."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._reader = FrameReader()
        self._replies: deque[Reply] = deque()
        self._requests = 0

    async def send(self, *commands: Message, body: bytes | None = None) -> None:
        await self.stream.send_all(received(*commands, body=body).data)

    async def reply(self, within_s: float = WITHIN_S) -> Reply:
        """The next command from the broker with its payload. Raises :class:`Closed`."""
        while not self._replies:
            with trio.fail_after(within_s):
                data = await self.stream.receive_some()
            if not data:
                raise Closed
            for command, payload in zip(*self._reader.receive(bytes(data)), strict=True):
                base = BaseCommand.FromString(command)
                self._replies.append((getattr(base, FIELD_OF[base.type]), payload))
        return self._replies.popleft()

    async def expect(self, kind: type[Message]) -> Any:
        """The next command, which must be of that kind."""
        command, _ = await self.reply()
        assert isinstance(command, kind), f"expected {kind.__name__}, got {command}"
        return command

    async def silent(self, seconds: float = 0.05) -> bool:
        """Does nothing come?"""
        with trio.move_on_after(seconds):
            self._replies.appendleft(await self.reply(math.inf))
            return False
        return True

    async def connect(self, name: str = "test") -> "RawClient":
        await self.send(CommandConnect(client_version=name, protocol_version=20))
        await self.reply()
        return self

    async def producer(self, topic: str = "t", producer_id: int = 1, **fields: Any) -> Any:
        """Open a producer; the answer."""
        self._requests += 1
        command = CommandProducer(
            topic=topic, producer_id=producer_id, request_id=self._requests, **fields
        )
        await self.send(command)
        return (await self.reply())[0]

    async def publish(self, *payloads: bytes, producer_id: int = 1, first: int = 0) -> None:
        """Send messages in one piece, without waiting for receipts."""
        data = b"".join(
            received(
                CommandSend(producer_id=producer_id, sequence_id=first + index),
                body=body_of(payload, sequence_id=first + index),
            ).data
            for index, payload in enumerate(payloads)
        )
        await self.stream.send_all(data)

    async def subscribe(self, topic: str = "t", consumer_id: int = 1, **fields: Any) -> Any:
        """Attach a consumer; the answer."""
        self._requests += 1
        values = {"subscription": "s", "subType": CommandSubscribe.Shared} | fields
        command = CommandSubscribe(
            topic=topic, consumer_id=consumer_id, request_id=self._requests, **values
        )
        await self.send(command)
        return (await self.reply())[0]

    async def flow(self, permits: int, consumer_id: int = 1) -> None:
        await self.send(CommandFlow(consumer_id=consumer_id, messagePermits=permits))

    async def take(self, count: int) -> list[Reply]:
        """The next messages."""
        return [await self.reply() for _ in range(count)]

    async def acknowledge(self, *ids: Message, consumer_id: int = 1, **fields: Any) -> None:
        kind = fields.pop("ack_type", CommandAck.Individual)
        ack = CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=ids, **fields)
        await self.send(ack)


@asynccontextmanager
async def connected(
    context: BrokerContext, count: int = 1, *, name: str = "test"
) -> AsyncIterator[tuple[RawClient, ...]]:
    """So many connected clients of that name; all have left when the block is over."""
    async with trio.open_nursery() as nursery:
        clients = []
        for number in range(count):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(
                serve_connection, context, theirs, "pulsar://here:1", f"connection {number}"
            )
            clients.append(await RawClient(ours).connect(name))
        yield tuple(clients)
        for client in clients:
            await client.stream.aclose()
