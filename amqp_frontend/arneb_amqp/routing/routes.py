"""Routes: where publishes go, cached by the bytes of exchange and routing key.

The rule: everything that depends on the route alone is worked out once and kept until the topology
changes: the queues, the hash of the key, the constant part of the entry's header. A publish costs
one lookup by bytes, and so does a run of publishes. All connections of a vhost share the cache.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from arneb_amqp.errors import access_refused, exchange_in_words
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.routing.header_routes import HeaderRoutes
from arneb_amqp.routing.router import Router
from arneb_amqp.routing.search import Search, StillSearching
from arneb_amqp.traffic import ExchangeTraffic
from arneb_amqp.wire.route import routing_key_of, split_route
from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.entry import (
    ENTRY_FORMAT,
    HEADER_REST,
    HEADER_START,
    PRIORITY_SHIFT,
    EntryFlag,
    Origin,
)

_AMQP: Final = int(Origin.AMQP)
_TRANSIENT: Final = int(EntryFlag.TRANSIENT)
"""Plain numbers: an enum costs more to pack than the rest of a header."""

TIMES: Final = Struct(">QQ")
"""The two other times of an entry, with which the rest of its header begins."""

ROUTES_MAX: Final = 20_000
"""Cached routes; the cache is emptied at this size, because routing keys may be unique to each
message."""

ROUTE_TARGETS_MAX: Final = 200_000
"""Queues in all cached routes; the cache is emptied at this number, too: 20,000 keys that lead to
10,000 queues each would take 1.6 GB."""

SEARCHES_MAX: Final = 10_000
"""Searches kept for the publishers that began them. The oldest goes first: its client may have
left."""


@dataclass(frozen=True, slots=True)
class CachedRoute:
    """The parts that all publishes of one route share."""

    exchange: str
    routing_key: str
    raw: bytes
    queues: tuple[str, ...]
    depends_on_headers: bool
    key_hash: int
    traffic: ExchangeTraffic
    """The counters of publishes on this route."""
    rest: bytes = field(init=False)
    """The part of an entry after the publish time if it has no other time: the rest of its header,
    and the route."""

    def __post_init__(self) -> None:
        rest = HEADER_REST.pack(0, 0, self.key_hash, len(self.raw), 0) + self.raw
        object.__setattr__(self, "rest", rest)

    def head(
        self,
        now_ms: int,
        *,
        persistent: bool,
        expires_at_ms: int = 0,
        priority: int = 0,
        deliver_at_ms: int = 0,
    ) -> bytes:
        """Return the beginning of an entry: header and route; the message's own part follows."""
        flags = 0 if persistent else _TRANSIENT
        if priority:
            flags |= priority << PRIORITY_SHIFT
        start = HEADER_START.pack(ENTRY_FORMAT, _AMQP, flags, 1, now_ms)
        if not (deliver_at_ms or expires_at_ms):
            return start + self.rest
        rest = HEADER_REST.pack(deliver_at_ms, expires_at_ms, self.key_hash, len(self.raw), 0)
        return start + rest + self.raw


def entry_start(
    now_ms: int, *, persistent: bool, priority: int = 0, expires_at_ms: int = 0
) -> bytes:
    """Return what precedes :attr:`CachedRoute.rest` in the entry of a message published now. If it
    expires, it precedes that without the times at its start (:data:`TIMES`)."""
    flags = priority << PRIORITY_SHIFT | (0 if persistent else _TRANSIENT)
    start = HEADER_START.pack(ENTRY_FORMAT, _AMQP, flags, 1, now_ms)
    return start + TIMES.pack(0, expires_at_ms) if expires_at_ms else start


class Routes:
    """The routes of one vhost.

    Invariant: ``_targets`` is the number of queues in ``_routes``.
    """

    def __init__(self, router: Router) -> None:
        self.router = router
        self._generation = router.generation
        self._routes: dict[bytes, CachedRoute] = {}
        self._targets = 0
        self._searches: dict[bytes, Search] = {}
        self.by_headers = HeaderRoutes(router)
        """Valid after a :meth:`find`, until another task runs."""

    def __repr__(self) -> str:
        return f"<Routes, {len(self._routes)} to {self._targets} queues>"

    def find(self, raw: bytes) -> CachedRoute:
        """Return the route named by ``raw``. Raises 404 for a missing exchange, 403 for an internal
        one, and :class:`.StillSearching` when it takes long."""
        if self._generation != self.router.generation:
            self._generation = self.router.generation
            self._forget()
            self._searches.clear()
            self.by_headers.forget()
        route = self._routes.get(raw)
        return self._resolve(raw) if route is None else route

    def known(self) -> Mapping[bytes, CachedRoute]:
        """Return the routes that need no search; valid until another task runs."""
        return self._routes if self._generation == self.router.generation else {}

    def _resolve(self, raw: bytes) -> CachedRoute:
        name, routing_key = split_route(raw)
        exchange = self.router.exchange(name)
        if exchange.internal:
            words = exchange_in_words(name, self.router.vhost)
            raise access_refused(f"cannot publish to internal {words}")
        search = self._searches.pop(raw, None)
        if search is None or not search.answers(name, routing_key, None, ()):
            search = Search(self.router, name, routing_key)
            if not search.step():
                # The next publisher on this route finds it, or searches, too.
                if len(self._searches) >= SEARCHES_MAX:
                    del self._searches[next(iter(self._searches))]
                self._searches[raw] = search
                raise StillSearching(search)
        result = search.result
        route = CachedRoute(
            name, routing_key, raw, result.queues, result.depends_on_headers,
            key_hash(routing_key_of(raw)), self.router.traffic.exchanges[name],
        )  # fmt: skip
        if name == DEFAULT_EXCHANGE and not result.queues:
            # A Pulsar client may create a topic of that name at any time, unseen by the router.
            return route
        targets = len(result.queues)
        if len(self._routes) >= ROUTES_MAX or self._targets + targets > ROUTE_TARGETS_MAX:
            self._forget()
        self._routes[raw] = route
        self._targets += targets
        return route

    def _forget(self) -> None:
        self._routes.clear()
        self._targets = 0
