"""A connection to another broker: its socket and its channels.

The rule: the session decides everything; this module reads and writes bytes and wakes waiters.
Deliveries not yet taken are bounded: above the bound nothing more is read.
"""

import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio
from pamqp.base import Frame as Command
from pamqp.commands import Channel

from arneb_amqp.client.events import (
    Answered,
    Blocked,
    Cancelled,
    ChannelEnded,
    Confirmed,
    Delivered,
    Ended,
    Event,
    Opened,
    RemoteClosed,
)
from arneb_amqp.client.session import CHANNELS_MAX, ClientSession
from arneb_amqp.client.uris import BrokerUri
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.replies import make
from arneb_core.api.connections.verification import make_context
from arneb_core.api.process.supervision import sole_error

READ_BYTES: Final = 256 * 1024

UNTAKEN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of deliveries not yet taken, above which the socket is not read."""

GOODBYE_S: Final = 2.0
"""How long the other broker may take to answer a goodbye."""


class ClientChannel:
    """One channel. One task at a time may call, another may take deliveries."""

    def __init__(self, connection: "ClientConnection", number: ChannelId) -> None:
        self._connection = connection
        self.number = number
        self._answers: deque[Command] = deque()
        self.delivered: deque[Delivered] = deque()
        self._published = 0
        self._unconfirmed: dict[int, None] = {}
        self._refused: set[int] = set()
        self.error: RemoteClosed | None = None
        self._news = trio.Event()

    def __repr__(self) -> str:
        return f"<ClientChannel {self.number}, {len(self._unconfirmed)} unconfirmed>"

    async def call(self, method: Command) -> Command:
        """Send a method and wait for its answer. Raises :class:`.RemoteClosed`."""
        self._check()
        self._connection.session.call(self.number, method)
        await self._connection.flush()
        while not self._answers:
            await self._wait()
        return self._answers.popleft()

    async def say(self, method: Command) -> None:
        """Send a method that is not answered. Raises :class:`.RemoteClosed`."""
        self._check()
        self._connection.session.call(self.number, method)
        await self._connection.flush()

    async def receive(self, most: int) -> list[Delivered]:
        """Return deliveries, at least one and at most ``most``. Raises :class:`.RemoteClosed`."""
        while not self.delivered:
            await self._wait()
        taken = [self.delivered.popleft() for _ in range(min(most, len(self.delivered)))]
        self._connection.taken(sum(len(each.payload) for each in taken))
        return taken

    def publish(self, exchange: str, routing_key: str, body: bytes, *, confirmed: bool) -> int:
        """Queue a message for the next flush; return its number on this channel, by which it is
        ``confirmed``. Raises :class:`.RemoteClosed`."""
        self._check()
        self._connection.session.publish(self.number, exchange, routing_key, body)
        self._published += 1
        if confirmed:
            self._unconfirmed[self._published] = None
        return self._published

    async def flush(self) -> None:
        """Write what was published. Raises :class:`.RemoteClosed`."""
        await self._connection.flush()

    async def confirmed(self) -> set[int]:
        """Wait until every publish is answered; return the numbers of refused ones. Raises
        :class:`.RemoteClosed`."""
        while self._unconfirmed:
            await self._wait()
        refused, self._refused = self._refused, set()
        return refused

    def tell(self, event: Answered | Delivered | Confirmed) -> None:
        """Take an event of this channel."""
        match event:
            case Answered(_, method):
                self._answers.append(method)
            case Delivered():
                self.delivered.append(event)
            case Confirmed(_, tags, multiple, stored):
                if multiple:
                    tags = [each for each in self._unconfirmed if each <= tags[0]]
                for tag in tags:
                    if self._unconfirmed.pop(tag, 0) is None and not stored:
                        self._refused.add(tag)
        self._tell()

    def end(self, error: RemoteClosed) -> None:
        """End the channel."""
        self.error = self.error or error
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, trio.Event()
        news.set()

    async def _wait(self) -> None:
        self._check()
        await self._news.wait()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


class ClientConnection:
    """One connection."""

    def __init__(self, session: ClientSession, stream: trio.abc.Stream) -> None:
        self.session = session
        self._stream = stream
        self._channels: dict[int, ClientChannel] = {}
        self._opened = trio.Event()
        self._ended = trio.Event()
        self._error: RemoteClosed | None = None
        self._writing = trio.Lock()
        self._untaken_bytes = 0
        self._room = trio.Event()
        self.is_blocked = False
        """Whether the other broker has blocked publishing."""

    def __repr__(self) -> str:
        return f"<ClientConnection of {self.session!r}>"

    async def channel(self) -> ClientChannel:
        """A new channel. Raises :class:`.RemoteClosed`."""
        number = next(n for n in range(1, CHANNELS_MAX + 1) if n not in self._channels)
        channel = self._channels[number] = ClientChannel(self, ChannelId(number))
        channel.error = self._error
        await channel.call(make(Channel.Open, out_of_band="0"))
        return channel

    async def flush(self) -> None:
        """Write pending output. Raises :class:`.RemoteClosed`."""
        async with self._writing:
            data = self.session.data_to_send(trio.current_time())
            if data:
                try:
                    await self._stream.send_all(data)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    self._tell(self.session.lost("the connection broke"))
                    raise self._error or RemoteClosed("the connection broke") from error

    def taken(self, size: int) -> None:
        """Note that deliveries of ``size`` bytes were taken."""
        self._untaken_bytes -= size
        if self._untaken_bytes < UNTAKEN_BYTES_MAX:
            self._room.set()

    async def opened(self) -> None:
        """Wait until it is open. Raises :class:`.RemoteClosed`."""
        await self.flush()
        await self._opened.wait()
        if self._error is not None:
            raise self._error

    async def run(self) -> None:
        """Read until the connection has ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._beat)
            while self._error is None:
                while self._untaken_bytes >= UNTAKEN_BYTES_MAX:
                    self._room = trio.Event()
                    await self._room.wait()
                try:
                    data = await self._stream.receive_some(READ_BYTES)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    data = b""
                if data:
                    self._tell(self.session.receive(data, trio.current_time()))
                else:
                    self._tell(self.session.lost("the connection was closed"))
                with suppress(RemoteClosed):
                    await self.flush()
            nursery.cancel_scope.cancel()

    async def close(self) -> None:
        """Say goodbye and wait a little for the answer."""
        self.session.close()
        with trio.move_on_after(GOODBYE_S), suppress(RemoteClosed):
            await self.flush()
            await self._ended.wait()

    async def _beat(self) -> None:
        while self._error is None:
            wake = min(self.session.next_timer(), trio.current_time() + 1)
            await trio.sleep_until(wake)
            if self._untaken_bytes < UNTAKEN_BYTES_MAX:  # else this side is not reading
                self._tell(self.session.handle_timer(trio.current_time()))
            with suppress(RemoteClosed):
                await self.flush()
        await self._stream.aclose()

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Opened():
                    self._opened.set()
                case Blocked(is_blocked):
                    self.is_blocked = is_blocked
                case Ended(error):
                    self._error = error
                    self._opened.set()
                    self._ended.set()
                    for channel in self._channels.values():
                        channel.end(error)
                case ChannelEnded(number, error):
                    if (ended := self._channels.pop(number, None)) is not None:
                        ended.end(error)
                case Cancelled(number):
                    if (found := self._channels.get(number)) is not None:
                        found.end(RemoteClosed("the queue was deleted"))
                case Answered() | Delivered() | Confirmed():
                    if isinstance(event, Delivered):
                        self._untaken_bytes += len(event.payload)
                    if (found := self._channels.get(event.channel)) is not None:
                        found.tell(event)


@asynccontextmanager
async def connected(uri: BrokerUri, name: str) -> AsyncIterator[ClientConnection]:
    """Open a connection to the broker of ``uri`` while the block runs. Raises
    :class:`.RemoteClosed` if it cannot be opened."""
    with trio.move_on_after(uri.timeout_s) as patience:
        stream = await _stream(uri)
    if patience.cancelled_caught:
        raise RemoteClosed(f"{uri.host}:{uri.port} cannot be reached in time")
    try:
        connection = ClientConnection(ClientSession(uri, name, trio.current_time()), stream)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            with trio.move_on_after(uri.timeout_s) as patience:
                await connection.opened()
            if patience.cancelled_caught:
                raise RemoteClosed(f"{uri.host}:{uri.port} does not answer in time")
            yield connection
            await connection.close()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise sole_error(group) from None
    finally:
        await trio.aclose_forcefully(stream)


async def _stream(uri: BrokerUri) -> trio.abc.Stream:
    try:
        stream = await trio.open_tcp_stream(uri.host, uri.port)
    except OSError as error:
        raise RemoteClosed(f"{uri.host}:{uri.port} cannot be reached: {error}") from error
    if not uri.tls:
        return stream
    try:
        context = await trio.to_thread.run_sync(_context, uri)
        secured = trio.SSLStream(
            stream, context, server_hostname=uri.server_name or uri.host,
            https_compatible=True,
        )  # fmt: skip
        await secured.do_handshake()
    except (OSError, ssl.SSLError, trio.BrokenResourceError) as error:
        await trio.aclose_forcefully(stream)
        raise RemoteClosed(f"TLS failed: {error.__cause__ or error}") from error
    return secured


def _context(uri: BrokerUri) -> ssl.SSLContext:
    """Make the TLS context; in a thread, because it reads files."""
    context = make_context(cafile=uri.ca_file or None)
    if not uri.verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if uri.certificate_file:
        context.load_cert_chain(uri.certificate_file, uri.key_file or None)
    return context
