"""Connections over HTTP: listed and closed.

The rule: a user without a monitoring tag sees its own connections; only an administrator closes
others'.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Final

from arneb.http.management.figures.counters import OCTETS, Counters, with_details
from arneb.http.management.figures.presence import NO_COLLECTIONS, NO_REDUCTIONS
from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.lists import Source, listed, listing_of, ranges_of
from arneb.http.management.lists.ordering import Figure
from arneb.http.management.requests.calls import (
    DONE,
    Call,
    Document,
    Reply,
    not_authorised,
    not_found,
)
from arneb.http.management.requests.rules import USERS, VHOST, is_administrator, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.server.roster import ConnectionStatistics, Known
from arneb_amqp.server.transport.tls_fields import tls_fields
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.wire.json_fields import table_to_json

CONNECTIONS_PER_TURN: Final = 1000

CLOSED: Final = "Closed via management plugin"

_RANGES: Final = {"data_rates": OCTETS}


async def visible_connections(site: Site, call: Call) -> list[Known]:
    """Return the connections that the caller may see, in the path's vhost if there is one."""
    vhosts = set(asked_vhosts(call))
    user = None if is_monitor(call.caller) else call.caller.name
    found: list[Known] = []
    for number, each in enumerate(site.roster.known(), 1):
        if number % CONNECTIONS_PER_TURN == 0:
            await site.pause()
        if user in (None, each.user) and vhosts <= {each.vhost}:
            found.append(each)
    return found


def asked_vhosts(call: Call) -> tuple[str, ...]:
    """Return the vhosts to which the caller narrows the list: in the path, in a header, in both or
    in neither."""
    asked = call.params.get("vhost"), call.headers.get("x-vhost")
    return tuple(each for each in asked if each is not None)


def eyes_of(call: Call) -> Hashable:
    """Return a key that callers share if they see the same clients."""
    return None if is_monitor(call.caller) else call.caller.name, asked_vhosts(call)


def _read(site: Site, id_: ConnectionId) -> Counters | None:
    found = site.roster.connection(id_)
    if found is None:
        return None
    return _octets(found)


def _octets(of: ConnectionStatistics) -> Counters:
    return {"recv_oct": of.received_bytes, "send_oct": of.sent_bytes}


def octet_rates(
    site: Site, connection: ConnectionStatistics, ranges: Mapping[str, Range]
) -> Mapping[str, Mapping[str, Any]]:
    """Return a connection's byte rates, and sample it from now on."""
    read = partial(_read, site, connection.id)
    return site.rates.details(("connection", connection.id), _octets(connection), read, ranges)


def connection_document(
    site: Site, connection: ConnectionStatistics, ranges: Mapping[str, Range]
) -> Document:
    """Return one connection's document."""
    terms, peer = connection.terms, connection.peer
    client = table_to_json(terms.client_properties)
    counters = _octets(connection)
    rates = octet_rates(site, connection, ranges)
    document: Document = {
        "name": connection.name,
        "node": site.node,
        "pid": site.topology.broker_events.pid(connection.id),
        "type": "network",
        "state": connection.state,
        "protocol": "AMQP 0-9-1",
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost,
        "host": peer.local[0],
        "port": peer.local[1],
        "peer_host": peer.address,
        "peer_port": peer.port,
        "ssl": peer.secured,
        **tls_fields(peer),
        "auth_mechanism": terms.mechanism,
        "channel_max": terms.channel_max,
        "frame_max": terms.frame_bytes_max,
        "timeout": terms.heartbeat_s,
        "channels": connection.channels,
        "client_properties": client,
        "connected_at": connection.connected_at_ms,
        "recv_cnt": connection.reads,
        "send_cnt": connection.writes,
        "send_pend": connection.waiting_bytes,
        "garbage_collection": NO_COLLECTIONS,
        **NO_REDUCTIONS,
        **with_details(counters, rates, OCTETS),
    }
    if isinstance(client.get("connection_name"), str):
        document["user_provided_name"] = client["connection_name"]
    return document


def _short(connection: Known, node: str) -> Document:
    return {
        "name": connection.name,
        "vhost": connection.vhost,
        "user": connection.user,
        "node": node,
    }


def connection_in(site: Site, call: Call) -> ConnectionStatistics:
    """Return the connection in the path. Raises 404, or 401 if the caller may not see it."""
    for each in site.roster.known():
        if each.name == call.params["connection"]:
            if not is_monitor(call.caller) and each.user != call.caller.name:
                raise not_authorised("User not authorised to access object")
            if (found := site.roster.connection(each.id)) is not None:
                return found
    raise not_found()


FIGURES: Final[Mapping[str, Callable[[ConnectionStatistics], Any]]] = {
    "state": lambda connection: connection.state,
    "channels": lambda connection: connection.channels,
    "connected_at": lambda connection: connection.connected_at_ms,
    "recv_oct": lambda connection: connection.received_bytes,
    "send_oct": lambda connection: connection.sent_bytes,
    "recv_cnt": lambda connection: connection.reads,
    "send_cnt": lambda connection: connection.writes,
    "send_pend": lambda connection: connection.waiting_bytes,
}
"""Fields by which connections are sorted without making their documents."""

CONSTANT: Final[Mapping[str, Figure]] = {
    "name": lambda known: known.name,
    "user": lambda known: known.user,
    "vhost": lambda known: known.vhost,
}


def _figure(site: Site, sort: str) -> Figure | None:
    if (read := FIGURES.get(sort)) is None:
        return CONSTANT.get(sort)

    def figure(known: Known) -> Any:
        found = site.roster.connection(known.id)
        return None if found is None else read(found)

    return figure


async def _list(site: Site, call: Call) -> Reply:
    if "vhost" in call.params:
        site.vhost_of(call)
    ranges = ranges_of(call.query, _RANGES)

    def document(known: Known) -> Document | None:
        found = site.roster.connection(known.id)
        return None if found is None else connection_document(site, found, ranges)

    connections = await visible_connections(site, call)
    source = Source(
        connections,
        partial(_short, node=site.node) if call.flag("disable_stats") else document,
        lambda each: (each.vhost, each.name),
        partial(_figure, site),
        orders=site.orders,
        of=("connections", call.flag("disable_stats"), eyes_of(call)),
        stamp=tuple(connections),
    )
    return Reply(await listed(source, listing_of(call.query), site.pause))


async def _show(site: Site, call: Call) -> Reply:
    ranges = ranges_of(call.query, _RANGES)
    document = connection_document(site, connection_in(site, call), ranges)
    # As in RabbitMQ, which has null only in lists.
    document |= {name: "" for name, value in document.items() if value is None}
    return Reply(document)


async def _close(site: Site, call: Call) -> Reply:
    found = connection_in(site, call)
    _expect_own(call, found.user)
    site.roster.close(found.id, call.headers.get("x-reason") or CLOSED)
    return DONE


def _expect_own(call: Call, user: str) -> None:
    if not is_administrator(call.caller) and user != call.caller.name:
        raise not_authorised("User not authorised to access object")


async def _of_user(site: Site, call: Call) -> Reply:
    user = call.params["user"]
    if not is_monitor(call.caller) and user != call.caller.name:
        raise not_authorised("User not authorised to access object")
    found = [each for each in site.roster.known() if each.user == user]
    return Reply([_short(each, site.node) for each in found])


async def _close_of_user(site: Site, call: Call) -> Reply:
    user = call.params["user"]
    _expect_own(call, user)
    reason = call.headers.get("x-reason") or CLOSED
    for each in site.roster.known():
        if each.user == user:
            site.roster.close(each.id, reason)
    return DONE


ROUTES: Final = (
    Route("GET", "connections", USERS, _list),
    Route("GET", "vhosts/:vhost/connections", VHOST, _list),
    Route("GET", "connections/:connection", USERS, _show),
    Route("DELETE", "connections/:connection", USERS, _close),
    Route("GET", "connections/username/:user", USERS, _of_user),
    Route("DELETE", "connections/username/:user", USERS, _close_of_user),
)
