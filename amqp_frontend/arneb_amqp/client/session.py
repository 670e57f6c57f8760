"""A client's session: a broker's bytes in, events and bytes out.

The rule: no I/O, and no clock but the given ``now``. A broker that breaks the protocol ends only
the session.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Channel, Connection

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
from arneb_amqp.client.uris import BrokerUri
from arneb_amqp.wire.constants import (
    BASIC_NACK,
    CHANNEL_ZERO,
    FRAME_BYTES_MAX_DEFAULT,
    FRAME_BYTES_MIN,
    FRAME_BYTES_UNLIMITED,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    ChannelId,
)
from arneb_amqp.wire.deliver import Chunk, readdress
from arneb_amqp.wire.fast import FastReader
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
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.replies import make
from arneb_amqp.wire.tables import Field, boolean, longstr, table

CHANNELS_MAX: Final = 16
"""Channels of a connection: more than a shovel uses."""

LOCALE: Final = "en_US"

BEATS_MISSED: Final = 2
"""Heartbeat intervals without input after which the broker is given up."""

CAPABILITIES: Final = {
    name: boolean(True)
    for name in (
        "publisher_confirms", "consumer_cancel_notify", "basic.nack", "connection.blocked",
        "authentication_failure_close", "exchange_exchange_bindings",
    )
}  # fmt: skip


class ClientState(Enum):
    """The state of a session."""

    GREETING = "greeting"
    TUNING = "tuning"
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


MOVES: Final[Mapping[ClientState, frozenset[ClientState]]] = {
    ClientState.GREETING: frozenset({ClientState.TUNING, ClientState.CLOSED}),
    ClientState.TUNING: frozenset({ClientState.OPENING, ClientState.CLOSED}),
    ClientState.OPENING: frozenset({ClientState.OPEN, ClientState.CLOSED}),
    ClientState.OPEN: frozenset({ClientState.CLOSING, ClientState.CLOSED}),
    ClientState.CLOSING: frozenset({ClientState.CLOSED}),
    ClientState.CLOSED: frozenset(),
}


class ClientSession:
    """One connection to another broker, as its client."""

    def __init__(self, uri: BrokerUri, name: str, now: float) -> None:
        self._uri = uri
        self._name = name
        self._reader = FastReader(FRAME_BYTES_MAX_DEFAULT)
        self._out: list[Chunk] = [PROTOCOL_HEADER]
        self._frame_bytes_max = FRAME_BYTES_MAX_DEFAULT
        self._heartbeat_s = 0.0
        self._heard = self._said = now
        self._events: list[Event] = []
        self.state = ClientState.GREETING

    def __repr__(self) -> str:
        return f"<ClientSession to {self._uri.shown}, {self.state.value}>"

    # Input

    def receive(self, data: bytes | bytearray, now: float) -> list[Event]:
        """Take bytes and return the events in them. Nothing follows an :class:`.Ended`."""
        self._heard = now
        while self.state is not ClientState.CLOSED:
            for item in self._reader.receive(data):
                self._take(item)
            if not self._reader.has_more:
                break
            data = b""
        events, self._events = self._events, []
        return events

    def lost(self, reason: str) -> list[Event]:
        """End the session: the connection broke."""
        self._end(RemoteClosed(reason))
        events, self._events = self._events, []
        return events

    def _take(self, item: Item) -> None:
        if self.state is ClientState.CLOSED:
            return
        match item:
            case Method():
                self._method(item)
            case AckRun(channel, tags):
                self._events.append(Confirmed(channel, tags))
            case Ack(channel, tag):
                self._events.append(Confirmed(channel, [tag], multiple=True))
            case RejectRun(channel, tags, method=basic) if basic == BASIC_NACK:
                self._events.append(Confirmed(channel, tags, stored=False))
            case RejectRun():
                self._end(RemoteClosed("it broke the protocol: basic.reject from a server"))
            case Broken(_, error):
                self._end(RemoteClosed(f"it broke the protocol: {error}"))
            case Publish() | PublishRun() | VariedRun():
                self._end(RemoteClosed("it broke the protocol: basic.publish from a server"))
            case Heartbeat():
                pass

    def _method(self, item: Method) -> None:
        channel, method = item.channel, item.method
        handler = _HANDLERS.get(type(method))
        if isinstance(method, Basic.Deliver) and item.content is not None:
            self._events.append(
                Delivered(
                    channel, method.delivery_tag or 0, method.exchange or "",
                    method.routing_key or "",
                    item.content.properties, item.content.body,
                )
            )  # fmt: skip
        elif handler is not None:
            handler(self, channel, method)
        elif isinstance(method, Basic.Return):
            pass  # nothing is published as mandatory
        elif channel == CHANNEL_ZERO or self.state is not ClientState.OPEN:
            self._end(RemoteClosed(f"it broke the protocol: {method.name} came unasked"))
        else:
            self._events.append(Answered(channel, method))

    def _started(self, channel: ChannelId, method: Connection.Start) -> None:
        uri = self._uri
        mechanism = "EXTERNAL" if uri.external else "PLAIN"
        response = "" if uri.external else f"\0{uri.user}\0{uri.password}"
        offered: Any = method.mechanisms  # octets, whatever pamqp's annotations say
        if mechanism.encode() not in offered.split():
            self._end(RemoteClosed(f"it does not offer {mechanism}"))
            return
        properties: dict[str, Field] = {
            "product": longstr("Arneb"),
            "connection_name": longstr(self._name),
            "capabilities": table(CAPABILITIES),
        }
        if self._become(ClientState.TUNING):
            self._send(
                Connection.StartOk, client_properties=properties, mechanism=mechanism,
                response=response, locale=LOCALE,
            )  # fmt: skip

    def _tuned(self, channel: ChannelId, method: Connection.Tune) -> None:
        offered = method.frame_max or FRAME_BYTES_UNLIMITED
        if offered < FRAME_BYTES_MIN:
            self._end(RemoteClosed(f"it broke the protocol: a frame_max of {offered}"))
            return
        self._frame_bytes_max = min(offered, FRAME_BYTES_MAX_DEFAULT)
        self._reader.frame_bytes_max = self._frame_bytes_max
        intervals = [each for each in (method.heartbeat, self._uri.heartbeat_s) if each]
        heartbeat = min(intervals, default=0)
        self._heartbeat_s = float(heartbeat)
        if not self._become(ClientState.OPENING):
            return
        self._send(
            Connection.TuneOk, channel_max=min(method.channel_max or CHANNELS_MAX, CHANNELS_MAX),
            frame_max=self._frame_bytes_max, heartbeat=heartbeat,
        )  # fmt: skip
        vhost = "/" if self._uri.vhost is None else self._uri.vhost
        self._send(Connection.Open, virtual_host=vhost, capabilities="", insist=False)

    def _open(self, channel: ChannelId, method: Connection.OpenOk) -> None:
        if self._become(ClientState.OPEN):
            self._events.append(Opened())

    def _closed(self, channel: ChannelId, method: Connection.Close) -> None:
        self._send(Connection.CloseOk)
        self._end(RemoteClosed(str(method.reply_text), method.reply_code or 0))

    def _close_answered(self, channel: ChannelId, method: Connection.CloseOk) -> None:
        self._end(RemoteClosed("closed"))

    def _channel_closed(self, channel: ChannelId, method: Channel.Close) -> None:
        self._send(Channel.CloseOk, channel)
        error = RemoteClosed(str(method.reply_text), method.reply_code or 0)
        self._events.append(ChannelEnded(channel, error))

    def _refused(self, channel: ChannelId, method: Basic.Nack) -> None:
        self._events.append(
            Confirmed(channel, [method.delivery_tag], bool(method.multiple), stored=False)
        )

    def _cancelled(self, channel: ChannelId, method: Basic.Cancel) -> None:
        self._events.append(Cancelled(channel))

    def _blocked(self, channel: ChannelId, method: Connection.Blocked) -> None:
        self._events.append(Blocked(True))

    def _unblocked(self, channel: ChannelId, method: Connection.Unblocked) -> None:
        self._events.append(Blocked(False))

    def _end(self, error: RemoteClosed) -> None:
        if self.state is not ClientState.CLOSED:
            self._become(ClientState.CLOSED)
            self._events.append(Ended(error))

    def _become(self, state: ClientState) -> bool:
        """Move to ``state``; if that is illegal (a second connection.start, for example), end the
        session and return False."""
        if state in MOVES[self.state]:
            self.state = state
            return True
        error = RemoteClosed(f"it broke the protocol in the state {self.state.value}")
        self.state = ClientState.CLOSED
        self._events.append(Ended(error))
        return False

    # Output

    def call(self, channel: ChannelId, method: Command) -> None:
        """Send a method, which may be answered."""
        self._out.append(encode_method(channel, method))

    def publish(self, channel: ChannelId, exchange: str, routing_key: str, body: bytes) -> None:
        """Publish a message; ``body`` is in the form of :mod:`arneb_amqp.wire.content`."""
        method = make(
            Basic.Publish, ticket=0, exchange=exchange, routing_key=routing_key,
            mandatory=False, immediate=False,
        )  # fmt: skip
        self._out.append(encode_method(channel, method)[:-1])
        self._out += readdress(body, 0, channel, self._frame_bytes_max)

    def close(self) -> None:
        """Send ``connection.close``."""
        if self.state is ClientState.OPEN:
            self._become(ClientState.CLOSING)
            self._send(
                Connection.Close, reply_code=200, reply_text="Goodbye", class_id=0, method_id=0
            )

    def data_to_send(self, now: float) -> bytes:
        """Return everything to be written."""
        out, self._out = self._out, []
        if out:
            self._said = now
        return b"".join(out)

    def _send(
        self, kind: type[Command], channel: ChannelId = CHANNEL_ZERO, **fields: object
    ) -> None:
        self._out.append(encode_method(channel, make(kind, **fields)))

    # Time

    def next_timer(self) -> float:
        """Return when :meth:`handle_timer` must be called."""
        if not self._heartbeat_s:
            return float("inf")
        return min(
            self._said + self._heartbeat_s / 2, self._heard + BEATS_MISSED * self._heartbeat_s
        )

    def handle_timer(self, now: float) -> list[Event]:
        """Send a heartbeat, or give the broker up."""
        if self._heartbeat_s and now >= self._heard + BEATS_MISSED * self._heartbeat_s:
            return self.lost("nothing came from it for two heartbeats")
        if self._heartbeat_s and now >= self._said + self._heartbeat_s / 2:
            self._out.append(HEARTBEAT_FRAME)
        return []


_HANDLERS: Final[Mapping[type[Command], Callable[[ClientSession, ChannelId, Any], None]]] = {
    Connection.Start: ClientSession._started,
    Connection.Tune: ClientSession._tuned,
    Connection.OpenOk: ClientSession._open,
    Connection.Close: ClientSession._closed,
    Connection.CloseOk: ClientSession._close_answered,
    Connection.Blocked: ClientSession._blocked,
    Connection.Unblocked: ClientSession._unblocked,
    Channel.Close: ClientSession._channel_closed,
    Basic.Nack: ClientSession._refused,
    Basic.Cancel: ClientSession._cancelled,
}
