"""Channels and their consumers over HTTP.

The rule: a channel is visible to users who may see its connection; a consumer to users with access
to its vhost.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from arneb.http.management.clients.connections import connection_in, eyes_of, visible_connections
from arneb.http.management.figures.counters import (
    CONSUMED,
    OF_CHANNELS,
    SENT,
    Counters,
    message_stats,
    of_channel,
)
from arneb.http.management.figures.presence import NO_COLLECTIONS, NO_REDUCTIONS, time_to_json
from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.lists import Source, listed, listing_of, ranges_of
from arneb.http.management.lists.ordering import Figure
from arneb.http.management.requests.calls import (
    Call,
    Document,
    Reply,
    bad_request,
    not_authorised,
    not_found,
)
from arneb.http.management.requests.rules import USERS, VHOST, has_access, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.server.roster import (
    ChannelStatistics,
    ConnectionStatistics,
    ConsumerStatistics,
    Known,
)
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.wire.json_fields import table_to_json, text_to_json

CHANNELS_PER_TURN: Final = 1000

_RANGES: Final = {"msg_rates": (*SENT, *CONSUMED)}


class _Row(NamedTuple):
    """A channel as a list of very many stores it."""

    connection: Known
    number: int

    @property
    def name(self) -> str:
        return _named(self.connection, self.number)


def _named(connection: Known | ConnectionStatistics, number: int) -> str:
    return f"{connection.name} ({number})"


def peer_details(connection: ConnectionStatistics) -> Document:
    """Return a connection as documents of its channels name it."""
    return {
        "name": connection.name,
        "peer_host": connection.peer.address,
        "peer_port": connection.peer.port,
    }


def _read(site: Site, id_: ConnectionId, number: int) -> Counters | None:
    found = site.roster.channel(id_, number)
    return None if found is None else of_channel(found.traffic)


def _document(site: Site, row: _Row, ranges: Mapping[str, Range]) -> Document | None:
    connection = site.roster.connection(row.connection.id)
    channel = site.roster.channel(row.connection.id, row.number)
    if connection is None or channel is None:
        return None
    counters = of_channel(channel.traffic)
    key = ("channel", connection.id, channel.number)
    read = partial(_read, site, connection.id, channel.number)
    rates = site.rates.details(key, counters, read, ranges)
    document: Document = {
        "name": row.name,
        "number": channel.number,
        "node": site.node,
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost,
        "state": channel.state,
        "connection_details": peer_details(connection),
        "transactional": channel.transactional,
        "confirm": channel.confirm,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": channel.unacknowledged,
        "messages_unconfirmed": channel.unconfirmed,
        "messages_uncommitted": channel.uncommitted,
        "acks_uncommitted": channel.acks_uncommitted,
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": channel.global_prefetch,
        "pending_raft_commands": 0,
        "garbage_collection": NO_COLLECTIONS,
        **NO_REDUCTIONS,
        **message_stats(counters, rates, OF_CHANNELS),
    }
    if (idle_since := site.rates.idle_since_ms(key)) is not None:
        document["idle_since"] = time_to_json(idle_since)
    return document


FIGURES: Final[Mapping[str, Callable[[ChannelStatistics], Any]]] = {
    "state": lambda channel: channel.state,
    "confirm": lambda channel: channel.confirm,
    "transactional": lambda channel: channel.transactional,
    "consumer_count": lambda channel: len(channel.consumers),
    "messages_unacknowledged": lambda channel: channel.unacknowledged,
    "messages_unconfirmed": lambda channel: channel.unconfirmed,
    "messages_uncommitted": lambda channel: channel.uncommitted,
    "acks_uncommitted": lambda channel: channel.acks_uncommitted,
    "prefetch_count": lambda channel: channel.prefetch,
    "global_prefetch_count": lambda channel: channel.global_prefetch,
}
"""Fields by which channels are sorted without making their documents."""

CONSTANT: Final[Mapping[str, Figure]] = {
    "name": lambda row: row.name,
    "number": lambda row: row.number,
    "user": lambda row: row.connection.user,
    "vhost": lambda row: row.connection.vhost,
}


def _figure(site: Site, sort: str) -> Figure | None:
    if (read := FIGURES.get(sort)) is None:
        return CONSTANT.get(sort)

    def figure(row: _Row) -> Any:
        channel = site.roster.channel(row.connection.id, row.number)
        return None if channel is None else read(channel)

    return figure


def _consumer(
    site: Site,
    connection: ConnectionStatistics,
    channel: ChannelStatistics,
    consumer: ConsumerStatistics,
) -> Document:
    vhost = site.topology.vhost(connection.vhost)
    queue = None if vhost is None else vhost.queues.get(consumer.queue)
    active, status = True, "up"
    if queue is not None and queue.options.single_active_consumer and queue.is_complete:
        active = queue.subscription.active_name == consumer.tag
        status = "single_active" if active else "waiting"
    return {
        "consumer_tag": text_to_json(consumer.tag),
        "queue": {"name": text_to_json(consumer.queue), "vhost": connection.vhost},
        "channel_details": {
            "name": _named(connection, channel.number),
            "number": channel.number,
            "connection_name": connection.name,
            "node": site.node,
            "peer_host": connection.peer.address,
            "peer_port": connection.peer.port,
            "user": connection.user,
        },
        "ack_required": consumer.ack_required,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "active": active,
        "activity_status": status,
        "arguments": table_to_json(consumer.arguments),
    }


def consumer_documents(site: Site, vhosts: Container[str]) -> Iterator[Document]:
    """Yield the consumers in these vhosts."""
    for connection in site.roster.connections():
        if connection.vhost in vhosts:
            for channel in site.roster.channels(connection.id):
                for each in channel.consumers:
                    yield _consumer(site, connection, channel, each)


async def _rows(site: Site, connections: Iterable[Known]) -> list[_Row]:
    rows: list[_Row] = []
    turn = CHANNELS_PER_TURN
    for connection in connections:
        rows += [_Row(connection, each) for each in site.roster.channel_numbers(connection.id)]
        if len(rows) >= turn:
            turn = len(rows) + CHANNELS_PER_TURN
            await site.pause()
    return rows


async def _answer(site: Site, call: Call, connections: Iterable[Known], of: Hashable) -> Reply:
    if call.flag("disable_stats"):
        raise bad_request("Stats in management UI are disabled on this node")
    ranges = ranges_of(call.query, _RANGES)
    rows = await _rows(site, connections)
    source = Source(
        rows,
        lambda row: _document(site, row, ranges),
        lambda row: (row.connection.vhost, row.name),
        partial(_figure, site),
        orders=site.orders,
        of=("channels", of),
        stamp=tuple(rows),
    )
    return Reply(await listed(source, listing_of(call.query), site.pause))


async def _list(site: Site, call: Call) -> Reply:
    if "vhost" in call.params:
        site.vhost_of(call)
    return await _answer(site, call, await visible_connections(site, call), eyes_of(call))


async def _of_connection(site: Site, call: Call) -> Reply:
    id_ = connection_in(site, call).id
    known = [each for each in site.roster.known() if each.id == id_]
    return await _answer(site, call, known, id_)


async def _show(site: Site, call: Call) -> Reply:
    for row in await _rows(site, site.roster.known()):
        if row.name != call.params["channel"]:
            continue
        if not is_monitor(call.caller) and row.connection.user != call.caller.name:
            raise not_authorised("User not authorised to access object")
        document = _document(site, row, ranges_of(call.query, _RANGES))
        connection = site.roster.connection(row.connection.id)
        channel = site.roster.channel(row.connection.id, row.number)
        if document is None or connection is None or channel is None:
            break
        consumers = [_consumer(site, connection, channel, each) for each in channel.consumers]
        document |= {"consumer_details": consumers, "publishes": [], "deliveries": []}
        return Reply(document)
    raise not_found()


async def _consumers(site: Site, call: Call) -> Reply:
    if call.flag("disable_stats"):
        raise bad_request("Stats in management UI are disabled on this node")
    vhosts = {each.name for each in await site.vhosts_for(call)}
    if "vhost" in call.params and not is_monitor(call.caller):
        # As in RabbitMQ, which refuses nobody here, but shows no consumers without access.
        vhosts = {each for each in vhosts if await has_access(call, each)}
    source = Source(
        list(consumer_documents(site, vhosts)),
        lambda document: document,
        lambda each: (each["queue"]["vhost"], each["queue"]["name"], each["consumer_tag"]),
    )
    return Reply(await listed(source, listing_of(call.query, paged=False), site.pause))


ROUTES: Final = (
    Route("GET", "channels", USERS, _list),
    Route("GET", "vhosts/:vhost/channels", VHOST, _list),
    Route("GET", "channels/:channel", USERS, _show),
    Route("GET", "connections/:connection/channels", USERS, _of_connection),
    Route("GET", "consumers", USERS, _consumers),
    Route("GET", "consumers/:vhost", USERS, _consumers),
)
