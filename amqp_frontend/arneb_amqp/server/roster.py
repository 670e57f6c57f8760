"""The roster: who is connected, as frozen statistics, and the end of a connection by an operator.

The rule: values, made when they are asked for. Nothing is counted for them but bytes, by the read
and by the write.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from arneb_amqp.server.connection import Connection
from arneb_amqp.server.entrance import Remote
from arneb_amqp.session.channel.channel import Channel
from arneb_amqp.session.connection.lifecycle import Terms
from arneb_amqp.session.events import Shutdown
from arneb_amqp.session.transitions import ConnectionState
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.wire.tables import Table
from arneb_core.api.clock import wall_clock_ms

_SHOWN: Final = frozenset({ConnectionState.OPEN, ConnectionState.CLOSING})
"""Who has not come in yet is nobody that an operator knows."""


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
class ChannelStatistics:
    """A channel at one instant."""

    number: int
    confirm: bool = False
    transactional: bool = False
    unacknowledged: int = 0
    unconfirmed: int = 0
    prefetch: int = 0
    global_prefetch: int = 0
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

    @property
    def name(self) -> str:
        """Both ends, as RabbitMQ names a connection."""
        return self.peer.name


@dataclass(frozen=True, slots=True)
class _Entry:
    connection: Connection
    peer: Remote
    connected_at_ms: int


class Roster:
    """The connections of one server."""

    def __init__(self) -> None:
        self._entries: dict[ConnectionId, _Entry] = {}
        self.opened_total = self.closed_total = 0

    def __repr__(self) -> str:
        return f"<Roster of {len(self._entries)} connections>"

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Connection]:
        return iter([each.connection for each in self._entries.values()])

    def get(self, id_: ConnectionId) -> Connection | None:
        """The connection of that number."""
        entry = self._entries.get(id_)
        return None if entry is None else entry.connection

    def enter(self, id_: ConnectionId, connection: Connection, peer: Remote) -> None:
        """A client has connected."""
        self._entries[id_] = _Entry(connection, peer, wall_clock_ms())
        self.opened_total += 1

    def leave(self, id_: ConnectionId) -> None:
        """It has gone."""
        del self._entries[id_]
        self.closed_total += 1

    # For operators

    def connections(self) -> Iterator[ConnectionStatistics]:
        """Those that are in a vhost, the first first; some may go while one waits in between."""
        for id_ in list(self._entries):
            found = self.connection(id_)
            if found is not None:
                yield found

    def connection(self, id_: ConnectionId) -> ConnectionStatistics | None:
        """One of them."""
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
        )  # fmt: skip

    def channels(self, id_: ConnectionId) -> list[ChannelStatistics]:
        """Those of a connection, by number."""
        entry = self._entries.get(id_)
        if entry is None:
            return []
        channels = entry.connection.session.channels
        unused = [ChannelStatistics(number) for number in channels.unused]
        used = [_channel(entry.connection, each) for each in channels.used.values()]
        return sorted([*unused, *used], key=lambda each: each.number)

    def close(self, id_: ConnectionId, reason: str) -> None:
        """End a connection, with 320 and the reason."""
        entry = self._entries.get(id_)
        if entry is not None:
            entry.connection.tell(Shutdown(reason))


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
    return ChannelStatistics(
        channel.id,
        confirms is not None,
        publisher is not None and publisher.transaction is not None,
        0 if deliverer is None else len(deliverer.unacked),
        0 if confirms is None else confirms.last_expected - confirms.last_answered,
        *channel.limits,
        tuple(consumers),
    )
