"""A proxy in front of a broker, as Apache Pulsar's: who looks up is told to come through it, and
whoever names a broker when connecting is carried to that one.

The rule: it changes only what Pulsar's proxy changes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteStream, SocketStream

from arneb_pulsar.client.connection.commands import frame_of
from arneb_pulsar.client.connection.dialling import parse_address
from arneb_pulsar.wire.commands import FIELD_OF, parse_command
from arneb_pulsar.wire.frame import MESSAGE_BYTES_MAX, FrameReader, simple_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandConnect,
    CommandConnected,
    CommandLookupTopicResponse,
)

READ_BYTES = 64 * 1024
FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + 128 * 1024
ENDS = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


@dataclass
class Proxy:
    """Where it is, and whom it has carried where."""

    broker_url: str
    url: str = ""
    carried_to: list[str] = field(default_factory=list)
    """The brokers that clients have named, as they have named them."""

    async def _serve(self, client: SocketStream) -> None:
        with suppress(*ENDS):
            async with client:
                reader = FrameReader(FRAME_BYTES_MAX)
                commands: list[bytes] = []
                while not commands:
                    found, _ = reader.receive(await client.receive(READ_BYTES))
                    commands += found
                connect = parse_command(commands[0]).connect
                await self._carry(client, connect, commands[1:])

    async def _carry(
        self, client: SocketStream, connect: CommandConnect, more: list[bytes]
    ) -> None:
        named = connect.proxy_to_broker_url
        connect.ClearField("proxy_to_broker_url")
        if named:
            self.carried_to.append(named)
        address = parse_address(f"pulsar://{named}" if named else self.broker_url)
        broker = await anyio.connect_tcp(address.host, address.port)
        async with broker:
            await broker.send(frame_of(connect) + b"".join(map(simple_frame, more)))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_end, tasks.cancel_scope, client, broker, False)
                tasks.start_soon(self._until_end, tasks.cancel_scope, broker, client, not named)

    async def _until_end(
        self, ended: anyio.CancelScope, source: ByteStream, target: ByteStream, is_lookup: bool
    ) -> None:
        reader = FrameReader(FRAME_BYTES_MAX)
        with suppress(*ENDS):
            while True:
                data = await source.receive(READ_BYTES)
                if is_lookup:
                    commands, _ = reader.receive(data)
                    data = b"".join(map(_answer, commands))
                await target.send(data)
        ended.cancel()


def _answer(raw: bytes) -> bytes:
    """The frame that a client gets for an answer to who looks up."""
    base = parse_command(raw)
    command = getattr(base, FIELD_OF[base.type])
    if isinstance(command, CommandLookupTopicResponse):
        command.proxy_through_service_url = True
    elif isinstance(command, CommandConnected):
        command.feature_flags.supports_topic_watchers = False
    return frame_of(command)


@asynccontextmanager
async def proxy_of(broker_url: str) -> AsyncIterator[Proxy]:
    """One that runs."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    made = Proxy(broker_url)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    made.url = f"pulsar://127.0.0.1:{port}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, made._serve)
        yield made
        tasks.cancel_scope.cancel()
