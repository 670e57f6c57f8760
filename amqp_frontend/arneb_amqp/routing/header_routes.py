"""Header routes: destinations of messages, remembered by route and by the headers that some binding
names.

The rule: only the route and those headers decide, so messages with the same octets there go the
same way. Where anything else may decide (a property, a delay, a hash, very many bindings), nothing
is remembered.
"""

from typing import Final

from arneb_amqp.routing.consistent_hash import PROPERTY_PREFIX
from arneb_amqp.routing.exchange import DestinationKind
from arneb_amqp.routing.headers import HeadersType, wanted_by
from arneb_amqp.routing.router import Router, RouteResult
from arneb_amqp.wire.cutting import named_fields
from arneb_amqp.wire.route import shortstr, split_route

BINDINGS_MAX: Final = 500
"""Bindings inspected to learn which headers they name: some 0.5 ms after each change of the
topology. With more bindings nothing is remembered."""

RESULTS_MAX: Final = 10_000
TARGETS_MAX: Final = 100_000
"""Bounds of the cache, which is emptied when full: a header may be unique to each message."""

FIELDS_BYTES_MAX: Final = 1024
"""Size of the deciding headers of a remembered message: together with :data:`RESULTS_MAX` they may
take 10 MiB. A longer one is as good as unique."""

_BY_KEY: Final = frozenset({"direct", "fanout", "topic"})


class HeaderRoutes:
    """The header routes of one vhost, until its topology changes.

    Invariant: ``_targets`` is the number of queues in ``_found``.
    """

    __slots__ = ("_found", "_names", "_router", "_targets")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._names: dict[bytes, frozenset[bytes] | None] = {}
        self._found: dict[tuple[bytes, bytes], RouteResult] = {}
        self._targets = 0

    def __repr__(self) -> str:
        return f"<HeaderRoutes, {len(self._found)} to {self._targets} queues>"

    def find(self, route: bytes, properties: bytes) -> RouteResult | None:
        """Return where an earlier message with the same deciding headers went, if any."""
        fields = self._fields(route, properties)
        return None if fields is None else self._found.get((route, fields))

    def learn(self, route: bytes, properties: bytes, result: RouteResult) -> None:
        """Remember where a message with this property list went."""
        fields = self._fields(route, properties)
        if fields is None:
            return
        targets = len(result.queues)
        if len(self._found) >= RESULTS_MAX or self._targets + targets > TARGETS_MAX:
            self._found.clear()
            self._targets = 0
        if (route, fields) not in self._found:
            self._found[route, fields] = result
            self._targets += targets

    def forget(self) -> None:
        """Forget everything: the topology has changed."""
        self._names.clear()
        self._found.clear()
        self._targets = 0

    def _fields(self, route: bytes, properties: bytes) -> bytes | None:
        exchange = route[: 1 + route[0]]
        if exchange not in self._names:
            self._names[exchange] = names_read(self._router, split_route(route).exchange)
        names = self._names[exchange]
        fields = None if names is None else named_fields(properties, names)
        return None if fields is None or len(fields) > FIELDS_BYTES_MAX else fields


def names_read(router: Router, exchange: str) -> frozenset[bytes] | None:
    """Return the headers, as short strings, that decide where messages to ``exchange`` go; None if
    anything else may decide, or too many bindings are involved."""
    names: set[bytes] = set()
    bindings_left = BINDINGS_MAX
    waiting, seen = [exchange], {exchange}
    while waiting:
        current = router.exchanges.get(waiting.pop())
        if current is None:
            continue
        reads_headers = current.type == HeadersType.name
        if not reads_headers and current.type not in _BY_KEY:
            return None
        bindings = router.bindings_from(current.name)
        bindings_left -= len(bindings)
        if bindings_left < 0:
            return None
        onwards = {each.destination for each in bindings if each.kind is DestinationKind.EXCHANGE}
        if (alternate := router.alternate_of(current)) is not None:
            onwards.add(alternate)
        if reads_headers:
            wanted = {name for each in bindings for name in wanted_by(each)}
            if any(name.startswith(PROPERTY_PREFIX) for name in wanted):
                return None
            names.update(map(shortstr, wanted))
        waiting += onwards - seen
        seen |= onwards
    return frozenset(names)
