"""The roster: the connections as frozen statistics, and their end by an operator.

The rule: values, made on request. Their counters are updated once per run, read or write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from arneb_amqp.server.admission.occupancy import Occupancy
from arneb_amqp.server.connection import Connection
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.session.channel.channel import Channel
from arneb_amqp.session.connection.admission import Terms
from arneb_amqp.session.consume.deliverer import Deliverer
from arneb_amqp.session.events import Shutdown
from arneb_amqp.session.publish.publisher import Publisher
from arneb_amqp.session.transitions import ChannelState, ConnectionState
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.traffic import Consumed
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.tables import Table
from arneb_core.api.process.clock import wall_clock_ms

_SHOWN: Final = (ConnectionState.OPEN, ConnectionState.CLOSING)
"""Clients that have not entered yet are not shown to operators."""


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """A consumer at one instant."""

    tag: str
    queue: str
    ack_required: bool
    exclusive: bool
    prefetch: int
    arguments: Table


@dataclass(frozen=True, slots=True)
class ChannelTraffic:
    """Messages that passed through a channel since it was opened."""

    published: int = 0
    confirmed: int = 0
    returned: int = 0
    dropped: int = 0
    consumed: Consumed = field(default_factory=Consumed)


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """A channel at one instant."""

    number: int
    state: str = "running"
    confirm: bool = False
    transactional: bool = False
    unacknowledged: int = 0
    unconfirmed: int = 0
    prefetch: int = 0
    global_prefetch: int = 0
    uncommitted: int = 0
    """Messages published in an uncommitted transaction."""
    acks_uncommitted: int = 0
    """Deliveries answered in an uncommitted transaction."""
    traffic: ChannelTraffic = field(default_factory=ChannelTraffic)
    consumers: tuple[ConsumerStatistics, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """A connection at one instant."""

    id: ConnectionId
    peer: Remote
    user: str
    vhost: str
    state: str
    connected_at_ms: int
    terms: Terms
    channels: int
    received_bytes: int
    sent_bytes: int
    reads: int
    """The number of reads."""
    writes: int
    waiting_bytes: int
    """Bytes that the peer has not taken yet."""

    @property
    def name(self) -> str:
        """Both ends, as RabbitMQ names a connection."""
        return self.peer.name


class Known(NamedTuple):
    """The constant part of a connection, for long lists."""

    id: ConnectionId
    peer: Remote
    user: str
    vhost: str
    shown_name: str
    """The client's name for it, else :attr:`name`."""

    @property
    def name(self) -> str:
        """Both ends, as RabbitMQ names a connection."""
        return self.peer.name


@dataclass(slots=True)
class _Entry:
    connection: Connection
    peer: Remote
    connected_at_ms: int
    known: Known | None = None
    """Set once it has entered a vhost."""


class Roster:
    """The connections of one server."""

    def __init__(self) -> None:
        self._entries: dict[ConnectionId, _Entry] = {}
        self.opened_total = self.closed_total = 0
        self.occupancy: Occupancy | None = None
        """The server's, once it serves."""
        self._octets: dict[str, list[int]] = {}  # of past connections, by vhost
        self._packets = [0, 0]  # of past connections

    def __repr__(self) -> str:
        return f"<Roster of {len(self._entries)} connections>"

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Connection]:
        return iter([each.connection for each in self._entries.values()])

    def get(self, id_: ConnectionId) -> Connection | None:
        """Return the connection of that number."""
        entry = self._entries.get(id_)
        return None if entry is None else entry.connection

    def enter(self, id_: ConnectionId, connection: Connection, peer: Remote) -> None:
        """Add a connection."""
        self._entries[id_] = _Entry(connection, peer, wall_clock_ms())
        self.opened_total += 1

    def leave(self, id_: ConnectionId) -> None:
        """Remove a connection."""
        entry = self._entries.pop(id_)
        self.closed_total += 1
        session, link = entry.connection.session, entry.connection.link
        if session.vhost is not None:
            gone = self._octets.setdefault(session.rights.vhost, [0, 0])
            gone[0] += link.received_bytes
            gone[1] += link.sent_bytes
        self._packets[0] += link.reads
        self._packets[1] += link.writes

    # For operators

    @property
    def channels_opened_total(self) -> int:
        """Total since the server started."""
        return 0 if self.occupancy is None else self.occupancy.channels_opened

    @property
    def channels_closed_total(self) -> int:
        """Total since the server started."""
        return 0 if self.occupancy is None else self.occupancy.channels_closed

    def consumers(self, id_: ConnectionId) -> int:
        """The number of consumers of a connection."""
        entry = self._entries.get(id_)
        if entry is None:
            return 0
        channels = entry.connection.session.channels.used.values()
        halves = [each.halves[1] for each in channels]
        return sum(len(each.consumers) for each in halves if each is not None)

    def octets(self, vhost: str | None = None) -> dict[str, int]:
        """Bytes received and sent by all present and past connections of a vhost; None: of all
        vhosts."""
        gone = [each for name, each in self._octets.items() if vhost in (None, name)]
        received, sent = sum(each[0] for each in gone), sum(each[1] for each in gone)
        for entry in self._entries.values():
            session, link = entry.connection.session, entry.connection.link
            if session.vhost is not None and vhost in (None, session.rights.vhost):
                received += link.received_bytes
                sent += link.sent_bytes
        return {"recv_oct": received, "send_oct": sent}

    def packets(self) -> tuple[int, int]:
        """The numbers of reads and writes of all present and past connections."""
        links = [each.connection.link for each in self._entries.values()]
        came, went = self._packets
        return came + sum(each.reads for each in links), went + sum(each.writes for each in links)

    def channel(self, id_: ConnectionId, number: int) -> ChannelStatistics | None:
        """Return one channel of a connection."""
        entry = self._entries.get(id_)
        if entry is None:
            return None
        channels = entry.connection.session.channels
        used = channels.used.get(ChannelId(number))
        if used is not None:
            return _channel(entry.connection, used)
        return ChannelStatistics(number) if number in channels.unused else None

    def known(self) -> Iterator[Known]:
        """Yield the connections that are in a vhost, oldest first; some may end between two
        steps."""
        for id_, entry in list(self._entries.items()):
            session = entry.connection.session
            if session.state not in _SHOWN or session.principal is None or session.vhost is None:
                continue
            if entry.known is None:
                user, vhost = session.principal.name, session.rights.vhost
                entry.known = Known(id_, entry.peer, user, vhost, _shown(entry.peer, session.terms))
            yield entry.known

    def channel_count(self, id_: ConnectionId) -> int:
        """The number of channels of a connection."""
        entry = self._entries.get(id_)
        return 0 if entry is None else len(entry.connection.session.channels)

    def channel_numbers(self, id_: ConnectionId) -> Sequence[int]:
        """Return the numbers of a connection's channels, in order."""
        entry = self._entries.get(id_)
        if entry is None:
            return ()
        channels = entry.connection.session.channels
        return sorted([*channels.unused, *channels.used])

    def connections(self) -> Iterator[ConnectionStatistics]:
        """Yield the connections with their statistics."""
        for id_ in list(self._entries):
            found = self.connection(id_)
            if found is not None:
                yield found

    def connection(self, id_: ConnectionId) -> ConnectionStatistics | None:
        """Return the statistics of one connection."""
        entry = self._entries.get(id_)
        if entry is None:
            return None
        session, link = entry.connection.session, entry.connection.link
        if session.state not in _SHOWN or session.principal is None or session.vhost is None:
            return None
        state = "running" if session.state is ConnectionState.OPEN else "closing"
        return ConnectionStatistics(
            id_, entry.peer, session.principal.name, session.rights.vhost,
            "blocked" if session.throttle.blocked else state, entry.connected_at_ms,
            session.terms, len(session.channels), link.received_bytes, link.sent_bytes,
            link.reads, link.writes, link.waiting_bytes,
        )  # fmt: skip

    def channels(self, id_: ConnectionId) -> list[ChannelStatistics]:
        """Return the channels of a connection, by number."""
        entry = self._entries.get(id_)
        if entry is None:
            return []
        channels = entry.connection.session.channels
        unused = [ChannelStatistics(number) for number in channels.unused]
        used = [_channel(entry.connection, each) for each in channels.used.values()]
        return sorted([*unused, *used], key=lambda each: each.number)

    def close(self, id_: ConnectionId, reason: str) -> None:
        """End a connection with 320 and ``reason``."""
        entry = self._entries.get(id_)
        if entry is not None:
            entry.connection.tell(Shutdown(reason))


def _shown(peer: Remote, terms: Terms) -> str:
    named = terms.client_properties.get("connection_name")
    return named.text if named is not None and isinstance(named.value, bytes | str) else peer.name


def _channel(connection: Connection, channel: Channel) -> ChannelStatistics:
    publisher, deliverer = channel.halves
    confirms = None if publisher is None else publisher.confirms
    consumers = []
    for each in () if deliverer is None else deliverer.consumers.values():
        wanted = connection.consumers.wanted(each.id)
        consumers.append(
            ConsumerStatistics(
                each.tag, each.queue, not each.no_ack, bool(wanted and wanted.exclusive),
                wanted.windows[0].limit if wanted else 0, wanted.arguments if wanted else {},
            )
        )  # fmt: skip
    transaction = None if publisher is None else publisher.transaction
    return ChannelStatistics(
        channel.id,
        "running" if channel.state is ChannelState.OPEN else "closing",
        confirms is not None,
        transaction is not None,
        0 if deliverer is None else len(deliverer.answers.unacked),
        0 if confirms is None else confirms.last_expected - confirms.last_answered,
        *channel.limits,
        0 if transaction is None else transaction.messages,
        0 if transaction is None else len(transaction.pending),
        _traffic(publisher, deliverer),
        tuple(consumers),
    )


def _traffic(publisher: Publisher | None, deliverer: Deliverer | None) -> ChannelTraffic:
    consumed, sent = Consumed(), (0, 0, 0, 0)
    if publisher is not None:
        confirmed = 0 if publisher.confirms is None else publisher.confirms.confirmed
        sent = publisher.published, confirmed, publisher.returns.count, publisher.dropped
    if deliverer is not None:
        transaction = None if publisher is None else publisher.transaction
        consumed = Consumed(
            deliverer.delivered, deliverer.delivered_no_ack, deliverer.got, deliverer.got_no_ack,
            deliverer.got_nothing, deliverer.redelivered, deliverer.acknowledged(transaction),
        )  # fmt: skip
    return ChannelTraffic(*sent, consumed)
