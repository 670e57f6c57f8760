"""One connection of a Pulsar client, without its socket.

Five methods of :class:`ConnectionSession` drive it: ``receive_data`` takes bytes from the client,
``handle_more`` handles the next request in them, ``handle`` takes events from the server,
``data_to_send`` returns bytes for the client, and ``handle_timer`` handles the passing of time. All
but ``data_to_send`` return effects, which the caller must carry out in order.

One read may bring thousands of requests, each with an answer ten thousand times its size. So each
call handles at most one request; the caller continues when there is room for one more answer.
"""

from collections.abc import Callable
from typing import Any, Final, assert_never

from arneb_pulsar.authorization.authorizer import EVERYBODY_MAY, Authorizer
from arneb_pulsar.authorization.callers import NOBODY
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.session.client import ClientTraits
from arneb_pulsar.session.connection.authentication import Authentication, not_allowed, refused
from arneb_pulsar.session.connection.keep_alive import KeepAlive, Tick
from arneb_pulsar.session.connection.rules import RULES
from arneb_pulsar.session.consume.consumers import Consumers
from arneb_pulsar.session.errors import RemoteProtocolError, RequestRefused
from arneb_pulsar.session.fields import text_of
from arneb_pulsar.session.interface import events
from arneb_pulsar.session.interface.effects import Close, Effect
from arneb_pulsar.session.interface.pending_sends import STRETCHES_PER_TURN
from arneb_pulsar.session.output import Output
from arneb_pulsar.session.produce.producers import Producers
from arneb_pulsar.session.schemas import SchemaRequests
from arneb_pulsar.session.topics.lookup import Lookup
from arneb_pulsar.session.topics.watchers import TopicWatchers
from arneb_pulsar.session.transactions import SMALL, Transactions
from arneb_pulsar.session.transitions import ACCEPTED, ConnectionState
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.commands import FIELD_OF, parse_command
from arneb_pulsar.wire.errors import WireError
from arneb_pulsar.wire.frame import AROUND_BYTES_MAX, FrameReader, Frames
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand
from arneb_pulsar.wire.sends import count_successors, parse_send

UNANSWERED: Final = frozenset({BaseCommand.ACK, BaseCommand.FLOW, BaseCommand.PONG})
"""Commands with no answer, or one smaller than themselves: any number is handled in one call."""


class ConnectionSession:
    """The state of one connection.

    Invariants: commands are handled only in states for which :data:`ACCEPTED` has them; a closed
    connection sends nothing more and returns no effects. The first ``_at`` frames of ``_frames``
    are handled, and all of them are when ``receive_data`` is called.
    """

    def __init__(
        self,
        config: PulsarConfig,
        server_version: str,
        now: float,
        authorizer: Authorizer = EVERYBODY_MAY,
    ) -> None:
        self.state = ConnectionState.HANDSHAKE
        self._server_version = server_version
        self._output = output = Output(now)
        self._message_bytes_max = config.message_bytes_max
        self._reader = FrameReader(config.message_bytes_max + AROUND_BYTES_MAX)
        self._frames: Frames = [], []
        self._at = 0
        self.request_bytes = 0
        """Size of the request that the last call handled."""
        self.was_small = False
        """That request was one of ``transactions.SMALL``."""
        self._keep_alive = KeepAlive(now, config.handshake_timeout_s, config.keep_alive_s)
        self._producers = Producers(output)
        self._consumers = Consumers(output)
        self._lookup = Lookup(output)
        self._schemas = SchemaRequests(output)
        self._watchers = TopicWatchers(output)
        self._transactions = Transactions(output)
        self._must_prove = bool(config.authentication.methods)
        self._authorizer = authorizer
        self._caller = NOBODY
        self._authentication = Authentication(output, server_version)
        self._handlers = self._make_handlers()

    def __repr__(self) -> str:
        client = self._output.client.name or "unknown client"
        return f"<ConnectionSession {self.state.name} {client}>"

    # The five verbs

    def receive_data(self, data: bytes, now: float, clock_ms: int) -> list[Effect]:
        """Take bytes from the client; all earlier ones must be handled already. ``clock_ms`` is the
        time of day, for publish times."""
        self._frames, self._at = self._reader.receive(data), 0
        return self.handle_more(now, clock_ms)

    @property
    def has_more(self) -> bool:
        """Whether input is left: then :meth:`handle_more` must be called."""
        return self._at < len(self._frames[0]) or self._output.pieces is not None

    def handle_more(self, now: float, clock_ms: int) -> list[Effect]:
        """Handle what was received up to and including the next request, or a piece of that."""
        self._output.now = now
        self._keep_alive.heard(now)
        self.request_bytes = 0
        self.was_small = False
        try:
            if self._output.pieces is not None:
                self._output.next_piece()
            else:
                self._handle_frames(clock_ms)
            if self._reader.error is not None and not self.has_more:
                raise self._reader.error
        except (RemoteProtocolError, WireError) as error:
            self._frames = [], []
            self._producers.flush(clock_ms)
            self._close(str(error))
        else:
            self._producers.flush(clock_ms)
        return self._output.take_effects()

    def handle(self, event: events.Event, now: float) -> list[Effect]:
        """Handle an event from the core; see :mod:`arneb_pulsar.session.interface.events`."""
        if self.state is ConnectionState.CLOSED:
            return []
        self._output.now = now
        self._handle_event(event)
        return self._output.take_effects()

    def end(self) -> None:
        """End the session, now that nobody owns the socket. Its parts no longer refer to it, so
        that its memory is freed at once."""
        self.state = ConnectionState.CLOSED
        self._handlers.clear()

    def data_to_send(self) -> list[bytes]:
        """Return what is to be sent since the last call; the caller must send it, and call again
        after a while if :attr:`has_unsent`."""
        return self._output.take_frames()

    @property
    def has_unsent(self) -> bool:
        """Whether ``data_to_send`` left something out: to translate all at once takes too long."""
        return self._output.has_untranslated

    def next_timer(self) -> float:
        """Return when :meth:`handle_timer` must be called, unless bytes are received before."""
        consumers = self._consumers
        return min(self._keep_alive.deadline, self._authentication.deadline, consumers.deadline)

    def handle_timer(self, now: float, clock_ms: int) -> list[Effect]:
        """Handle the passing of time. ``clock_ms`` is the time of day, at which proofs expire."""
        self._output.now = now
        if self.state is ConnectionState.OPEN and (reason := self._authentication.tick(clock_ms)):
            self._close(reason)
        if self.state is not ConnectionState.CLOSED:
            self._consumers.tick()
            match self._keep_alive.tick(now):
                case Tick.PING:
                    self._output.send(commands.PING)
                case Tick.GIVE_UP:
                    self._close("expected a sign of life, got none")
                case Tick.NOTHING:
                    pass
        return self._output.take_effects()

    # What else the server uses

    @property
    def client(self) -> ClientTraits:
        """The connected client."""
        return self._output.client

    @property
    def waiting_bytes(self) -> int:
        """Size of what :meth:`data_to_send` would return."""
        return self._output.waiting_bytes

    @property
    def unrequested_bytes(self) -> int:
        """How much of that the client did not request."""
        return self._output.unrequested_bytes

    def resumed(self, now: float) -> None:
        """Note that the server reads again after a pause for back-pressure."""
        self._keep_alive.resumed(now)

    def probe(self) -> bool:
        """Send a PING whatever the timer says; return False if the client cannot answer."""
        if self.state is ConnectionState.OPEN and self._output.client.answers_pings:
            self._output.send(commands.PING)
            return True
        return False

    # Inside

    def _handle_frames(self, clock_ms: int) -> None:
        """Hot path: a run of SENDs is parsed by its first; all else goes through the handlers."""
        received, bodies = self._frames
        at, end, left = self._at, len(received), STRETCHES_PER_TURN
        while at < end and left:
            data = received[at]
            if self.state is ConnectionState.OPEN and (send := parse_send(data)) is not None:
                stop = at + 1 + count_successors(received, at, send)
                self._producers.send(send, bodies[at:stop])
                at, left = stop, left - 1
                continue
            command = parse_command(data)
            if command.type == BaseCommand.END_TXN:
                self._producers.flush(clock_ms)  # it covers what was sent before
            self._handle_command(command, data, bodies[at])
            at += 1
            if command.type not in UNANSWERED:
                self.request_bytes = len(data)
                self.was_small = command.type in SMALL
                break
            if self._output.pieces is not None:
                break
        if at < end:
            self._at = at
        else:
            self._frames, self._at = ([], []), 0

    def _handle_command(self, command: BaseCommand, data: bytes, body: bytes) -> None:
        kind = command.type
        if kind not in ACCEPTED[self.state]:
            if self.state is ConnectionState.CLOSED:
                return
            name = BaseCommand.Type.Name(kind)
            raise RemoteProtocolError(f"expected another command in {self.state.name}, got {name}")
        part = getattr(command, FIELD_OF[kind])
        if kind == BaseCommand.SEND:
            self._producers.send(part, [body])
        elif kind == BaseCommand.ACK:
            self._consumers.acknowledge(part, data)
        else:
            if self._authorizer.enabled:
                refusal = RULES[kind].refusal(self._authorizer, self._caller, part)
                if refusal is not None:
                    self._output.send(refusal)
                    return
            try:
                self._handlers[kind](part)
            except RequestRefused as refused:
                failure = refused.failure
                self._output.send(commands.error(part.request_id, failure.code, failure.text))

    def _make_handlers(self) -> dict[int, Callable[[Any], None]]:
        """The handler of each command but SEND and ACK."""
        producers, consumers, lookup = self._producers, self._consumers, self._lookup
        transactions = self._transactions
        return {
            BaseCommand.CONNECT: self._connect,
            BaseCommand.PING: self._ping,
            BaseCommand.PONG: self._pong,
            BaseCommand.AUTH_RESPONSE: self._authentication.answered,
            BaseCommand.PARTITIONED_METADATA: lookup.partitions,
            BaseCommand.LOOKUP: lookup.lookup,
            BaseCommand.GET_TOPICS_OF_NAMESPACE: lookup.topics,
            BaseCommand.PRODUCER: producers.open,
            BaseCommand.CLOSE_PRODUCER: producers.close,
            BaseCommand.SUBSCRIBE: consumers.subscribe,
            BaseCommand.FLOW: consumers.flow,
            BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: consumers.redeliver,
            BaseCommand.SEEK: consumers.seek,
            BaseCommand.GET_LAST_MESSAGE_ID: consumers.last_message_id,
            BaseCommand.CONSUMER_STATS: consumers.statistics,
            BaseCommand.UNSUBSCRIBE: consumers.unsubscribe,
            BaseCommand.CLOSE_CONSUMER: consumers.close,
            BaseCommand.GET_SCHEMA: self._schemas.get,
            BaseCommand.GET_OR_CREATE_SCHEMA: self._schemas.get_or_create,
            BaseCommand.WATCH_TOPIC_LIST: self._watchers.watch,
            BaseCommand.WATCH_TOPIC_LIST_CLOSE: self._watchers.end,
            BaseCommand.TC_CLIENT_CONNECT_REQUEST: transactions.connect,
            BaseCommand.NEW_TXN: transactions.begin,
            BaseCommand.ADD_PARTITION_TO_TXN: transactions.add_partitions,
            BaseCommand.ADD_SUBSCRIPTION_TO_TXN: transactions.add_subscriptions,
            BaseCommand.END_TXN: transactions.end,
            BaseCommand.END_TXN_ON_PARTITION: transactions.end_on_partition,
            BaseCommand.END_TXN_ON_SUBSCRIPTION: transactions.end_on_subscription,
        }

    def _connect(self, command: pb.CommandConnect) -> None:
        """CONNECT. Without authentication any credentials are accepted, as by Pulsar's broker."""
        name = text_of(command.client_version, "client_version")
        version = max(0, min(commands.PROTOCOL_VERSION, command.protocol_version))
        flags = command.feature_flags
        self._output.client = ClientTraits(name, version, flags.supports_broker_entry_metadata)
        if self._must_prove:
            self.state = ConnectionState.PROVING
            self._authentication.begin(command)
        else:
            self._open()

    def _open(self) -> None:
        """Let the client begin."""
        client = self._output.client
        self._output.send(
            commands.connected(self._server_version, client.version, self._message_bytes_max)
        )
        self.state = ConnectionState.OPEN
        self._keep_alive.connected(self._output.now, answered=client.answers_pings)

    def _authenticated(self, event: events.Authenticated) -> None:
        if self.state is not ConnectionState.PROVING:
            if event.caller.role != self._caller.role:
                self._close("the client renewed its proof as somebody else")
            else:
                self._authentication.held(event)
            return
        if text := self._authentication.misplaced(event.caller, self._authorizer):
            self.state = ConnectionState.CLOSED
            not_allowed(self._output, text)
            return
        self._caller = event.caller
        self._authentication.held(event)
        self._open()

    def _not_authenticated(self, event: events.NotAuthenticated) -> None:
        self.state = ConnectionState.CLOSED
        refused(self._output, event.text)

    def _ping(self, command: pb.CommandPing) -> None:
        self._output.send(commands.PONG)

    def _pong(self, command: pb.CommandPong) -> None:
        """Nothing to do: its bytes have already reset the keep-alive."""

    def _handle_event(self, event: events.Event) -> None:
        producers, consumers = self._producers, self._consumers
        match event:
            case events.Appended():
                producers.appended(event)
            case events.SendsSorted():
                self._producers.sorted(event)
            case events.Delivered():
                consumers.delivered(event)
            case events.Acknowledged():
                consumers.acknowledged(event)
            case events.ProducerOpened():
                producers.opened(event)
            case events.ProducerQueued():
                producers.queued(event)
            case events.ProducerRefused():
                producers.refused(event)
            case events.ProducerLost():
                producers.lost(event)
            case events.ProducerDisconnected():
                producers.disconnected(event)
            case events.ConsumerAttached():
                consumers.attached(event)
            case events.ConsumerRefused():
                consumers.refused(event)
            case events.ActiveChanged():
                consumers.active_changed(event)
            case events.EndReached():
                consumers.end_reached(event)
            case events.ConsumerClosed():
                consumers.closed_by_core(event)
            case events.SeekDone():
                consumers.seek_done(event)
            case events.Unsubscribed():
                consumers.unsubscribed(event)
            case events.LastRead():
                consumers.last_read(event)
            case events.LastUnread():
                consumers.last_unread(event)
            case events.ConsumerDescribed():
                consumers.described(event)
            case events.TopicFound():
                self._lookup.found(event)
            case events.TopicsListed():
                self._lookup.listed(event)
            case events.TopicsWatched():
                self._watchers.watched(event)
            case events.TopicChanged():
                self._watchers.changed(event)
            case events.Authenticated():
                self._authenticated(event)
            case events.NotAuthenticated():
                self._not_authenticated(event)
            case events.TransactionAnswered():
                self._transactions.answered(event)
            case events.SchemaFound():
                self._schemas.found(event)
            case events.SchemaAttached():
                self._schemas.attached(event)
            case _:
                assert_never(event)

    def _close(self, reason: str) -> None:
        """Send the client the reason, once, and close the connection."""
        if self.state is not ConnectionState.CLOSED:
            if self.state is ConnectionState.OPEN:
                self._output.send(commands.error(commands.NO_REQUEST, pb.UnknownError, reason))
            self.state = ConnectionState.CLOSED
            self._output.do(Close(reason))
