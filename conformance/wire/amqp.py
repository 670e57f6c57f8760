"""A minimal AMQP 0-9-1 client on raw frames, for what libraries hide.

The rule: it reports what arrived and when, and decides nothing. Each confirm, delivery and close is
passed on as it is read; publishing does not wait. pamqp builds and parses the frames. There is no
recovery and there are no heartbeats.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Self

from conformance.brokers.process import Address
from conformance.wire.running import dropped, opened
from pamqp import base, body, commands, frame, header, heartbeat

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
FRAME_HEAD: Final = struct.Struct(">BHI")
CALL_WITHIN_S: Final = 30.0
PERSISTENT: Final = 2


class AmqpClosed(Exception):
    """The broker closed the channel or the connection, or the stream just ended."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as it was delivered."""

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: commands.Basic.Properties
    body: bytes


@dataclass(slots=True)
class Handlers:
    """Callbacks, called by the reading task in the order of the frames."""

    confirmed: Callable[[list[int], bool], None] = lambda tags, acked: None
    """The publishes that one basic.ack (True) or basic.nack (False) covers."""
    delivered: Callable[[Delivery], None] = lambda delivery: None
    returned: Callable[[commands.Basic.Return], None] = lambda method: None
    ended: Callable[[], None] = lambda: None


@dataclass(slots=True)
class _Content:
    method: Any
    properties: commands.Basic.Properties = field(default_factory=commands.Basic.Properties)
    left: int = 0
    parts: list[bytes] = field(default_factory=list)


class AmqpClient:
    """One connection with one channel, number 1."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.handlers = Handlers()
        self.published = 0
        """The number of publishes on this channel; in confirm mode, the tag of the last one."""
        self.closed: AmqpClosed | None = None
        self._unconfirmed: dict[int, None] | None = None
        """Unconfirmed tags in the order of publishing; None if the channel is not in confirm
        mode."""
        self._reader = reader
        self._writer = writer
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._content: _Content | None = None
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, address: Address, *, user: str = "guest", password: str = "guest") -> Self:
        """Connect, complete the handshake and open channel 1."""
        client = cls(*await asyncio.open_connection(address.host, address.port, limit=1 << 20))
        opened(client)
        client._writer.write(PROTOCOL_HEADER)
        client._reading = asyncio.create_task(client._read())
        await client._expect(commands.Connection.Start)
        response = f"\0{user}\0{password}"
        client._send(0, commands.Connection.StartOk({}, "PLAIN", response, "en_US"))
        tune = await client._expect(commands.Connection.Tune)
        client._send(0, commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        client._send(0, commands.Connection.Open("/"))
        await client._expect(commands.Connection.OpenOk)
        await client.call(commands.Channel.Open(), commands.Channel.OpenOk)
        return client

    async def call(self, method: base.Frame, answer: type[Any]) -> Any:
        """Send a method on channel 1 and wait for its answer. Raises :class:`AmqpClosed`."""
        self._send(1, method)
        return await self._expect(answer)

    async def declare_queue(self, name: str, **arguments: Any) -> commands.Queue.DeclareOk:
        """Declare a queue, by default a durable one."""
        method = commands.Queue.Declare(queue=name, **({"durable": True} | arguments))
        answer: commands.Queue.DeclareOk = await self.call(method, commands.Queue.DeclareOk)
        return answer

    async def confirm_select(self) -> None:
        await self.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        self._unconfirmed = {}

    async def consume(self, queue: str, *, prefetch: int = 0, no_ack: bool = False) -> None:
        """Start a consumer; deliveries go to ``handlers.delivered``."""
        await self.call(commands.Basic.Qos(prefetch_count=prefetch), commands.Basic.QosOk)
        method = commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=no_ack)
        await self.call(method, commands.Basic.ConsumeOk)

    def publish(
        self,
        exchange: str,
        routing_key: str,
        data: bytes,
        properties: commands.Basic.Properties | None = None,
        *,
        mandatory: bool = False,
    ) -> int:
        """Write one message, persistent unless ``properties`` say otherwise; the result is its
        confirm tag."""
        self.published += 1
        if self._unconfirmed is not None:
            self._unconfirmed[self.published] = None
        method = commands.Basic.Publish(
            exchange=exchange, routing_key=routing_key, mandatory=mandatory
        )
        content = header.ContentHeader(
            0, len(data), properties or commands.Basic.Properties(delivery_mode=PERSISTENT)
        )
        parts = [frame.marshal(method, 1), frame.marshal(content, 1)]
        if data:
            parts.append(frame.marshal(body.ContentBody(data), 1))
        self._write(b"".join(parts))
        return self.published

    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        self._send(1, commands.Basic.Ack(tag, multiple))

    def requeue(self, tag: int) -> None:
        self._send(1, commands.Basic.Nack(tag, False, True))

    def reject(self, tag: int) -> None:
        self._send(1, commands.Basic.Reject(tag, False))

    def send_together(self, methods: Iterable[base.Frame]) -> None:
        """Send methods on channel 1 in one write."""
        self._write(b"".join(frame.marshal(each, 1) for each in methods))

    async def round_trip(self) -> None:
        """Wait until the broker has processed everything sent before."""
        await self.call(commands.Basic.Qos(prefetch_count=0), commands.Basic.QosOk)

    async def drain(self) -> None:
        """Wait until the socket accepts more."""
        await self._writer.drain()

    async def wait_closed(self) -> AmqpClosed:
        """Wait until the broker closes."""
        assert self._reading is not None
        await asyncio.wait([self._reading])
        assert self.closed is not None
        return self.closed

    async def abort(self) -> None:
        """Close the socket without connection.close. Idempotent."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        self._writer.transport.abort()
        dropped(self)

    async def close(self) -> None:
        """Close the connection with connection.close."""
        self._send(0, commands.Connection.Close(200, "bye", 0, 0))
        await self._expect(commands.Connection.CloseOk)
        await self.abort()

    def _send(self, channel: int, method: base.Frame) -> None:
        self._write(frame.marshal(method, channel))

    def _write(self, data: bytes) -> None:
        if self._writer.transport.is_closing():
            raise self.closed or AmqpClosed(0, "the stream is closing")
        self._writer.write(data)

    async def _expect(self, answer: type[Any]) -> Any:
        if self.closed and self._answers.empty():
            raise self.closed
        got = await asyncio.wait_for(self._answers.get(), CALL_WITHIN_S)
        if isinstance(got, AmqpClosed):
            raise got
        assert isinstance(got, answer), f"expected {answer.name}, got {got.name}"
        return got

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(FRAME_HEAD.size)
                size = FRAME_HEAD.unpack(head)[2]
                data = head + await self._reader.readexactly(size + 1)
                self._take(frame.unmarshal(data)[2])
        except AmqpClosed as closed:
            self._end(closed)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._end(AmqpClosed(0, f"stream ended: {error!r}"))
        except asyncio.CancelledError:
            self._end(AmqpClosed(0, "aborted by the test"))
            raise

    def _end(self, closed: AmqpClosed) -> None:
        self.closed = closed
        self._answers.put_nowait(closed)
        self.handlers.ended()

    def _take(self, value: Any) -> None:
        match value:
            case commands.Basic.Ack() | commands.Basic.Nack():
                tags = self._confirmed(value.delivery_tag or 0, bool(value.multiple))
                self.handlers.confirmed(tags, isinstance(value, commands.Basic.Ack))
            case commands.Basic.Deliver() | commands.Basic.Return() | commands.Basic.GetOk():
                self._content = _Content(value)
            case header.ContentHeader():
                assert self._content is not None
                self._content.properties = value.properties
                self._content.left = value.body_size
                self._end_content()
            case body.ContentBody():
                assert self._content is not None
                self._content.parts.append(value.value)
                self._content.left -= len(value.value)
                self._end_content()
            case commands.Channel.Close() | commands.Connection.Close():
                raise AmqpClosed(value.reply_code or 0, value.reply_text or "")
            case heartbeat.Heartbeat():
                pass
            case _:
                self._answers.put_nowait(value)

    def _confirmed(self, tag: int, multiple: bool) -> list[int]:
        """Single confirms may come in any order; a multiple one covers all unconfirmed tags up to
        its own."""
        if self._unconfirmed is None or tag not in self._unconfirmed:
            raise AmqpClosed(0, f"expected a confirm of an open publish, got tag {tag}")
        tags = list(takewhile(lambda open_: open_ <= tag, self._unconfirmed)) if multiple else [tag]
        for confirmed in tags:
            del self._unconfirmed[confirmed]
        return tags

    def _end_content(self) -> None:
        content = self._content
        assert content is not None
        if content.left:
            return
        self._content = None
        method = content.method
        if isinstance(method, commands.Basic.Return):
            self.handlers.returned(method)
            return
        delivery = Delivery(
            method.delivery_tag,
            method.redelivered,
            method.exchange,
            method.routing_key,
            content.properties,
            b"".join(content.parts),
        )
        if isinstance(method, commands.Basic.GetOk):
            self._answers.put_nowait(method)
        self.handlers.delivered(delivery)
