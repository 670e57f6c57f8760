"""Clients: the connections of both protocols in one list, and which of them is the noisy one.

The rule: of what does not stand on the page nothing is looked at but what it is sorted by; how much
goes through each is sampled for all, so that one can be told from the others.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from arneb.http.management.calls import Call, Document, Reply, bad_request
from arneb.http.management.lists import Source, listed, listing_of
from arneb.http.management.ordering import FIGURES_PER_TURN, Figure
from arneb.http.management.router import Route
from arneb.http.management.rules import USERS, is_monitor
from arneb.http.management.site import Site
from arneb_amqp.server.connection import Connection
from arneb_amqp.server.roster import ConnectionStatistics

if TYPE_CHECKING:
    from arneb_pulsar.services.connections import OpenConnection

NOISY_SHARE: Final = 0.5
"""Who moves more than this of all bytes is the noisy one."""

NOISY_BYTES_S: Final = 100 * 1024
"""With less a second nobody is noisy."""

PULSAR: Final = "Pulsar"
AMQP: Final = "AMQP 0-9-1"


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One connection as the list knows it."""

    source: Any
    """What its bytes are sampled of; the same object for as long as it is open."""
    number: int | None
    """Of Pulsar's; None: AMQP's, which is known by its name."""
    name: str
    shown_name: str
    user: str
    vhost: str
    protocol: str
    state: str
    parts: int
    """Channels, or producers and consumers."""
    received_bytes: int
    sent_bytes: int
    opened_ms: int
    is_secured: bool


def _octets(source: Any) -> tuple[int, int]:
    """What has come, and what was sent."""
    counted = source.link if isinstance(source, Connection) else source.connection
    return counted.received_bytes, counted.sent_bytes


COUNTED: Final[Mapping[str, Callable[[Any], int]]] = {
    "flow": lambda source: sum(_octets(source)),
    "received": lambda source: _octets(source)[0],
    "sent": lambda source: _octets(source)[1],
}
"""Figures that are rates."""

FIGURES: Final[Mapping[str, Figure]] = {
    "name": lambda client: client.name,
    "user": lambda client: client.user,
    "vhost": lambda client: client.vhost,
    "protocol": lambda client: client.protocol,
    "state": lambda client: client.state,
    "parts": lambda client: client.parts,
    "opened": lambda client: client.opened_ms,
}

SORTABLE: Final = frozenset({*COUNTED, *FIGURES})


def sources(site: Site) -> Iterator[Any]:
    """Everybody whose bytes are sampled."""
    yield from site.roster
    if site.pulsar is not None:
        yield from site.pulsar.connections


def _amqp(site: Site, of: ConnectionStatistics) -> Client | None:
    source = site.roster.get(of.id)
    if source is None:
        return None
    named = of.terms.client_properties.get("connection_name")
    shown = named.text if named is not None and isinstance(named.value, bytes | str) else of.name
    return Client(
        source, None, of.name, shown, of.user, of.vhost, AMQP, of.state, of.channels,
        of.received_bytes, of.sent_bytes, of.connected_at_ms, of.peer.secured,
    )  # fmt: skip


def _pulsar(of: "OpenConnection", parts: int) -> Client:
    connection = of.connection
    state = "does not read" if connection.is_full else "running"
    return Client(
        of, of.number, connection.address, connection.address, connection.caller.role, "", PULSAR,
        state, parts, connection.received_bytes, connection.sent_bytes, of.opened_ms,
        connection.is_secured,
    )  # fmt: skip


def parts_of(site: Site) -> Mapping[Any, int]:
    """How many producers and consumers each connection of Pulsar's has."""
    found: dict[Any, int] = {}
    if site.pulsar is not None:
        for claim in site.pulsar.producers.all():
            found[claim.holder.connection] = found.get(claim.holder.connection, 0) + 1
        for attached in site.pulsar.consumers.all():
            found[attached.connection] = found.get(attached.connection, 0) + 1
    return found


async def _visible(site: Site, call: Call) -> list[Client]:
    """Those that the caller may see: who does not monitor, what is its own."""
    everybody, name = is_monitor(call.caller), call.caller.name
    found: list[Client] = []
    for number, each in enumerate(site.roster.connections(), 1):
        if number % FIGURES_PER_TURN == 0:
            await site.pause()
        if (everybody or each.user == name) and (client := _amqp(site, each)) is not None:
            found.append(client)
    if site.pulsar is not None:
        parts = parts_of(site)
        await site.pause()
        found += [
            _pulsar(each, parts.get(each.connection, 0))
            for each in site.pulsar.connections
            if everybody or each.connection.caller.role == name
        ]
    return found


def _rate(site: Site, what: str) -> Figure:
    rate = site.rates.growth.rate_of(f"client {what}", COUNTED[what], partial(sources, site))
    return lambda client: rate(client.source)


async def _list(site: Site, call: Call) -> Reply:
    listing = listing_of(call.query)
    if listing.sort and listing.sort not in SORTABLE:
        raise bad_request(f"cannot sort by {listing.sort[:40]}")
    if listing.page is None:
        raise bad_request("expected page")
    clients = await _visible(site, call)
    rates = {what: _rate(site, what) for what in COUNTED}
    total = 0.0
    for begin in range(0, len(clients), FIGURES_PER_TURN):
        total += sum(map(rates["flow"], clients[begin : begin + FIGURES_PER_TURN]))
        await site.pause()

    def document(client: Client) -> Document:
        flow = rates["flow"](client)
        return {
            "name": client.name,
            "shown_name": client.shown_name,
            "number": client.number,
            "user": client.user,
            "vhost": client.vhost,
            "protocol": client.protocol,
            "secured": client.is_secured,
            "state": client.state,
            "parts": client.parts,
            "received": round(rates["received"](client), 1),
            "sent": round(rates["sent"](client), 1),
            "received_bytes": client.received_bytes,
            "sent_bytes": client.sent_bytes,
            "opened_ms": client.opened_ms,
            "noisy": is_noisy(flow, total, len(clients)),
        }

    def figure(sort: str) -> Figure | None:
        return rates.get(sort) or FIGURES.get(sort)

    source = Source(clients, document, lambda client: (client.vhost, client.shown_name), figure)
    return Reply(await listed(source, listing, site.pause))


def is_noisy(flow: float, total: float, clients: int) -> bool:
    """Does one move most of what all move?"""
    return clients > 1 and flow > NOISY_BYTES_S and flow > NOISY_SHARE * total


ROUTES: Final = (Route("GET", "page/connections", USERS, _list),)
