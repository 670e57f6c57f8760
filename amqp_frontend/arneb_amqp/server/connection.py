"""One connection: a socket and a session, driven by one task.

The rule: the session handles an event, then its effects are carried out, then its output is
written. The connection's task handles bytes; everything else happens in other tasks' turns and only
marks what must be written, so that one write carries everything from a turn.
"""

import logging
import socket
from functools import partial
from typing import Final

import trio

from arneb_amqp.errors import AmqpError, internal_error
from arneb_amqp.server.context import ConnectionContext, ServerContext
from arneb_amqp.server.operations.consumers import Consumers
from arneb_amqp.server.operations.decompressor import Decompressor
from arneb_amqp.server.operations.effects import EffectRunner
from arneb_amqp.server.transport.read_ahead import ReadAhead
from arneb_amqp.server.transport.reading import Reading
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.server.transport.secured_link import link_of
from arneb_amqp.server.transport.timers import instants
from arneb_amqp.session.compressed_runs import Messages, Piece
from arneb_amqp.session.connection.session import ConnectionSession
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Disconnect, Refused, Token
from arneb_amqp.session.events import AlarmsChanged, Committed, ConsumerClosed, Event
from arneb_amqp.session.transitions import ConnectionState
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.process.resource_alarms import Resource, Short
from arneb_core.api.process.supervision import contain
from arneb_core.api.subscriptions.deliveries import Deliveries

logger = logging.getLogger(__name__)

LINGER_S: Final = 2.0
"""How long a client's bytes are still read after the last write: closing a socket with unread input
makes the kernel discard what the client has not read yet. A client that has closed its connection
has the same time to close the socket first."""

CLEANUP_S: Final = 5.0
"""How long the end of a connection waits for the store, or for millions of messages to be requeued,
before its socket is closed; and the limit for all of it when the broker stops."""


class Connection:
    """One client. Invariants: ``_is_leased`` while pending output includes something that only the
    leader may say; ``_awaits_deliveries`` while the core is due to call :meth:`_dispatched`."""

    def __init__(
        self, server: ServerContext, id_: ConnectionId, peer: Remote,
        sock: socket.socket, records: TlsRecords | None,
    ) -> None:  # fmt: skip
        config = server.config
        self._server = server
        self._core = core = server.core
        self._id = id_
        self._high, self._low = config.outbox_bytes_high, config.outbox_bytes_low
        self._max = config.outbox_bytes_max
        context = ConnectionContext(core, server.topology, server.entrance, id_, peer, self)
        self.consumers = Consumers(context)
        self.connection_events = context.connection_events
        self.session = ConnectionSession(context.broker(config), trio.current_time())
        self._state = self.session.state
        self.link = link_of(sock, records, server.nursery, self._low, self._drained, core.lease)
        self._reading = Reading(self.link, server.long_turns)
        self._polling = self._reading.polling
        compressed = self.session.output.compressed
        self._decompressor = Decompressor(compressed, self, server.nursery, self.link.room)
        self._runner = EffectRunner(
            self.session, context, self.consumers, self, server.nursery, instants,
            server.long_turns,
        )  # fmt: skip
        self._unblock: trio.Event | None = None
        self._room_made: trio.Event | None = None
        self._ahead = ReadAhead(core, self.session.effects)
        self._is_leased = self._awaits_deliveries = self._answer_follows = False
        self._in_turn = False  # all output is written at its end
        self._delivered: trio.Event | None = None
        self._disconnecting = self._peer_first = False
        self._lingering = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Connection {self._id} {self.session!r} {self.link!r}>"

    async def run(self) -> None:
        """Serve the client until either side ends, then clean up everything."""
        timers = self._server.timers
        timers.add(self)
        resource_alarms = self._server.resource_alarms
        resource_alarms.listen(self.alarms_changed)
        self.alarms_changed(resource_alarms.short)
        try:
            await self._converse()
        except Exception as error:
            # A defect of ours. The client is told, and no other connection is affected.
            logger.error("closing connection %d after an internal error", self._id, exc_info=error)
            self.session.fail(internal_error())
            self.flush()
        finally:
            self._decompressor.stop()
            timers.remove(self)
            resource_alarms.leave(self.alarms_changed)
            with trio.move_on_after(CLEANUP_S) as scope:
                scope.shield = True
                await self._clean_up()
            self.link.close()
            self._lingering.cancel()
            if scope.cancelled_caught:
                # Consumers left behind would keep their messages forever. So finish, however long
                # it takes, unless the broker stops.
                await self._clean_up()
            await self._runner.come_apart()

    async def _clean_up(self) -> None:
        try:
            await self._runner.finished()
            await self._runner.end()
        except Exception as error:
            logger.error("internal error while cleaning up connection %d", self._id, exc_info=error)

    def tell(self, event: Event) -> None:
        """Handle an event from outside: the broker stops, or permissions have changed."""
        try:
            self.session.handle(event, *instants())
            self._runner.run()
        except Exception as error:
            self.break_down(error)
        self.flush()

    # Calls from the core and the timers. They happen in other tasks' turns, the core's among them,
    # so they must not raise: a defect costs only this connection.

    def committed(
        self, token: Token, failure: AmqpError | None, *, refused: Refused = False
    ) -> None:
        """Handle an append that is durable, or has failed."""
        try:
            effects = self.session.effects
            if failure is None:
                self.session.committed(token, None, refused=refused)
            else:
                self.session.handle(Committed(token, failure, refused), *instants())
            self._ahead.committed()
            if failure is not None:
                self._runner.run()
            is_waiting = effects.is_waiting
            if not is_waiting:
                self._runner.all_published()
            if self.consumers.attached and self._follows_deliveries():
                return
            if is_waiting:
                # More of this connection's commits may finish in this turn: one confirm for all.
                self._server.flusher.add(self.flush)
                return
        except Exception as error:
            self.break_down(error)
        self.flush()

    def _follows_deliveries(self, *, to_anybody: bool = False) -> bool:
        """Whether an answer waits for deliveries that are about to be made: what a connection
        publishes to itself precedes the confirm in the same write, as in RabbitMQ."""
        if not self._awaits_deliveries and (to_anybody or self.consumers.attached):
            self._awaits_deliveries = self._core.after_dispatch(self._dispatched)
        return self._awaits_deliveries

    def _dispatched(self) -> None:
        self._awaits_deliveries = False
        if self._delivered is None:
            self.flush()
        else:
            self._delivered.set()
            self._delivered = None

    def answer_follows(self) -> None:
        """Write nothing until the answer to a transaction."""
        self._answer_follows = True

    async def deliveries_made(self, *, to_anybody: bool = False) -> None:
        """Wait for the deliveries that are ready, so that an answer follows them; but not for those
        to other connections, unless ``to_anybody``."""
        self._answer_follows = False
        if self._follows_deliveries(to_anybody=to_anybody):
            self._delivered = delivered = trio.Event()
            await delivered.wait()
            self._server.flusher.add(self.flush)

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """Send a run that a consumer was assigned."""
        try:
            session, self._is_leased = self.session, True
            session.deliver(consumer, run)
            self._decompressor.begin()
            if session.output.size + self._waiting_bytes > self._high:
                self.consumers.set_writable(False)
        except Exception as error:
            self.break_down(error)
        if not (self._awaits_deliveries or self._in_turn):
            self._server.flusher.add(self.flush)
        if self.session.effects.has_orders:
            # Not at once: the deliverer must not be called back.
            self._server.flusher.add(self._answer)

    def decompressed(self, piece: Piece, messages: Messages) -> None:
        """Send a part of a run that was decompressed in a thread."""
        try:
            self._is_leased = True
            self.session.output.compressed.sent(piece, messages)
            self._runner.run()
        except Exception as error:
            self.break_down(error)
        self.flush()

    async def all_decompressed(self) -> None:
        """Wait until all that waits to be decompressed is sent."""
        await self._decompressor.caught_up()

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """Handle a consumer that the core has detached."""
        try:
            self.consumers.closed(consumer, for_good=reason != "seek")
            if reason == "seek":
                doing, reattach = "reattaching consumers", partial(self._reattach, consumer)
                self._server.nursery.start_soon(contain, doing, reattach)
            else:
                self._close_consumer(consumer)
        except Exception as error:
            self.break_down(error)

    def next_timer(self) -> float:
        """The time of the session's next timer."""
        return self.session.next_timer()

    def handle_timer(self, now: float) -> None:
        """Send a heartbeat, or close the connection of a client that has sent none."""
        try:
            if not self._reading.waits_for_client:
                # A client that is not read cannot show that it is alive.
                self.session.received(now)
            self.session.handle_timer(now)
            self._runner.run()
        except Exception as error:
            self.break_down(error)
        self.flush()

    def alarms_changed(self, short: Short) -> None:
        """Handle a change of the resource alarms."""
        self.tell(AlarmsChanged(short))

    def flush(self) -> None:
        """Write the pending output, unless deliveries that precede it are about to be made."""
        if self._awaits_deliveries or self._answer_follows:
            return
        try:
            session = self.session
            if session.confirmers or session.output.size:
                now = session.now if self._in_turn else trio.current_time()
                if data := session.data_to_send(now):
                    if self._polling.asks:
                        self._polling.answers()
                    self.link.send(data, leased=self._is_leased)
                    self._is_leased = False
            if self._disconnecting:
                if not self._peer_first:
                    self.link.finish()
            elif not self.consumers.writable and self._waiting_bytes <= self._low:
                self.consumers.set_writable(True)
            if self._unblock is not None and not session.blocked:
                self._unblock.set()
            if self._room_made is not None and session.state is not ConnectionState.OPEN:
                self._room_made.set()
        except Exception as error:
            self.break_down(error)

    async def room(self) -> None:
        """Wait until there is room for one more message, or the connection ends."""
        if self.session.output.size + self.link.waiting_bytes <= self._high:
            return
        self.flush()
        is_full = self.link.waiting_bytes > self._max
        while is_full and self.session.state is ConnectionState.OPEN and not self.link.broken:
            self._reading.waits_for_client = True
            self._room_made = trio.Event()
            await self._room_made.wait()
            self._reading.waits_for_client = False
            is_full = self.link.waiting_bytes > self._low
        self._room_made = None

    @property
    def _waiting_bytes(self) -> int:
        """Bytes that wait for the client, or to be decompressed."""
        return self.link.waiting_bytes + self.session.output.compressed.bytes_waiting

    def _answer(self) -> None:
        """Carry out effects of deliveries: answers to stream messages that nobody asked for."""
        try:
            self._runner.run()
        except Exception as error:
            self.break_down(error)

    def _drained(self) -> None:
        if self._room_made is not None:
            self._room_made.set()
        if self._unblock is not None and self.link.broken:
            self._unblock.set()
        if not self.consumers.writable and self._waiting_bytes <= self._low:
            self.consumers.set_writable(True)

    def break_down(self, error: Exception) -> None:
        """End this connection at once after a defect of ours, and no other."""
        logger.error("closing connection %d after an internal error", self._id, exc_info=error)
        self._disconnecting = True
        self.link.abort()

    # Input.

    async def _converse(self) -> None:
        link, session, runner, core = self.link, self.session, self._runner, self._core
        flusher = self._server.flusher
        now = trio.lowlevel.current_clock().current_time
        while not self._disconnecting:
            data = await self._reading.receive(is_awaited=runner.is_alone)
            if not data:
                return
            if session.vhost is None:
                link.acknowledge_now()
            is_leased = core.lease.holds
            if not is_leased:  # sooner than the alarm, which comes later
                self.alarms_changed(self._server.resource_alarms.short | {Resource.LOG})
            self._is_leased = self._is_leased or is_leased
            session.receive_data(data, now(), wall_clock_ms())
            # Effects that another task carries out must not be overtaken, and reading on meanwhile
            # would gather input without bound.
            if runner.busy:
                await runner.finished()
            self._in_turn, others = True, flusher.count
            waiting = runner.run_turn()
            self._in_turn = False
            if waiting is not None:
                await runner.run_all(waiting)
                self.flush()
            else:
                self.flush()
                flusher.flush_few(others)  # deliveries made at the end of this turn
            if session.state is not self._state or session.timer_nearer:
                self.connection_events.state_is(session, self._state)
                self._state, session.timer_nearer = session.state, False
                self._server.timers.add(self)
            if not is_leased:  # in the middle of a request the client is read on, or it seems dead
                if session.blocked and not await core.lease.held():
                    break  # another node leads
                self.alarms_changed(self._server.resource_alarms.short)
            if session.blocked:
                await self._unblocked()
            if core.crowded:
                await core.room()
            if self._ahead.goes_too_far(len(data)):
                await self._ahead.caught_up()
            if link.waiting_bytes > self._max:
                self._reading.waits_for_client = True
                await link.room()
        while not link.broken and await link.receive():
            pass

    async def _hang_up(self) -> None:
        """Close the socket after a while, whatever the client does and whatever is waited for."""
        with self._lingering:
            await trio.sleep(LINGER_S)
            self.link.abort()

    async def _unblocked(self) -> None:
        """Wait until the client may be read again, or the link breaks."""
        while self.session.blocked and not self.link.broken:
            self._unblock = trio.Event()
            await self._unblock.wait()
        self._unblock = None
        await self._runner.finished()

    def disconnect(self, order: Disconnect) -> None:
        """Close the socket once everything is written, or give the client time to do it first."""
        level = logging.INFO if order.is_late else logging.DEBUG
        logger.log(level, "closing connection %d: %s", self._id, order.reason)
        self._disconnecting, self._peer_first = True, order.peer_first
        if order.reset:
            self.link.reset()
        self._server.nursery.start_soon(contain, "hanging up", self._hang_up)

    def _close_consumer(self, consumer: ConsumerId) -> None:
        self.session.handle(ConsumerClosed(consumer), *instants())
        self._runner.run()
        self._server.flusher.add(self.flush)

    async def _reattach(self, consumer: ConsumerId) -> None:
        if not await self.consumers.come_back(consumer):
            self._close_consumer(consumer)
