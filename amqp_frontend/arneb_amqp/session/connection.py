"""A connection: bytes, events and time in; bytes and effects out. No I/O.

Whoever owns the socket calls, in this order after each wake-up::

    session.receive_data(data, now, now_ms)     # or handle(event, ...), handle_timer(now)
    for effect in session.take_effects(): ...   # carry them out; requests get an answer
    socket.send(session.data_to_send(now))

The rule: while a request is not answered, input that has arrived waits; events that answer
earlier effects, deliveries and timers do not.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pamqp.base import Frame as Command
from pamqp.commands import Channel as ChannelMethods
from pamqp.commands import Connection

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import (
    NO_METHOD,
    AmqpError,
    ChannelException,
    ReplyCode,
    channel_error,
    connection_forced,
    not_allowed,
)
from arneb_amqp.session import handshake
from arneb_amqp.session.channel import Channel
from arneb_amqp.session.delivering import ChannelConsumer
from arneb_amqp.session.effects import (
    Acknowledge,
    Append,
    Collected,
    Disconnect,
    Effect,
    EndConnection,
    Request,
    Token,
)
from arneb_amqp.session.events import (
    Answered,
    Committed,
    ConsumerClosed,
    Event,
    Refused,
    Shutdown,
)
from arneb_amqp.session.heartbeats import NEVER, Beat, Heartbeats
from arneb_amqp.session.publishing import Publisher
from arneb_amqp.session.replies import close_connection, make
from arneb_amqp.session.routes import Routes
from arneb_amqp.session.transitions import (
    ChannelState,
    ConnectionInput,
    ConnectionState,
    IllegalMoveError,
    next_state,
)
from arneb_amqp.session.unacked import ConsumerId, Settled
from arneb_amqp.wire.constants import (
    BASIC_PUBLISH,
    CHANNEL_ZERO,
    CLASS_BASIC,
    FRAME_BYTES_MIN,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    ChannelId,
)
from arneb_amqp.wire.fast import FastReader
from arneb_amqp.wire.frames import BadProtocolHeader, ProtocolHeaderReader
from arneb_amqp.wire.items import Ack, AckRun, Broken, Heartbeat, Item, Method, Publish, PublishRun
from arneb_amqp.wire.methods import encode_method, method_ids
from arneb_core.interface import Deliveries

BASIC_ACK: Final = (CLASS_BASIC, 80)


class Vhost(Protocol):
    """What a session needs of a vhost."""

    @property
    def routes(self) -> Routes:
        """The routes that all its connections share."""
        ...

    def foreign_topic(self, queue: str) -> bool:
        """There is a topic of that queue's name, though nobody may have declared the queue."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a session is told about its broker."""

    config: AmqpConfig
    vhosts: Callable[[str], Vhost | None]
    new_name: Callable[[], str]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that is not answered, and whom to blame if it is refused."""

    then: Callable[[object], None]
    channel: ChannelId
    method: tuple[int, int]


class ConnectionSession:
    """One connection.

    Invariants: ``_waiting`` has one member for each request that was ordered and not answered,
    in order; ``_collecting`` is the only publisher with a run that is not ordered yet.
    """

    def __init__(self, around: Surroundings, now: float, *, loopback: bool = True) -> None:
        self._around = around
        self._config = around.config
        self._loopback = loopback
        self.state = ConnectionState.AWAITING_HEADER
        self.now_ms = 0
        self.user = ""
        self.cancel_notify = False
        self.frame_bytes_max = FRAME_BYTES_MIN
        self._channel_max = 0
        self._channels: dict[ChannelId, Channel] = {}
        self._now = now
        self._heartbeats = Heartbeats(now)
        self._deadline = now + self._config.handshake_s
        self._disconnected = False

        self._header = ProtocolHeaderReader()
        self._reader = FastReader(message_bytes_max=self._config.message_bytes_max)
        self._items: deque[Item] = deque()
        self._current: tuple[ChannelId, tuple[int, int]] = (CHANNEL_ZERO, NO_METHOD)

        self._waiting: deque[_Waiting] = deque()
        self._effects: list[Effect] = []
        self._collecting: Publisher | None = None
        self._collected = Collected()
        self._tokens = 0
        self._appends: dict[Token, tuple[Publisher, int]] = {}
        self._consumer_ids = 0
        self._consumers: dict[ConsumerId, ChannelConsumer] = {}
        self._confirming: dict[Publisher, None] = {}

        self._out: list[bytes] = []
        self.out_bytes = 0

    def __repr__(self) -> str:
        return (
            f"<ConnectionSession {self.state.value}, {len(self._channels)} channels, "
            f"{len(self._appends)} appends, {len(self._waiting)} requests>"
        )

    # Input.

    def receive_data(self, data: bytes | bytearray, now: float, now_ms: int) -> None:
        """Take bytes from the socket. Then take the effects, and the data to send."""
        self._now, self.now_ms = now, now_ms
        self._heartbeats.received(now)
        if self.state is ConnectionState.AWAITING_HEADER:
            try:
                rest = self._header.receive(data)
            except BadProtocolHeader:
                # 4.2.2: "... the server MUST ... write a valid protocol header ... and then
                # close the socket connection."
                self.send_chunks((PROTOCOL_HEADER,))
                self._cut("the peer does not speak AMQP 0-9-1")
                return
            if rest is None:
                return
            data = rest
            self._move(ConnectionInput.HEADER)
            self.send(CHANNEL_ZERO, handshake.start(self._config))
        if data:
            self._items.extend(self._reader.receive(data))
        self._advance()

    def handle(self, event: Event, now: float, now_ms: int) -> None:
        """Take an event. Then take the effects, and the data to send."""
        self._now, self.now_ms = now, now_ms
        match event:
            case Committed(token, error):
                publisher, last_tag = self._appends.pop(token)
                publisher.committed(last_tag, error)
            case Answered(value):
                waiting = self._waiting.popleft()
                self._current = waiting.channel, waiting.method
                waiting.then(value)
                self._advance()
            case Refused(error):
                waiting = self._waiting.popleft()
                self._failed(waiting.channel, error.caused_by(waiting.method))
                self._advance()
            case ConsumerClosed(id_):
                consumer = self._consumers.get(id_)
                if consumer is not None:
                    self._channels[consumer.deliverer.channel].consumer_closed(consumer)
            case Shutdown(reason):
                self._shut_down(reason)

    def deliver(self, id_: ConsumerId, run: Deliveries) -> None:
        """Send a run of deliveries; those of a consumer that has gone are dropped, since the
        core has them back already."""
        consumer = self._consumers.get(id_)
        if consumer is not None:
            consumer.deliver(run)

    def next_timer(self) -> float:
        """When :meth:`handle_timer` should be called at the latest."""
        return NEVER if self._disconnected else min(self._deadline, self._heartbeats.next_timer())

    def handle_timer(self, now: float) -> None:
        """Send a heartbeat, or give the peer up, if it is time to."""
        if self._disconnected:
            return
        if now >= self._deadline:
            self._cut(f"timed out in connection state {self.state.value}")
            return
        match self._heartbeats.check(now):
            case Beat.SEND:
                self.send_chunks((HEARTBEAT_FRAME,))
            case Beat.GIVE_UP:
                self._cut("missed heartbeats from client")
            case Beat.NOTHING:
                pass

    # Output.

    def take_effects(self) -> list[Effect]:
        """What is to be done, in order; the last one may be a request."""
        self._order_collected()
        effects, self._effects = self._effects, []
        return effects

    def data_to_send(self, now: float) -> bytes:
        """What is to be written, all that has come up since the last call."""
        if self._confirming:
            for publisher in self._confirming:
                publisher.send_confirms()
            self._confirming.clear()
        if not self._out:
            return b""
        self._heartbeats.sent(now)
        data = b"".join(self._out)
        self._out.clear()
        self.out_bytes = 0
        return data

    @property
    def is_busy(self) -> bool:
        """Appends are under way whose confirms will come; what is to be sent may wait for them."""
        return bool(self._appends)

    # What channels use (see arneb_amqp.session.host).

    @property
    def routes(self) -> Routes:
        """The routes of the vhost."""
        return self._vhost.routes

    def foreign_topic(self, queue: str) -> bool:
        """Somebody else made a topic where that queue would be."""
        return self._vhost.foreign_topic(queue)

    def send(self, channel: ChannelId, command: Command) -> None:
        """Queue a method without content; channels are silent once the connection closes."""
        if channel != CHANNEL_ZERO and self.state is not ConnectionState.OPEN:
            return
        self.send_chunks((encode_method(channel, command),))

    def send_chunks(self, chunks: Iterable[bytes]) -> None:
        """Queue encoded frames."""
        before = len(self._out)
        self._out.extend(chunks)
        self.out_bytes += sum(map(len, self._out[before:]))

    def append(self, effect: Append) -> None:
        """Order an append, in front of the acknowledgements that are being collected."""
        self._effects.append(effect)

    def emit(self, effect: Effect) -> None:
        """Order an effect, after everything ordered so far."""
        self._order_collected()
        self._effects.append(effect)

    def acknowledge(self, settled: Settled) -> None:
        """Order an acknowledgement; whole entries are merged by consumer."""
        if settled.masks:
            self.emit(Acknowledge(settled))
        else:
            self._collected.add(settled)

    def ask(self, request: Request, then: Callable[[object], None]) -> None:
        """Order a request and stop handling input until it is answered."""
        self.emit(request)
        self._waiting.append(_Waiting(then, *self._current))

    def next_token(self, publisher: Publisher, last_tag: int) -> Token:
        """A token for an append; its outcome goes to ``publisher``."""
        self._tokens += 1
        token = Token(self._tokens)
        self._appends[token] = (publisher, last_tag)
        return token

    def collecting(self, publisher: Publisher) -> None:
        """``publisher`` has begun to collect a run."""
        if self._collecting is not None and self._collecting is not publisher:
            self._collecting.end_run()
        self._collecting = publisher

    def confirming(self, publisher: Publisher) -> None:
        """``publisher`` has confirms to send."""
        self._confirming[publisher] = None

    def next_consumer(self) -> ConsumerId:
        """A consumer id that was never used."""
        self._consumer_ids += 1
        return ConsumerId(self._consumer_ids)

    def register(self, consumer: ChannelConsumer) -> None:
        """Send this consumer's deliveries to it."""
        self._consumers[consumer.id] = consumer

    def forget(self, consumer: ConsumerId) -> None:
        """Send no more deliveries to it."""
        self._consumers.pop(consumer, None)

    def new_name(self) -> str:
        """The random part of a name that the server gives."""
        return self._around.new_name()

    def channel_failed(self, channel: ChannelId, error: AmqpError) -> None:
        """Close the channel with an error that came late."""
        self._failed(channel, error)

    # Items.

    def _advance(self) -> None:
        items = self._items
        while items and not self._waiting:
            item = items.popleft()
            try:
                _HANDLERS[type(item)](self, item)
            except AmqpError as error:
                channel, method = self._current
                self._failed(channel, error.caused_by(method))

    def _publish_run(self, item: PublishRun) -> None:
        self._current = item.channel, BASIC_PUBLISH
        self._channel(item.channel).publish_run(item)

    def _publish(self, item: Publish) -> None:
        self._current = item.channel, BASIC_PUBLISH
        self._channel(item.channel).publish(item)

    def _ack_run(self, item: AckRun) -> None:
        self._current = item.channel, BASIC_ACK
        self._channel(item.channel).ack_run(item)

    def _ack(self, item: Ack) -> None:
        self._current = item.channel, BASIC_ACK
        self._channel(item.channel).ack(item)

    def _heartbeat(self, _: Heartbeat) -> None:
        """Any traffic has been noted already."""

    def _broken(self, item: Broken) -> None:
        self._current = item.channel, item.error.method
        if item.framing_lost:
            self._failed(CHANNEL_ZERO, item.error)
            self._cut(item.error.explanation)
            return
        raise item.error

    def _method(self, item: Method) -> None:
        channel, method = item.channel, item.method
        self._current = channel, method_ids(method)
        if channel == CHANNEL_ZERO:
            self._connection_method(method)
        elif self.state is ConnectionState.OPEN:
            if isinstance(method, ChannelMethods.Open) and channel not in self._channels:
                self._open_channel(channel)
            else:
                known = self._channel(channel)
                known.handle(method)
                if known.state is ChannelState.CLOSED:
                    del self._channels[channel]
        elif self.state is not ConnectionState.CLOSING:
            raise channel_error(f"unexpected method in connection state {self.state.value}")

    def _channel(self, id_: ChannelId) -> Channel:
        channel = self._channels.get(id_)
        if channel is not None:
            return channel
        if self.state is not ConnectionState.OPEN:
            raise channel_error(f"unexpected method in connection state {self.state.value}")
        self._check_channel_count()
        raise channel_error("expected 'channel.open'")

    def _open_channel(self, id_: ChannelId) -> None:
        self._check_channel_count()
        self._channels[id_] = Channel(self, id_)
        self.send(id_, make(ChannelMethods.OpenOk, channel_id=""))

    def _check_channel_count(self) -> None:
        count, limit = len(self._channels), self._channel_max
        if limit and count >= limit:
            raise not_allowed(
                f"number of channels opened ({count}) has reached the negotiated channel_max "
                f"({limit})"
            )

    # Methods of the connection class.

    def _connection_method(self, method: Command) -> None:
        happened, handler = _CONNECTION_METHODS.get(type(method), _UNEXPECTED)
        if self.state in (ConnectionState.CLOSING, ConnectionState.CLOSED):
            if happened is ConnectionInput.PEER_CLOSE:
                self.send(CHANNEL_ZERO, make(Connection.CloseOk))
            elif happened is ConnectionInput.PEER_CLOSE_OK:
                self._cut("closed")
            return
        try:
            self._move(happened)
        except IllegalMoveError:
            raise channel_error(
                f"unexpected method in connection state {self.state.value}"
            ) from None
        handler(self, method)

    def _start_ok(self, method: Connection.StartOk) -> None:
        try:
            client = handshake.log_in(method, self._config, loopback=self._loopback)
        except AmqpError as error:
            if isinstance(error, ChannelException) and handshake.wants_failure(method):
                raise
            self._cut(error.explanation)
            return
        self.user, self.cancel_notify = client.user, client.cancel_notify
        self._reader.frame_bytes_max = self._config.frame_bytes_max
        self.send(CHANNEL_ZERO, handshake.tune(self._config))

    def _tune_ok(self, method: Connection.TuneOk) -> None:
        limits = handshake.agree(method, self._config)
        self._channel_max = limits.channel_max
        self.frame_bytes_max = self._reader.frame_bytes_max = limits.frame_bytes_max
        self._heartbeats.interval_s = limits.heartbeat_s

    def _open(self, method: Connection.Open) -> None:
        vhost = self._around.vhosts(method.virtual_host)
        if vhost is None:
            raise not_allowed(f"vhost {method.virtual_host} not found")
        self._vhost = vhost
        self._deadline = NEVER
        self.send(CHANNEL_ZERO, make(Connection.OpenOk, known_hosts=""))

    def _update_secret(self, _: Connection.UpdateSecret) -> None:
        # There are no tokens that run out, so there is nothing to renew.
        self.send(CHANNEL_ZERO, make(Connection.UpdateSecretOk))

    def _unexpected(self, _: Command) -> None:
        raise channel_error(f"unexpected method in connection state {self.state.value}")

    def _closed_by_peer(self, _: Connection.Close) -> None:
        self._end_channels()
        self._items.clear()

        def ended(_: object) -> None:
            self.send(CHANNEL_ZERO, make(Connection.CloseOk))
            self._cut("closed by the client")

        self.ask(EndConnection(), ended)

    # Ends.

    def _failed(self, channel: ChannelId, error: AmqpError) -> None:
        """Close what ``error`` belongs to."""
        known = self._channels.get(channel)
        if isinstance(error, ChannelException) and known is not None:
            known.fail(error)
        elif self.state not in (ConnectionState.CLOSED, ConnectionState.CLOSING):
            self._fail(error)

    def _fail(self, error: AmqpError) -> None:
        # To whoever has not logged in nothing is said but that just this failed.
        told = self.state in (ConnectionState.OPEN, ConnectionState.OPENING) or (
            error.reply_code in (ReplyCode.ACCESS_REFUSED, ReplyCode.NOT_ALLOWED)
        )
        if not told:
            self._cut(error.explanation)
            return
        self._end_channels()
        self._move(ConnectionInput.FAIL)
        self.send(CHANNEL_ZERO, close_connection(error))
        self._reader.close()
        self._items.clear()
        self._deadline = self._now + self._config.close_s
        self.ask(EndConnection(), lambda _: None)

    def _shut_down(self, reason: str) -> None:
        if self.state is ConnectionState.OPEN:
            self._current = CHANNEL_ZERO, NO_METHOD
            self._fail(connection_forced(reason))
        elif self.state is not ConnectionState.CLOSING:
            self._cut(reason)

    def _end_channels(self) -> None:
        for channel in self._channels.values():
            channel.end()
        self._channels.clear()

    def _cut(self, reason: str) -> None:
        if self._disconnected:
            return
        self._disconnected = True
        self._end_channels()
        self._items.clear()
        self._move(ConnectionInput.CUT)
        self.emit(Disconnect(reason))

    def _move(self, happened: ConnectionInput) -> None:
        self.state = next_state(self.state, happened)

    def _order_collected(self) -> None:
        """Order the run that is being collected, then the acknowledgements."""
        publisher, self._collecting = self._collecting, None
        if publisher is not None:
            publisher.end_run()
        if self._collected.places:
            for consumer, places in self._collected.take().items():
                self._effects.append(Acknowledge(Settled(consumer, places)))


_Handler = Callable[[ConnectionSession, Any], None]

_HANDLERS: Final[Mapping[type[Item], _Handler]] = {
    PublishRun: ConnectionSession._publish_run,
    Publish: ConnectionSession._publish,
    AckRun: ConnectionSession._ack_run,
    Ack: ConnectionSession._ack,
    Method: ConnectionSession._method,
    Heartbeat: ConnectionSession._heartbeat,
    Broken: ConnectionSession._broken,
}

_UNEXPECTED: Final[tuple[ConnectionInput, _Handler]] = (
    ConnectionInput.WORK,
    ConnectionSession._unexpected,
)

_CONNECTION_METHODS: Final[Mapping[type[Command], tuple[ConnectionInput, _Handler]]] = {
    Connection.StartOk: (ConnectionInput.START_OK, ConnectionSession._start_ok),
    Connection.TuneOk: (ConnectionInput.TUNE_OK, ConnectionSession._tune_ok),
    Connection.Open: (ConnectionInput.OPEN, ConnectionSession._open),
    Connection.UpdateSecret: (ConnectionInput.WORK, ConnectionSession._update_secret),
    Connection.Close: (ConnectionInput.PEER_CLOSE, ConnectionSession._closed_by_peer),
    Connection.CloseOk: (ConnectionInput.PEER_CLOSE_OK, ConnectionSession._unexpected),
}
