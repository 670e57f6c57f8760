"""One connection: reads bytes, passes them to its session, and writes the answers.

The rule: nothing here decides anything about the protocol, and no error in one connection reaches
another. One task reads, one task writes; everything due at a wake-up is written with one flush.
"""

import logging
from collections.abc import Iterable
from typing import Final

import trio

from arneb_core.api.connections.plain_stream import PlainStream
from arneb_core.api.process.long_turns import FIRST_READ_BYTES, SHORT_READ_BYTES, WAKING_BYTES
from arneb_pulsar.authorization.callers import NOBODY
from arneb_pulsar.server.effects import EffectRunner
from arneb_pulsar.server.requests import Endpoint
from arneb_pulsar.server.writer import Writer
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.session.connection.connection import ConnectionSession
from arneb_pulsar.session.interface import events
from arneb_pulsar.session.interface.effects import Effect

UNREAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Unasked bytes, such as the news that a consumer has become active, are sent however full the
connection is; a client that leaves more than this unread counts as gone."""

SMALL_UNITS: Final = 16
"""Small requests handled in one turn after the first, some of which count more than once: 2 ms."""

FAREWELL_S: Final = 1.0
"""How long the last flush of a closing connection may take."""

LEASED: Final = (events.Delivered, events.ActiveChanged)
"""Unasked events that only the leader may report."""

logger = logging.getLogger(__name__)


class Connection:
    """A connected client (:class:`arneb_pulsar.services.clients.connections.ClientConnection`)."""

    def __init__(self, context: BrokerContext, stream: trio.abc.Stream, endpoint: Endpoint) -> None:
        config, clock = context.config, context.clock
        self.address = endpoint.address
        self.is_secured = endpoint.service_url.startswith("pulsar+ssl:")
        self._context = context
        self._clock = clock
        self._stream = stream
        self.caller = NOBODY
        self._session = ConnectionSession(
            config, context.server_version, clock.now(), context.authorizer
        )
        self._writer = Writer(
            stream, self._session, config.outbox_bytes_max, context.long_turns, context.core.lease
        )
        self._effects = EffectRunner(
            context,
            self,
            endpoint,
            self._session,
            close=self._close,
            authenticated=self._authenticated,
        )
        self._scope = trio.CancelScope()
        self._heard = trio.Event()
        self._timer = trio.CancelScope()
        self._closing = False
        self._is_over = False
        self._paused = False
        self._in_turn = False
        """What is told during a turn is sent at its end."""
        self._whose_turn = 0
        self.received_bytes = 0

    def __repr__(self) -> str:
        state = "closing " if self._closing else "paused " if self._paused else ""
        who = f"{self.caller.role}@" if self.caller.role else ""
        parts = "over" if self._is_over else f"{self._session!r} {self._effects!r}"
        return f"<Connection {who}{self.address} {state}{parts}>"

    @property
    def client_name(self) -> str:
        """The client's library, with its version."""
        return self._session.client.name

    @property
    def sent_bytes(self) -> int:
        """Bytes written to it."""
        return self._writer.sent_bytes

    @property
    def is_full(self) -> bool:
        """Its client leaves so much unread that nothing more should be sent."""
        return self._writer.is_full(self._session.waiting_bytes)

    async def room(self) -> None:
        """Wait until not :attr:`is_full`."""
        while self.is_full:
            await self._writer.flushed()

    async def run(self) -> None:
        """Serve the client until it leaves, breaks the protocol, or :meth:`kill`."""
        logger.debug("= %s connected", self.address)
        self._whose_turn = -(self._context.connections.number_of(self) or 0)
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._effects.tasks.nursery = nursery
                    nursery.start_soon(self._writer.run, self._flushed)
                    await self._read()
                    if self._closing:
                        with trio.move_on_after(FAREWELL_S):
                            await self._writer.flushed()
                    nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client is gone, as it may be
        finally:
            self._closing = True
            await self._effects.release_in_turns()
            self._leave()
            with trio.move_on_after(FAREWELL_S, shield=True):
                await self._writer.farewell()
            await trio.aclose_forcefully(self._stream)
            self._come_apart()
            logger.debug("= %s gone", self.address)

    def kill(self) -> None:
        """End the connection: its client is dead."""
        self._leave()
        self._scope.cancel()

    async def is_alive(self) -> bool:
        """Ping the client, and wait for an answer as long as the settings allow."""
        if self._closing:
            return False
        if self._paused or self._session.has_more:
            return True  # it is the broker that does not read
        if not self._session.probe():
            return True  # its client is too old to be asked
        self._writer.wake()
        with trio.move_on_after(self._context.config.probe_timeout_s) as waited:
            await self._heard.wait()
        return not waited.cancelled_caught

    def tell(self, event: events.Event) -> None:
        """Report ``event`` to the session, and carry out the effects.

        The core calls this too, and must not suffer from a defect of ours: it costs this client its
        connection, as a defect in the connection's own tasks does.
        """
        if self._is_over:
            return  # commits may have been under way
        if isinstance(event, LEASED):
            self._writer.is_leased = True
        try:
            self._effects.run(self._session.handle(event, self._clock.now()))
        except Exception:
            logger.exception("unexpected error in the connection of %s", self.address)
            self._closing = True
            self._scope.cancel()
            return
        if isinstance(event, events.ConsumerAttached):
            self._timer.deadline = self._session.next_timer()
        if not self._in_turn:
            self._writer.wake()
        if self.is_full:
            self._effects.consumers.set_writable(writable=False)
            if self._session.unrequested_bytes > UNREAD_BYTES_MAX:
                logger.info("x %s: does not read its answers", self.address)
                self._closing = True
                self._scope.cancel()

    # Reading

    async def _read(self) -> None:
        """Read until the client closes or must be closed."""
        session, clock, turns, asks = (
            self._session,
            self._clock,
            self._context.long_turns,
            False,
        )
        stream = self._stream
        receive = stream.receive_next if isinstance(stream, PlainStream) else stream.receive_some
        while not self._closing:
            if asks:
                await self._my_turn()
            most = self._effects.publishing.receive_bytes
            piece = most if asks else min(most, FIRST_READ_BYTES)
            with trio.move_on_at(session.next_timer()) as self._timer:
                data = await receive(piece)
            now = clock.now()
            if self._timer.cancelled_caught:
                self._effects.run(session.handle_timer(now, clock.wall_ms()))
                self._writer.is_leased = True  # it may say who is active
                self._writer.wake()
                continue
            if not data:
                return
            self.received_bytes += len(data)
            self._heard.set()
            self._heard = trio.Event()
            if not self._context.core.lease.holds:
                if not await self._leased():
                    return  # another node leads
                now = clock.now()
            if not asks:
                if len(data) > SHORT_READ_BYTES:
                    await self._my_turn()
                    now = clock.now()
                else:
                    turns.short_left -= len(data) + WAKING_BYTES
                    if turns.short_left <= turns.SHORT_LOW:
                        await self._my_short_turn(len(data))
                        now = clock.now()
            # Read in small pieces again only once little comes, lest a batch be cut in two.
            asks = len(data) > (SHORT_READ_BYTES if asks else FIRST_READ_BYTES - 1)
            if len(data) > self._effects.publishing.receive_bytes:
                data = await self._in_pieces(bytes(data))
                if not data:
                    return
                now = clock.now()
            self._turn(session.receive_data(bytes(data), now, clock.wall_ms()))
            if self._must_pause():
                await self._pause()
            if session.has_more:
                await self._handle_rest()

    async def _in_pieces(self, data: bytes) -> bytes:
        """Handle a read that is longer than may be read at once by now, except for the last piece;
        return that, or nothing if the connection ends. The read under way while a producer is
        opened was begun before it was known that its topic has a rate."""
        session, clock, begin = self._session, self._clock, 0
        while not self._closing and (self._context.core.lease.holds or await self._leased()):
            end = begin + self._effects.publishing.receive_bytes
            if end >= len(data):
                return data[begin:]
            self._turn(session.receive_data(data[begin:end], clock.now(), clock.wall_ms()))
            begin = end
            if self._must_pause():
                await self._pause()
            if session.has_more:
                await self._handle_rest()
            await self._my_turn()  # hundreds of pieces in one turn would be 40 ms
        return b""

    def _turn(self, wanted: Iterable[Effect]) -> None:
        """Carry out what the client's bytes ask for, and small requests after it; what is on disk
        at the end of the turn is answered with the same write."""
        core, session, effects = self._context.core, self._session, self._effects
        core.turn_begins(self._whose_turn)
        self._in_turn = self._writer.is_leased = True
        effects.transactions.units_left = SMALL_UNITS
        try:
            effects.run(wanted)
            while session.was_small and self._may_handle_more():
                effects.run(session.handle_more(self._clock.now(), self._clock.wall_ms()))
        finally:
            core.turn_ends(may_be_called=True)
            self._in_turn = False
        if self._writer.say():
            self._flushed()

    def _may_handle_more(self) -> bool:
        """Whether more of what came may be handled in this turn."""
        is_short = self._effects.transactions.units_left > 0
        return self._session.has_more and is_short and not self._must_pause()

    async def _leased(self) -> bool:
        """Wait until requests may be answered; return False if they never may be here."""
        self._paused = True
        held = await self._context.core.lease.held()
        self._paused = False
        self._session.resumed(self._clock.now())
        return held

    async def _my_turn(self) -> None:
        """Wait until others have had their turn; the client, not being read, counts as alive."""
        self._paused = True
        await self._context.long_turns.begin()
        self._paused = False
        self._session.resumed(self._clock.now())

    async def _my_short_turn(self, size: int) -> None:
        """As :meth:`_my_turn`, with a short read of ``size`` bytes."""
        self._paused = True
        await self._context.long_turns.begin_short(size)
        self._paused = False
        self._session.resumed(self._clock.now())

    async def _handle_rest(self) -> None:
        """Handle what has been read, one request after the other."""
        while self._session.has_more and not self._closing:
            # Others first: an answer may take as long as a hundred messages.
            await self._context.long_turns.next()
            if not (self._context.core.lease.holds or await self._leased()):
                return
            self._turn(self._session.handle_more(self._clock.now(), self._clock.wall_ms()))
            if self._must_pause():
                await self._pause()

    def _must_pause(self) -> bool:
        """Return whether there is no room for the answer to one more request. Requests that wait
        for the core count with their own size, which is what they hold."""
        tasks, context = self._effects.tasks, self._context
        return (
            context.core.crowded
            or context.deduplications.crowded
            or tasks.is_full
            or self._writer.is_full(self._session.waiting_bytes + tasks.pending_bytes)
            or self._effects.publishing.silent_until > 0
        )

    async def _pause(self) -> None:
        """Read nothing until there is room: the client's own socket then makes it wait."""
        tasks, publishing = self._effects.tasks, self._effects.publishing
        self._paused = True
        while self._must_pause() and not self._closing:
            await self._context.core.room()
            await self._context.deduplications.room()
            await self._writer.flushed()
            if tasks.is_full or self._writer.is_full(tasks.pending_bytes):
                await tasks.one_done()
            if publishing.silent_until:
                await publishing.keep_silent()
        self._paused = False
        self._session.resumed(self._clock.now())

    # What the session asks of the connection itself

    def _close(self, reason: str) -> None:
        logger.info("x %s: %s", self.address, reason)
        self._closing = True
        self._timer.cancel()

    def _authenticated(self, event: events.Authenticated) -> None:
        """The client's identity is proved, and stays the same; its proof may expire before anything
        else is due."""
        if self.caller is NOBODY:
            self.caller = event.caller
        self.tell(event)
        self._timer.deadline = self._session.next_timer()

    # Back-pressure and the end

    def _flushed(self) -> None:
        """Go on after a flush: the connection may no longer be full."""
        if not self.is_full:
            self._effects.consumers.set_writable(writable=True)
            self._context.watchers.catch_up(self)

    def _come_apart(self) -> None:
        """Drop all references that form cycles, so that the connection is freed with its last user
        and not only by a full garbage collection."""
        self._is_over = True
        self._session.end()
        del self._effects

    def _leave(self) -> None:
        """Give back everything that the client held. Idempotent."""
        if self._is_over:
            return
        self._closing = True
        self._effects.release_all()
