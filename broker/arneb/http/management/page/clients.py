"""Clients: the connections of both protocols in one list, and which of them is noisy.

The rule: of clients that are not on the page only the sort key is read. Byte rates are sampled for
all clients, so that a noisy one stands out.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arneb.http.management.clients.connections import eyes_of, octet_rates, visible_connections
from arneb.http.management.lists.lists import Source, listed, listing_of
from arneb.http.management.lists.ordering import FIGURES_PER_TURN, Figure
from arneb.http.management.page.pulsar_client import byte_rates
from arneb.http.management.requests.calls import Call, Document, Reply, bad_request
from arneb.http.management.requests.rules import USERS, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.server.connection import Connection
from arneb_amqp.server.roster import ConnectionStatistics, Known

if TYPE_CHECKING:
    from arneb_pulsar.services.clients.connections import OpenConnection

NOISY_SHARE: Final = 0.5
"""A noisy client moves more than this share of all bytes."""

NOISY_BYTES_S: Final = 100 * 1024
"""A client that moves fewer bytes a second is not noisy."""

PULSAR: Final = "Pulsar"
AMQP: Final = "AMQP 0-9-1"


class AmqpClient(NamedTuple):
    """An AMQP connection in the list."""

    source: Connection
    """The object whose bytes are sampled; the same while the connection is open."""
    known: Known


class PulsarClient(NamedTuple):
    """A Pulsar connection in the list."""

    source: "OpenConnection"


Client = AmqpClient | PulsarClient


def _octets(source: Any) -> tuple[int, int]:
    """Return the bytes received and sent."""
    counted = source.link if isinstance(source, Connection) else source.connection
    return counted.received_bytes, counted.sent_bytes


COUNTED: Final[Mapping[str, Callable[[Any], int]]] = {
    "flow": lambda source: sum(_octets(source)),
    "received": lambda source: _octets(source)[0],
    "sent": lambda source: _octets(source)[1],
}
"""Figures whose growth is the sort key."""


def sources(site: Site) -> Iterator[Any]:
    """Yield all connections, for sampling their bytes."""
    yield from site.roster
    if site.pulsar is not None:
        yield from site.pulsar.connections


async def _visible(site: Site, call: Call) -> list[Client]:
    """Return the clients that the caller may see: its own, or all for monitors."""
    everybody, name = is_monitor(call.caller), call.caller.name
    found: list[Client] = [
        AmqpClient(source, known)
        for known in await visible_connections(site, call)
        if (source := site.roster.get(known.id)) is not None
    ]
    if site.pulsar is not None:
        await site.pause()
        found += [
            PulsarClient(each)
            for each in site.pulsar.connections
            if everybody or each.connection.caller.role == name
        ]
    return found


def parts_of(site: Site) -> Mapping[Any, int]:
    """Return the number of producers and consumers of each Pulsar connection."""
    found: dict[Any, int] = {}
    if site.pulsar is not None:
        for claim in site.pulsar.producers.all():
            found[claim.holder.connection] = found.get(claim.holder.connection, 0) + 1
        for attached in site.pulsar.consumers.all():
            found[attached.connection] = found.get(attached.connection, 0) + 1
    return found


def _order(client: Client) -> tuple[str, str]:
    if isinstance(client, AmqpClient):
        return client.known.vhost, client.known.shown_name
    return "", client.source.connection.address


def _state(found: "OpenConnection") -> str:
    return "does not read" if found.connection.is_full else "running"


# Sort keys

_KNOWN: Final[Mapping[str, Callable[[Known], Any]]] = {
    "name": lambda known: known.name,
    "user": lambda known: known.user,
    "vhost": lambda known: known.vhost,
    "protocol": lambda _: AMQP,
}

_NOW: Final[Mapping[str, Callable[[ConnectionStatistics], Any]]] = {
    "state": lambda connection: connection.state,
    "parts": lambda connection: connection.channels,
    "opened": lambda connection: connection.connected_at_ms,
}

_PULSAR: Final[Mapping[str, Callable[["OpenConnection"], Any]]] = {
    "name": lambda found: found.connection.address,
    "user": lambda found: found.connection.caller.role,
    "vhost": lambda _: "",
    "protocol": lambda _: PULSAR,
    "state": _state,
    "opened": lambda found: found.opened_ms,
}

SORTABLE: Final = frozenset({*COUNTED, *_KNOWN, *_NOW})


def _figure(site: Site, parts: Mapping[Any, int], sort: str) -> Figure:
    if sort in COUNTED:
        return _rate(site, sort)

    def figure(client: Client) -> Any:
        if isinstance(client, PulsarClient):
            if sort == "parts":
                return parts.get(client.source.connection, 0)
            return _PULSAR[sort](client.source)
        if sort in _KNOWN:
            return _KNOWN[sort](client.known)
        now = site.roster.connection(client.known.id)
        return None if now is None else _NOW[sort](now)

    return figure


def _rate(site: Site, what: str) -> Figure:
    rate = site.rates.growth.rate_of(f"client {what}", COUNTED[what], partial(sources, site))
    return lambda client: rate(client.source)


# Documents


def _of_amqp(site: Site, known: Known) -> Document | None:
    """Return one AMQP client's document; None if it has gone."""
    found = site.roster.connection(known.id)
    if found is None:
        return None
    rates = octet_rates(site, found, {})
    return {
        "name": known.name,
        "shown_name": known.shown_name,
        "number": None,
        "user": known.user,
        "vhost": known.vhost,
        "protocol": AMQP,
        "secured": found.peer.secured,
        "state": found.state,
        "parts": found.channels,
        "received": rates["recv_oct"]["rate"],
        "sent": rates["send_oct"]["rate"],
        "received_bytes": found.received_bytes,
        "sent_bytes": found.sent_bytes,
        "opened_ms": found.connected_at_ms,
    }


def _of_pulsar(site: Site, found: "OpenConnection", parts: int) -> Document:
    connection = found.connection
    rates = byte_rates(site, found)
    return {
        "name": connection.address,
        "shown_name": connection.address,
        "number": found.number,
        "user": connection.caller.role,
        "vhost": "",
        "protocol": PULSAR,
        "secured": connection.is_secured,
        "state": _state(found),
        "parts": parts,
        "received": rates["received"]["rate"],
        "sent": rates["sent"]["rate"],
        "received_bytes": connection.received_bytes,
        "sent_bytes": connection.sent_bytes,
        "opened_ms": found.opened_ms,
    }


async def _list(site: Site, call: Call) -> Reply:
    listing = listing_of(call.query)
    if listing.sort and listing.sort not in SORTABLE:
        raise bad_request(f"cannot sort by {listing.sort[:40]}")
    if listing.page is None:
        raise bad_request("expected page")
    clients = await _visible(site, call)
    parts = parts_of(site)
    flow = _rate(site, "flow")
    total = 0.0
    for begin in range(0, len(clients), FIGURES_PER_TURN):
        total += sum(map(flow, clients[begin : begin + FIGURES_PER_TURN]))
        await site.pause()

    def document(client: Client) -> Document | None:
        if isinstance(client, AmqpClient):
            found = _of_amqp(site, client.known)
        else:
            found = _of_pulsar(site, client.source, parts.get(client.source.connection, 0))
        if found is not None:
            found["flow"] = flow(client)
            found["noisy"] = is_noisy(found["flow"], total, len(clients))
        return found

    source = Source(
        clients,
        document,
        _order,
        partial(_figure, site, parts),
        orders=site.orders,
        of=("clients", eyes_of(call)),
        stamp=tuple(clients),
    )
    return Reply({**await listed(source, listing, site.pause), "flow": total})


def is_noisy(flow: float, total: float, clients: int) -> bool:
    """Return whether a client moves most of all clients' bytes."""
    return clients > 1 and flow > NOISY_BYTES_S and flow > NOISY_SHARE * total


ROUTES: Final = (Route("GET", "page/connections", USERS, _list),)
