"""One connection of a Pulsar client, without its socket.

Five verbs drive it: :meth:`Connection.receive_data` takes bytes from the peer,
:meth:`Connection.go_on` works on what they held, :meth:`Connection.handle` takes events from the
shell, :meth:`Connection.data_to_send` gives bytes for the peer, and
:meth:`Connection.handle_timer` keeps the time. All but ``data_to_send`` return effects, which the
caller must carry out in their order.

One read may bring thousands of requests, each with an answer ten thousand times its size. So at
most one request is handled a call; the caller goes on when there is room for one more answer.
"""

from collections.abc import Callable
from typing import Any, Final, assert_never

from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.session import events
from arneb_pulsar.session.client import Client
from arneb_pulsar.session.consuming import Consuming
from arneb_pulsar.session.describing import Describing
from arneb_pulsar.session.effects import Close, Effect
from arneb_pulsar.session.errors import NO_TRANSACTIONS, Refused, RemoteProtocolError
from arneb_pulsar.session.fields import text_of
from arneb_pulsar.session.finding import Finding
from arneb_pulsar.session.keep_alive import KeepAlive, Tick
from arneb_pulsar.session.outlet import Outlet
from arneb_pulsar.session.producing import Producing
from arneb_pulsar.session.proving import Proving, refused
from arneb_pulsar.session.transitions import ACCEPTED, ConnectionState
from arneb_pulsar.session.watching import Watching
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.commands import FIELD_OF, parse_command
from arneb_pulsar.wire.errors import WireError
from arneb_pulsar.wire.frame import MESSAGE_BYTES_MAX, FrameReader, Frames
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand
from arneb_pulsar.wire.sends import count_successors, parse_send

UNANSWERED: Final = frozenset({BaseCommand.ACK, BaseCommand.FLOW, BaseCommand.PONG})
"""Commands that are answered by nothing, or by less than they take themselves. As many of them are
handled in a row as came."""


class Connection:
    """The state of one connection.

    Invariants: commands are handled only in states that :data:`ACCEPTED` has them for; a closed
    connection says nothing more and asks for nothing. ``_at`` frames of ``_frames`` are handled,
    all of them when ``receive_data`` is called.
    """

    def __init__(self, config: PulsarConfig, server_version: str, now: float) -> None:
        self.state = ConnectionState.HANDSHAKE
        self._server_version = server_version
        self._outlet = outlet = Outlet(now)
        self._reader = FrameReader()
        self._frames: Frames = [], []
        self._at = 0
        self.request_bytes = 0
        """Size of the request that the last call has handled."""
        self._keep_alive = KeepAlive(now, config.handshake_timeout_s, config.keep_alive_s)
        self._producing = Producing(outlet)
        self._consuming = Consuming(outlet)
        self._finding = Finding(outlet)
        self._describing = Describing(outlet)
        self._watching = Watching(outlet)
        self._must_prove = bool(config.authentication.methods)
        self._proving = Proving(outlet, server_version)
        self._handlers = self._make_handlers()

    def __repr__(self) -> str:
        return f"<Connection {self.state.name} {self._outlet.client.name or 'unknown client'}>"

    # The five verbs

    def receive_data(self, data: bytes, now: float, clock_ms: int) -> list[Effect]:
        """Bytes came from the peer, which was heard to the end before. ``clock_ms`` is the time of
        day, for what is published."""
        self._frames, self._at = self._reader.receive(data), 0
        return self.go_on(now, clock_ms)

    @property
    def has_more(self) -> bool:
        """Something that came from the peer is not handled: :meth:`go_on` must be called."""
        return self._at < len(self._frames[0])

    def go_on(self, now: float, clock_ms: int) -> list[Effect]:
        """Handle what came, up to the next request and with it."""
        self._outlet.now = now
        self._keep_alive.heard(now)
        self.request_bytes = 0
        try:
            self._handle_frames()
            if self._reader.error is not None and not self.has_more:
                raise self._reader.error
        except (RemoteProtocolError, WireError) as error:
            self._frames = [], []
            self._producing.flush(clock_ms)
            self._close(str(error))
        else:
            self._producing.flush(clock_ms)
        return self._outlet.take_effects()

    def handle(self, event: events.Event, now: float) -> list[Effect]:
        """Something happened in the core; see :mod:`arneb_pulsar.session.events`."""
        if self.state is ConnectionState.CLOSED:
            return []
        self._outlet.now = now
        self._handle_event(event)
        return self._outlet.take_effects()

    def end(self) -> None:
        """Nobody owns the socket any more: nothing is said, and nothing asked for. What a
        connection consists of refers to it no more, so that it is given up at once."""
        self.state = ConnectionState.CLOSED
        self._handlers.clear()

    def data_to_send(self) -> list[bytes]:
        """What is to be said to the peer since the last call; the caller must send it, and call
        again after a while if :attr:`has_unsaid`."""
        return self._outlet.take_frames()

    @property
    def has_unsaid(self) -> bool:
        """``data_to_send`` did not give all, for to translate it would take too long at once."""
        return self._outlet.has_untranslated

    def next_timer(self) -> float:
        """When :meth:`handle_timer` must be called, unless bytes come before."""
        return min(self._keep_alive.deadline, self._proving.deadline)

    def handle_timer(self, now: float, clock_ms: int) -> list[Effect]:
        """Time passed. ``clock_ms`` is the time of day, at which proofs end."""
        self._outlet.now = now
        if self.state is ConnectionState.OPEN and (reason := self._proving.tick(clock_ms)):
            self._close(reason)
        if self.state is not ConnectionState.CLOSED:
            match self._keep_alive.tick(now):
                case Tick.PING:
                    self._outlet.send(commands.PING)
                case Tick.GIVE_UP:
                    self._close("expected a sign of life, got none")
                case Tick.NOTHING:
                    pass
        return self._outlet.take_effects()

    # What the shell asks besides

    @property
    def client(self) -> Client:
        """Who is connected."""
        return self._outlet.client

    @property
    def waiting_bytes(self) -> int:
        """Size of what :meth:`data_to_send` would give."""
        return self._outlet.waiting_bytes

    @property
    def unasked_bytes(self) -> int:
        """How much of that the peer did not ask for."""
        return self._outlet.unasked_bytes

    def resumed(self, now: float) -> None:
        """The shell listens again after a pause that back-pressure made."""
        self._keep_alive.resumed(now)

    def probe(self) -> bool:
        """Ask the peer for a sign of life, whatever the timer says; False if it cannot answer."""
        if self.state is ConnectionState.OPEN and self._outlet.client.answers_pings:
            self._outlet.send(commands.PING)
            return True
        return False

    # Inside

    def _handle_frames(self) -> None:
        """Hot path: runs of SENDs are told by their first; all else goes through the handlers."""
        received, bodies = self._frames
        at, end = self._at, len(received)
        while at < end:
            data = received[at]
            if self.state is ConnectionState.OPEN and (send := parse_send(data)) is not None:
                behind = at + 1 + count_successors(received, at, send)
                self._producing.send(send, bodies[at:behind])
                at = behind
                continue
            command = parse_command(data)
            self._handle_command(command, data, bodies[at])
            at += 1
            if command.type not in UNANSWERED:
                self.request_bytes = len(data)
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
            self._producing.send(part, [body])
        elif kind == BaseCommand.ACK:
            self._consuming.acknowledge(part, data)
        else:
            try:
                self._handlers[kind](part)
            except Refused as refused:
                failure = refused.failure
                self._outlet.send(commands.error(part.request_id, failure.code, failure.text))

    def _make_handlers(self) -> dict[int, Callable[[Any], None]]:
        """The handler of each command but SEND and ACK."""
        producing, consuming, finding = self._producing, self._consuming, self._finding
        return {
            BaseCommand.CONNECT: self._connect,
            BaseCommand.PING: self._ping,
            BaseCommand.PONG: self._pong,
            BaseCommand.AUTH_RESPONSE: self._proving.answered,
            BaseCommand.PARTITIONED_METADATA: finding.partitions,
            BaseCommand.LOOKUP: finding.lookup,
            BaseCommand.GET_TOPICS_OF_NAMESPACE: finding.topics,
            BaseCommand.PRODUCER: producing.open,
            BaseCommand.CLOSE_PRODUCER: producing.close,
            BaseCommand.SUBSCRIBE: consuming.subscribe,
            BaseCommand.FLOW: consuming.flow,
            BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: consuming.redeliver,
            BaseCommand.SEEK: consuming.seek,
            BaseCommand.GET_LAST_MESSAGE_ID: consuming.last_message_id,
            BaseCommand.CONSUMER_STATS: consuming.statistics,
            BaseCommand.UNSUBSCRIBE: consuming.unsubscribe,
            BaseCommand.CLOSE_CONSUMER: consuming.close,
            BaseCommand.GET_SCHEMA: self._describing.get,
            BaseCommand.GET_OR_CREATE_SCHEMA: self._describing.get_or_create,
            BaseCommand.WATCH_TOPIC_LIST: self._watching.watch,
            BaseCommand.WATCH_TOPIC_LIST_CLOSE: self._watching.end,
            BaseCommand.TC_CLIENT_CONNECT_REQUEST: self._refuse_transaction,
            BaseCommand.NEW_TXN: self._refuse_transaction,
            BaseCommand.ADD_PARTITION_TO_TXN: self._refuse_transaction,
            BaseCommand.ADD_SUBSCRIPTION_TO_TXN: self._refuse_transaction,
            BaseCommand.END_TXN: self._refuse_transaction,
            BaseCommand.END_TXN_ON_PARTITION: self._refuse_transaction,
            BaseCommand.END_TXN_ON_SUBSCRIPTION: self._refuse_transaction,
        }

    def _connect(self, command: pb.CommandConnect) -> None:
        """CONNECT. Without authentication whatever the client proves itself with is taken, as
        Pulsar's broker does it."""
        name = text_of(command.client_version, "client_version")
        version = max(0, min(commands.PROTOCOL_VERSION, command.protocol_version))
        self._outlet.client = Client(name, version)
        if self._must_prove:
            self.state = ConnectionState.PROVING
            self._proving.begin(command)
        else:
            self._open()

    def _open(self) -> None:
        """The client may begin."""
        client = self._outlet.client
        self._outlet.send(
            commands.connected(self._server_version, client.version, MESSAGE_BYTES_MAX)
        )
        self.state = ConnectionState.OPEN
        self._keep_alive.connected(self._outlet.now, answered=client.answers_pings)

    def _authenticated(self, event: events.Authenticated) -> None:
        self._proving.held(event)
        if self.state is ConnectionState.PROVING:
            self._open()

    def _not_authenticated(self, event: events.NotAuthenticated) -> None:
        self.state = ConnectionState.CLOSED
        refused(self._outlet, event.text)

    def _ping(self, command: pb.CommandPing) -> None:
        self._outlet.send(commands.PONG)

    def _pong(self, command: pb.CommandPong) -> None:
        """Its bytes have told the keep-alive already."""

    def _refuse_transaction(self, command: object) -> None:
        raise Refused(NO_TRANSACTIONS.code, NO_TRANSACTIONS.text)

    def _handle_event(self, event: events.Event) -> None:
        producing, consuming = self._producing, self._consuming
        match event:
            case events.Appended():
                producing.appended(event)
            case events.Delivered():
                consuming.delivered(event)
            case events.Acknowledged():
                consuming.acknowledged(event)
            case events.ProducerOpened():
                producing.opened(event)
            case events.ProducerQueued():
                producing.queued(event)
            case events.ProducerRefused():
                producing.refused(event)
            case events.ProducerLost():
                producing.lost(event)
            case events.ProducerExpelled():
                producing.expelled(event)
            case events.ConsumerAttached():
                consuming.attached(event)
            case events.ConsumerRefused():
                consuming.refused(event)
            case events.ActiveChanged():
                consuming.active_changed(event)
            case events.EndReached():
                consuming.end_reached(event)
            case events.ConsumerClosed():
                consuming.closed_by_core(event)
            case events.SeekDone():
                consuming.seek_done(event)
            case events.Unsubscribed():
                consuming.unsubscribed(event)
            case events.LastRead():
                consuming.last_read(event)
            case events.LastUnread():
                consuming.last_unread(event)
            case events.ConsumerDescribed():
                consuming.described(event)
            case events.TopicFound():
                self._finding.found(event)
            case events.TopicsListed():
                self._finding.listed(event)
            case events.TopicsWatched():
                self._watching.watched(event)
            case events.TopicChanged():
                self._watching.changed(event)
            case events.Authenticated():
                self._authenticated(event)
            case events.NotAuthenticated():
                self._not_authenticated(event)
            case events.SchemaFound():
                self._describing.found(event)
            case events.SchemaAttached():
                self._describing.attached(event)
            case _:
                assert_never(event)

    def _close(self, reason: str) -> None:
        """The peer broke the protocol: tell it why, once, and end."""
        if self.state is not ConnectionState.CLOSED:
            if self.state is ConnectionState.OPEN:
                self._outlet.send(commands.error(commands.NO_REQUEST, pb.UnknownError, reason))
            self.state = ConnectionState.CLOSED
            self._outlet.do(Close(reason))
