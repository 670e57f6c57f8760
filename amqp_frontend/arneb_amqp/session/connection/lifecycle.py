"""The lifecycle of a connection: handshake, heartbeats, close.

The rule: this module knows the methods of the connection class and nothing of channels;
:meth:`Lifecycle.end_channels` ends whatever must end with the connection.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pamqp.base import Frame as Command
from pamqp.commands import Connection

from arneb_amqp.errors import (
    NO_METHOD,
    AmqpError,
    ReplyCode,
    channel_error,
    connection_forced,
)
from arneb_amqp.session.connection import handshake
from arneb_amqp.session.connection.admission import Admission, Terms
from arneb_amqp.session.connection.handshake import Limits
from arneb_amqp.session.connection.heartbeats import NEVER, Beat, Heartbeats
from arneb_amqp.session.connection.throttle import Throttle
from arneb_amqp.session.context import BrokerContext, Entered, VhostContext
from arneb_amqp.session.effect_queue import EffectQueue
from arneb_amqp.session.effects import Disconnect, EndConnection, Enter, Renew, Request, Vouch
from arneb_amqp.session.output import Output
from arneb_amqp.session.rights import NO_RIGHTS
from arneb_amqp.session.transitions import (
    ConnectionInput,
    ConnectionState,
    IllegalMoveError,
    next_state,
)
from arneb_amqp.wire.constants import (
    CHANNEL_ZERO,
    FRAME_BYTES_MIN,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    ChannelId,
)
from arneb_amqp.wire.fast import FastReader
from arneb_amqp.wire.frames import BadProtocolHeader, ProtocolHeaderReader
from arneb_amqp.wire.methods import method_ids
from arneb_amqp.wire.replies import close_connection, make
from arneb_amqp.wire.tables import Table
from arneb_core.access.principals import Principal
from arneb_core.api.process.resource_alarms import Short

SILENCE_S: Final = 3.0
"""How long a client hears nothing after a failed login before it is cut, as in RabbitMQ."""


_DEAF: Final = (ConnectionState.CLOSING, ConnectionState.CLOSED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An unanswered request, and the channel and method to blame if it is refused."""

    then: Callable[[object], None]
    channel: ChannelId
    method: tuple[int, int]


class Lifecycle(ABC):
    """A connection without its channels.

    Invariant: ``waiting`` has one member for each unanswered request, in order.
    """

    def __init__(self, broker: BrokerContext, now: float) -> None:
        self._broker = broker
        self._config = broker.config
        self.state = ConnectionState.AWAITING_HEADER
        self.now = now
        self._heartbeats = Heartbeats(now)
        self._deadline = now + self._config.handshake_s
        self._disconnected = False
        self._header = ProtocolHeaderReader()
        self.reader = FastReader(
            message_bytes_max=self._config.message_bytes_max,
            partial_bytes_max=self._config.partial_bytes_max,
        )
        self.effects = EffectQueue()
        self.output = Output()
        self.waiting: deque[Waiting] = deque()
        self.current: tuple[ChannelId, tuple[int, int]] = (CHANNEL_ZERO, NO_METHOD)
        """Channel and method of the input being handled."""
        self.principal: Principal | None = None
        self.rights = NO_RIGHTS
        self.cancel_notify = False
        self.throttle = Throttle()
        self._client = handshake.Client()
        self._silent = ""
        """Why the login failed, while the client hears nothing until it is cut."""
        self._mechanism = ""
        self.frame_bytes_max = FRAME_BYTES_MIN
        self.channel_max = 0
        self.vhost: VhostContext | None = None

    @abstractmethod
    def end_channels(self) -> None:
        """End all channels at once and drop input that is not handled yet."""

    @property
    def terms(self) -> Terms:
        """The terms agreed with the client."""
        return Terms(
            self._client.properties, self._mechanism, self.channel_max, self.frame_bytes_max,
            self._heartbeats.interval_s,
        )  # fmt: skip

    @property
    def consumers_max(self) -> int:
        """The most consumers a channel may have; negative = no limit."""
        return self._config.channel_consumers_max

    def ask(self, request: Request, then: Callable[[object], None]) -> None:
        """Order a request and stop handling input until it is answered."""
        self.effects.emit(request)
        self.waiting.append(Waiting(then, *self.current))

    @property
    def is_silent(self) -> bool:
        """Whether the client failed to log in, is no longer read, and is not told."""
        return bool(self._silent) and not self._disconnected

    # Time.

    def next_timer(self) -> float:
        """The latest time at which :meth:`handle_timer` should be called."""
        return NEVER if self._disconnected else min(self._deadline, self._heartbeats.next_timer())

    def handle_timer(self, now: float) -> None:
        """Send a heartbeat, or give the peer up, if that is due."""
        self.now = now
        if self._disconnected:
            return
        if self._silent and now >= self._deadline:
            self.cut(self._silent, reset=True)
            return
        if now >= self._deadline:
            self.cut(f"timed out in connection state {self.state.value}", is_late=True)
            return
        match self._heartbeats.check(now):
            case Beat.SEND:
                self.output.send_chunks((HEARTBEAT_FRAME,))
            case Beat.GIVE_UP:
                self.cut("missed heartbeats from client", is_late=True)
            case Beat.NOTHING:
                pass

    def received(self, now: float) -> None:
        """Note traffic from the peer."""
        self.now = now
        self._heartbeats.received(now)

    def sent(self, now: float) -> None:
        """Note traffic to the peer."""
        self._heartbeats.sent(now)

    # Resource alarms.

    def block(self) -> None:
        """Stop handling input: the client publishes while a resource is short."""
        # A client that is not read cannot show that it is alive.
        self._heartbeats.received(NEVER)
        if self._client.blocked_notify:
            self.output.send(CHANNEL_ZERO, make(Connection.Blocked, reason=self.throttle.reason))

    def alarms_changed(self, short: Short) -> None:
        """Take the new set of short resources."""
        if self.throttle.change(short):
            self._heartbeats.received(self.now)
            if self._client.blocked_notify:
                self.output.send(CHANNEL_ZERO, make(Connection.Unblocked))

    # Beginning.

    def receive_header(self, data: bytes | bytearray) -> bytes:
        """Take the protocol header; return what follows it."""
        try:
            rest = self._header.receive(data)
        except BadProtocolHeader:
            # 4.2.2: "... the server MUST ... write a valid protocol header ... and then
            # close the socket connection."
            self.output.send_chunks((PROTOCOL_HEADER,))
            self.cut("the peer does not speak AMQP 0-9-1")
            return b""
        if rest is None:
            return b""
        self._move(ConnectionInput.HEADER)
        self.output.send(CHANNEL_ZERO, handshake.start(self._config, self._broker.mechanisms))
        return rest

    def handle_method(self, method: Command) -> None:
        """Handle a method on channel 0."""
        happened, handler = _METHODS.get(type(method), _UNEXPECTED)
        if self.state in _DEAF:
            if happened is ConnectionInput.PEER_CLOSE:
                self.output.send(CHANNEL_ZERO, make(Connection.CloseOk))
            elif happened is ConnectionInput.PEER_CLOSE_OK:
                self.cut("closed")
            return
        try:
            self._move(happened)
        except IllegalMoveError:
            raise self.unexpected() from None
        handler(self, method)

    def unexpected(self) -> AmqpError:
        """Return the error for a method that does not fit the state."""
        return channel_error(f"unexpected method in connection state {self.state.value}")

    def _introduced(self, properties: Table) -> None:
        self._client = handshake.introduced(properties)
        self.cancel_notify = self._client.cancel_notify

    def _start_ok(self, method: Connection.StartOk) -> None:
        self._introduced(cast("Table", method.client_properties))
        try:
            login = handshake.login_of(method, self._broker.mechanisms)
        except AmqpError as error:
            if error.reply_code is ReplyCode.ACCESS_REFUSED:
                self._refuse_login(error)
            else:
                self._fall_silent(error.explanation)
            return
        self._mechanism = login.mechanism

        def logged_in(principal: object) -> None:
            assert isinstance(principal, Principal)
            self.principal = principal
            # A client may use the offered limits before it has seen that we agree.
            self.reader.frame_bytes_max = self._config.frame_bytes_max
            self.output.send(CHANNEL_ZERO, handshake.tune(self._config))

        self.ask(login, logged_in)

    def login_refused(self) -> None:
        """Refuse the login."""
        self._refuse_login(handshake.login_refused(self._mechanism))

    def _refuse_login(self, error: AmqpError) -> None:
        if self._client.failure_notify:
            self.fail(error)
        else:
            self._fall_silent(error.explanation)

    def _fall_silent(self, reason: str) -> None:
        """Cut the client after a while, without telling it that the login failed."""
        self._silent = reason
        self._deadline = self.now + SILENCE_S
        self.waiting.append(Waiting(lambda _: None, *self.current))  # nothing more is handled

    def _tune_ok(self, method: Connection.TuneOk) -> None:
        self._agreed(Limits(method.channel_max, method.frame_max, method.heartbeat))

    def _agreed(self, limits: Limits) -> None:
        """Adopt the agreed limits. Raises 530 for one outside the offer."""
        handshake.check(limits, self._config)
        self.channel_max = limits.channel_max
        self.frame_bytes_max = self.reader.frame_bytes_max = limits.frame_bytes_max
        self._heartbeats.interval_s = limits.heartbeat_s

    def _open(self, method: Connection.Open) -> None:
        self._enter(method.virtual_host)

    def _enter(self, vhost: str) -> None:
        assert self.principal is not None, "connection.open comes after the login"

        def entered(value: object) -> None:
            assert isinstance(value, Entered)
            if self.state is not ConnectionState.OPEN:
                return  # it was ended meanwhile
            self.vhost, self.rights = value.vhost, value.rights
            self._deadline = NEVER
            self.output.send(CHANNEL_ZERO, make(Connection.OpenOk, known_hosts=""))

        self.ask(Enter(vhost, self.principal), entered)

    def take_over(self, admission: Admission) -> None:
        """Take over a client whose handshake another session did, up to but excluding
        ``connection.open-ok``. That session's authentication is trusted; the agreed limits are
        checked here."""
        for happened in SHAKEN_HANDS:
            self._move(happened)
        terms = admission.terms
        self._introduced(terms.client_properties)
        self._mechanism = terms.mechanism

        def vouched(principal: object) -> None:
            assert isinstance(principal, Principal)
            self.principal = principal
            try:
                self._agreed(Limits(terms.channel_max, terms.frame_bytes_max, terms.heartbeat_s))
            except AmqpError as error:
                self.fail(error)
            else:
                self._enter(admission.vhost)

        self.current = CHANNEL_ZERO, method_ids(Connection.Open)
        self.ask(Vouch(terms.mechanism, admission.user, admission.secret), vouched)

    def _update_secret(self, method: Connection.UpdateSecret) -> None:
        assert self.principal is not None, "an open connection has logged in"

        def renewed(_: object) -> None:
            self.rights.forget()
            self.output.send(CHANNEL_ZERO, make(Connection.UpdateSecretOk))

        secret = cast("bytes", method.new_secret).decode("utf-8", "surrogateescape")
        self.ask(Renew(self.principal, secret), renewed)

    def _refuse(self, _: Command) -> None:
        raise self.unexpected()

    # Ending.

    def _closed_by_peer(self, _: Connection.Close) -> None:
        self.end_channels()

        def ended(_: object) -> None:
            self.output.send(CHANNEL_ZERO, make(Connection.CloseOk))
            # 1.4.2.11: the client closes the socket when it has read this. If ours closed first,
            # some clients would take their own close for a broken connection.
            self.cut("closed by the client", peer_first=True)

        self.ask(EndConnection(), ended)

    def fail(self, error: AmqpError) -> None:
        """Close the connection with ``error``."""
        if self.state in _DEAF:
            return
        # A client that has not logged in learns nothing but that the login failed.
        may_know = self.state in (ConnectionState.OPEN, ConnectionState.OPENING) or (
            error.reply_code in (ReplyCode.ACCESS_REFUSED, ReplyCode.NOT_ALLOWED)
        )
        if not may_know:
            self.cut(error.explanation)
            return
        self.end_channels()
        self.output.mute_channels()
        self._move(ConnectionInput.FAIL)
        self.output.send(CHANNEL_ZERO, close_connection(error))
        self.reader.close()
        self._deadline = self.now + self._config.close_s
        self.ask(EndConnection(), lambda _: None)

    def shut_down(self, reason: str) -> None:
        """End the connection: the broker stops, or an operator asked for it."""
        if self.state is ConnectionState.OPEN:
            self.current = CHANNEL_ZERO, NO_METHOD
            self.fail(connection_forced(reason))
        elif self.state not in _DEAF:
            self.cut(reason)

    def cut(
        self, reason: str, *, peer_first: bool = False, is_late: bool = False, reset: bool = False
    ) -> None:
        """End the connection without sending anything more."""
        if self._disconnected:
            return
        self._disconnected = True
        self.end_channels()
        self._move(ConnectionInput.CUT)
        self.effects.emit(Disconnect(reason, peer_first, is_late, reset))

    def _move(self, happened: ConnectionInput) -> None:
        self.state = next_state(self.state, happened)


SHAKEN_HANDS: Final = (
    ConnectionInput.HEADER,
    ConnectionInput.START_OK,
    ConnectionInput.TUNE_OK,
    ConnectionInput.OPEN,
)

_Handler = Callable[[Lifecycle, Any], None]

_UNEXPECTED: Final[tuple[ConnectionInput, _Handler]] = (ConnectionInput.WORK, Lifecycle._refuse)

_METHODS: Final[Mapping[type[Command], tuple[ConnectionInput, _Handler]]] = {
    Connection.StartOk: (ConnectionInput.START_OK, Lifecycle._start_ok),
    Connection.TuneOk: (ConnectionInput.TUNE_OK, Lifecycle._tune_ok),
    Connection.Open: (ConnectionInput.OPEN, Lifecycle._open),
    Connection.UpdateSecret: (ConnectionInput.WORK, Lifecycle._update_secret),
    Connection.Close: (ConnectionInput.PEER_CLOSE, Lifecycle._closed_by_peer),
    Connection.CloseOk: (ConnectionInput.PEER_CLOSE_OK, Lifecycle._refuse),
}
