"""A connection's session: bytes, events and time in; bytes and effects out. No I/O.

The owner of the socket calls, in this order after each wake-up::

    session.receive_data(data, now, now_ms)     # or handle(event, ...), handle_timer(now)
    for effect in session.take_effects(): ...   # carry them out; requests get an answer
    socket.send(session.data_to_send(now))
    # while session.has_more: let others have a turn, then session.handle_more(now, now_ms)

The rule: input waits while a request is unanswered; answers to effects, deliveries and timers are
handled meanwhile.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from pamqp.commands import Channel as ChannelMethods

from arneb_amqp.errors import (
    NO_METHOD,
    AmqpError,
    ChannelException,
    channel_error,
    unexpected_frame,
)
from arneb_amqp.routing.search import Search, StillSearching
from arneb_amqp.session.channel.channel import Channel
from arneb_amqp.session.connection.channels import Channels
from arneb_amqp.session.connection.lifecycle import Lifecycle
from arneb_amqp.session.consume.ack_timeouts import check_interval_s
from arneb_amqp.session.context import BrokerContext, Pause, RegisteredConsumer
from arneb_amqp.session.deliveries import ConsumerId, consumer_of
from arneb_amqp.session.discarded import Discarded
from arneb_amqp.session.effect_queue import EffectQueue, Publishing
from arneb_amqp.session.effects import Authorize, Effect, Find, Refused, Token
from arneb_amqp.session.events import (
    AccessChanged,
    AlarmsChanged,
    Committed,
    ConsumerClosed,
    Event,
    RequestDone,
    RequestFailed,
    Shutdown,
)
from arneb_amqp.session.rights import RightUndecided
from arneb_amqp.session.transaction import TransactionBytes
from arneb_amqp.session.transitions import ChannelState, ConnectionState
from arneb_amqp.wire.constants import BASIC_ACK, BASIC_PUBLISH, CHANNEL_ZERO, ChannelId
from arneb_amqp.wire.items import (
    Ack,
    AckRun,
    Broken,
    Heartbeat,
    Item,
    Method,
    Publish,
    PublishRun,
    RejectRun,
    VariedRun,
)
from arneb_amqp.wire.methods import describe_method, method_ids
from arneb_amqp.wire.replies import make
from arneb_core.api.subscriptions.deliveries import Deliveries

TURN_WORK: Final = 2_500
"""The work of a turn, in microseconds; a full read of small messages with one route costs less."""

ACKS_PER_WORK: Final = 4
"""Acks handled per microsecond."""

METHOD_WORK: Final = 30
"""Work of a method beyond the least of an item, in microseconds."""


class ConnectionSession(Lifecycle):
    """One connection with its channels and their consumers."""

    def __init__(self, broker: BrokerContext, now: float) -> None:
        super().__init__(broker, now)
        self.now_ms = 0
        self.work_left = 0
        self._items: deque[Item] = deque()
        self.channels = Channels(broker.channels)
        self._consumer_ids = 0
        self._consumers: dict[ConsumerId, RegisteredConsumer] = {}
        self.confirmers: dict[Publishing, None] = {}
        self._timeout_s = broker.config.consumer_timeout_s
        self.transaction_bytes = TransactionBytes(broker.config.transaction_bytes_max)
        self._check_interval_s = check_interval_s(self._timeout_s)
        self._next_check = now + self._check_interval_s
        self.discarded = Discarded()
        self.timer_nearer = False
        """Whether :meth:`next_timer` has moved to an earlier time; cleared by the caller."""

    def __repr__(self) -> str:
        return (
            f"<ConnectionSession {self.state.value}, {len(self.channels)} channels, "
            f"{self.effects!r}, {len(self.waiting)} requests>"
        )

    # Input.

    def receive_data(self, data: bytes | bytearray, now: float, now_ms: int) -> None:
        """Handle bytes from the socket. Then take the effects and the data to send."""
        self.now_ms = now_ms
        self.received(now)
        if self.state is ConnectionState.AWAITING_HEADER:
            data = self.receive_header(data)
        if data:
            self._items.extend(self.reader.receive(data))
        self.work_left = TURN_WORK
        self._advance()

    @property
    def has_more(self) -> bool:
        """Whether input is left to handle: then :meth:`handle_more` must be called next turn."""
        if self.waiting or self.throttle.blocked or self.state is ConnectionState.CLOSED:
            return False
        return bool(self._items) or self.reader.has_more

    def handle_more(self, now: float, now_ms: int) -> None:
        """Handle more of the input. Then take the effects and the data to send."""
        self.now, self.now_ms = now, now_ms
        self.work_left = TURN_WORK
        self._advance()

    def handle(self, event: Event, now: float, now_ms: int) -> None:
        """Handle an event. Then take the effects and the data to send."""
        self.now, self.now_ms = now, now_ms
        match event:
            case Committed(token, error, refused):
                self.committed(token, error, refused=refused)
            case RequestDone(value):
                waiting = self.waiting.popleft()
                self.current = waiting.channel, waiting.method
                waiting.then(value)
                self._advance()
            case RequestFailed(error):
                waiting = self.waiting.popleft()
                if self.state is ConnectionState.TUNING:
                    self.login_refused()
                else:
                    self.failed(waiting.channel, error.caused_by(waiting.method))
                self._advance()
            case ConsumerClosed(id_):
                for channel in self.channels.used.values():
                    channel.orphaned(id_)
                consumer = self._consumers.get(consumer_of(id_))
                if consumer is not None:
                    self.channels.used[consumer.channel].consumer_closed(consumer.id)
            case AlarmsChanged(short):
                self.alarms_changed(short)
                self._advance()
            case AccessChanged():
                self.rights.forget()
            case Shutdown(reason):
                self.shut_down(reason)

    def committed(self, token: Token, error: AmqpError | None, *, refused: Refused) -> None:
        """Handle what :class:`Committed` says, without making the object for every commit. An
        ``error`` may cause effects."""
        publisher, last_tag = self.effects.committed(token)
        publisher.committed(last_tag, error, refused=refused)

    def deliver(self, id_: ConsumerId, run: Deliveries) -> None:
        """Send a run of deliveries. Those of a cancelled consumer are dropped: the core has already
        requeued them."""
        consumer = self._consumers.get(consumer_of(id_))
        if consumer is not None:
            consumer.deliver(id_, run)

    # Time.

    def next_timer(self) -> float:
        """The latest time at which :meth:`handle_timer` should be called."""
        due = super().next_timer()
        return min(due, self._next_check) if self.state is ConnectionState.OPEN else due

    def handle_timer(self, now: float) -> None:
        """Handle the lifecycle's timers, and close channels whose deliveries stay unanswered."""
        super().handle_timer(now)
        if now < self._next_check:
            return
        self._next_check = now + self._check_interval_s
        for channel in list(self.channels.used.values()):
            try:
                channel.check_ack_timeouts(now, self._timeout_s)
            except AmqpError as error:
                self.failed(channel.id, error)

    # Output.

    def take_effects(self) -> list[Effect]:
        """Return the effects in order; the session waits for an answer to each request."""
        return self.effects.drain()

    def data_to_send(self, now: float) -> bytes:
        """Return everything to be written since the last call."""
        if self.confirmers:
            for publisher in self.confirmers:
                publisher.send_confirms()
            self.confirmers.clear()
        if not self.output.size:
            return b""
        self.sent(now)
        return self.output.drain()

    # What channels use (see arneb_amqp.session.context).

    def check_ack_timeouts_within(self, timeout_s: float) -> None:
        """Check for unacknowledged deliveries often enough for ``timeout_s``."""
        if check_interval_s(timeout_s) < self._check_interval_s:
            self._check_interval_s = check_interval_s(timeout_s)
            self._next_check = min(self._next_check, self.now + self._check_interval_s)
            self.timer_nearer = True

    def confirming(self, publisher: Publishing) -> None:
        """Note that ``publisher`` has confirms to send."""
        self.confirmers[publisher] = None

    def next_consumer(self) -> ConsumerId:
        """Return a consumer id that was never used."""
        self._consumer_ids += 1
        return ConsumerId(self._consumer_ids)

    def register(self, consumer: RegisteredConsumer) -> None:
        """Pass deliveries for this consumer to it from now on."""
        self._consumers[consumer.id] = consumer

    def forget(self, consumer: ConsumerId) -> None:
        """Pass no more deliveries to the consumer."""
        self._consumers.pop(consumer, None)

    def new_name(self) -> str:
        """The random part of a server-generated name."""
        return self._broker.new_name()

    def failed(self, channel: ChannelId, error: AmqpError) -> None:
        """Close the channel or connection to which ``error`` belongs."""
        if not self.channels.fail(channel, error):
            self.fail(error)

    def end_channels(self) -> None:
        """End all channels at once and drop input that is not handled yet."""
        self.channels.end()
        self._items.clear()
        self.throttle.blocked = False

    def end(self) -> None:
        """Break the reference cycles, which would stay until a full garbage collection."""
        self.end_channels()
        self._consumers.clear()
        self.confirmers.clear()
        self.waiting.clear()
        self.effects = EffectQueue()

    @property
    def blocked(self) -> bool:
        """Whether the client must not be read for now."""
        return self.throttle.blocked or self.is_silent

    # Items.

    def _advance(self) -> None:
        items = self._items
        while not (self.waiting or self.throttle.blocked) and self.work_left > 0:
            if not items:
                if not self.reader.has_more or self.state is ConnectionState.CLOSED:
                    self.channels.left.clear()
                    return
                items.extend(self.reader.receive(b""))
                self.work_left -= TURN_WORK // 2
                continue
            item = items.popleft()
            if self.throttle.holds_all and self._held_back(item):
                return
            handle, work = _HANDLERS[type(item)]
            self.work_left -= work
            try:
                handle(self, item)
            except Pause as pause:
                self._pause(pause.rest or item, pause.search)
            except StillSearching as still:
                self._pause(item, still.search)
            except RightUndecided as undecided:
                self._items.appendleft(item)
                self.ask(Authorize(undecided.question), lambda _: None)
            except AmqpError as error:
                channel, method = self.current
                self.failed(channel, error.caused_by(method))

    def _pause(self, rest: Item, search: Search | None) -> None:
        """Handle the rest of an item later, and only when ``search`` is over."""
        self._items.appendleft(rest)
        if search is not None:
            self.ask(Find(search), lambda _: None)

    def _publish_run(self, item: PublishRun | VariedRun) -> None:
        if self._held_back(item):
            return
        self.current = item.channel, BASIC_PUBLISH
        channel = self._channel(item.channel)
        if channel.state is ChannelState.OPEN:
            channel.publisher.publish_run(item)
        # Counted afterwards, or publishes by headers that exceed a turn would never begin.
        self.work_left -= len(item.bodies)

    def _publish(self, item: Publish) -> None:
        if self._held_back(item):
            return
        self.current = item.channel, BASIC_PUBLISH
        self._channel(item.channel).publish(item)

    def _held_back(self, item: Item) -> bool:
        """Block the client from this publish on if a resource is short."""
        if not self.throttle.short or self.state is not ConnectionState.OPEN:
            return False
        self.throttle.publish()
        self._items.appendleft(item)
        self.block()
        return True

    def _ack_run(self, item: AckRun) -> None:
        self.current = item.channel, BASIC_ACK
        self.work_left -= len(item.tags) // ACKS_PER_WORK
        self._channel(item.channel).ack_run(item)

    def _ack(self, item: Ack) -> None:
        self.current = item.channel, BASIC_ACK
        self._channel(item.channel).ack(item)

    def _reject_run(self, item: RejectRun) -> None:
        self.current = item.channel, item.method
        self.work_left -= len(item.tags)
        self._channel(item.channel).reject_run(item)

    def _broken(self, item: Broken) -> None:
        self.current = item.channel, item.error.method or NO_METHOD
        if item.framing_lost:
            self.fail(item.error)
            self.cut(item.error.explanation)
            return
        if isinstance(item.error, ChannelException):
            self._channel(item.channel)  # raises the graver error if the channel is not open
        raise item.error

    def _method(self, item: Method) -> None:
        channel, method = item.channel, item.method
        self.current = channel, method_ids(method)
        self.work_left -= METHOD_WORK
        if channel == CHANNEL_ZERO:
            self.handle_method(method)
        elif self.state is not ConnectionState.OPEN:
            raise unexpected_frame(describe_method(method), NO_METHOD)
        elif isinstance(method, ChannelMethods.Open) and channel not in self.channels:
            self._open_channel(channel)
        else:
            known = self._channel(channel)
            known.handle(method)
            if known.state is ChannelState.CLOSED:
                self.channels.close(channel, by_client=isinstance(method, ChannelMethods.Close))

    def _channel(self, id_: ChannelId) -> Channel:
        channels = self.channels
        channel = channels.used.get(id_) or channels.first_used(id_, self, self.vhost)
        if channel is not None:
            return channel
        self._check_channel_count()
        raise channel_error("expected 'channel.open'")

    def _open_channel(self, id_: ChannelId) -> None:
        self._check_channel_count()
        self.channels.open(id_, self.rights.principal.name)
        self.output.send(id_, make(ChannelMethods.OpenOk, channel_id=""))

    def _check_channel_count(self) -> None:
        """Check that one more channel may be opened, worded for a number that is not open."""
        if self.state is not ConnectionState.OPEN:
            raise self.unexpected()
        self.channels.check_count(self.channel_max)


_Handler = Callable[[ConnectionSession, Any], None]

_HANDLERS: Final[Mapping[type[Item], tuple[_Handler, int]]] = {
    PublishRun: (ConnectionSession._publish_run, 10),
    VariedRun: (ConnectionSession._publish_run, 10),
    Publish: (ConnectionSession._publish, 10),
    AckRun: (ConnectionSession._ack_run, 10),
    Ack: (ConnectionSession._ack, 10),
    RejectRun: (ConnectionSession._reject_run, 10),
    Method: (ConnectionSession._method, 10),
    # All traffic has been noted already.
    Heartbeat: (lambda _session, _heartbeat: None, 1),
    Broken: (ConnectionSession._broken, 40),
}
"""The handler of each item and its minimal cost in microseconds."""
