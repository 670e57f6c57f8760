"""The router: which handler answers which method and path.

The rule: pure. A path is matched part by part, each decoded by itself, so that a name may hold a
slash; an unknown path is 404, an unknown method of a path 405. A slash at the end is ignored; an
empty part cannot be a variable.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from arneb_pulsar.admin.calls.requests import AdminError, AdminReply, AdminRequest
from arneb_pulsar.admin.calls.rules import Rule
from arneb_pulsar.services.context import BrokerContext

Handler = Callable[[BrokerContext, AdminRequest], Awaitable[AdminReply]]


class NoSuchMethod(AdminError):
    """The path is known, but does not have that method."""


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    """The path, with ``{variables}`` (and ``{name=value}`` for a fixed part that is also a
    variable)."""
    rule: Rule
    handle: Handler


VARIABLE: Final = "{}"

BROKEN: Final = re.compile("%(?![0-9A-Fa-f]{2})")


Decode = Callable[[str], str]


def twice(value: str) -> str:
    """Decode what was encoded as in a form, and then once more as a part of a path."""
    return unquote_plus(unquote(value))


def decoding(parts: Sequence[str], index: int) -> Decode:
    """Return how to decode the variable at ``index`` of a route's ``parts``.

    Pulsar's client in Java encodes a topic as in a form, where a plus means a space, and a
    subscription likewise; one that follows the fixed part ``subscription`` is then encoded a second
    time. Everything else is encoded once, and a plus is a plus. Source: ``@Encoded`` and
    ``Codec.decode`` in ``PersistentTopics``, ``Transactions``.
    """
    if parts[index] == "{subscription}" and parts[index - 1] == "subscription":
        return twice if "{topic}" in parts else unquote
    if parts[index] == "{subscription}" and parts[-1] == "dispatchRate":
        return unquote_plus
    return unquote_plus if parts[index] == "{topic}" else unquote


@dataclass(slots=True)
class Node:
    """The parts that may follow the path so far."""

    below: dict[str, "Node"] = field(default_factory=dict)
    routes: dict[str, tuple[Route, tuple[tuple[str, Decode], ...]]] = field(default_factory=dict)
    """By method: the route, with the names of the path's variables and how each is decoded."""
    is_argument: bool = False
    """The part of the path that leads here is the value of a variable."""

    def __repr__(self) -> str:
        return f"<Node {sorted(self.routes)}, below it {sorted(self.below)}>"


class Router:
    """All routes, as a tree. Fixed parts win over variables, however deep in the path they
    differ."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._root = Node()
        for route in self.routes:
            self._add(route)

    def __repr__(self) -> str:
        return f"<Router {sorted(self._root.below)}>"

    def _add(self, route: Route) -> None:
        node, names = self._root, list[tuple[str, Decode]]()
        parts = route.path.strip("/").split("/")
        for index, part in enumerate(parts):
            is_argument = part.startswith("{")
            if is_argument:
                name, _, value = part[1:-1].partition("=")
                names.append((name, decoding(parts, index)))
                part = value or VARIABLE
            node = node.below.setdefault(part, Node(is_argument=is_argument))
            assert node.is_argument is is_argument, f"{part} is an argument of some routes only"
        assert route.method not in node.routes, f"{route.method} {route.path} is there twice"
        node.routes[route.method] = route, tuple(names)

    def find(self, method: str, raw_path: str) -> tuple[Route, Mapping[str, str]]:
        """Return the route and the variables of a path as it was sent. Raises
        :class:`AdminError`."""
        if BROKEN.search(raw_path):
            raise AdminError(400, f"expected two hexadecimal digits after %, got {raw_path!r:.80}")
        found = list(_matches(self._root, _parts(raw_path), ()))
        method = "GET" if method == "HEAD" else method  # the body is left out where it is sent
        for node, values in found:
            if method in node.routes:
                route, names = node.routes[method]
                pairs = zip(names, values, strict=True)
                return route, {name: decode(value) for (name, decode), value in pairs}
        if not found:
            raise AdminError(404, f"Not found: {method} {raw_path}")
        raise NoSuchMethod(405, f"Method not allowed: {method} {raw_path}")

    def methods(self, raw_path: str) -> list[str]:
        """Return the methods of a path, sorted; none for an unknown path."""
        nodes = [node for node, _ in _matches(self._root, _parts(raw_path), ())]
        found = {method for node in nodes for method in node.routes}
        if not found:
            return []
        return sorted(found | ({"HEAD", "OPTIONS"} if "GET" in found else {"OPTIONS"}))


def _parts(raw_path: str) -> list[str]:
    before, *parts = raw_path.removesuffix("/").split("/")
    return [] if before else parts  # a path begins with a slash; anything else is unknown


def _matches(
    node: Node, parts: list[str], values: tuple[str, ...]
) -> Iterable[tuple[Node, tuple[str, ...]]]:
    """Yield the nodes with handlers at the end of ``parts``, the best first."""
    if not parts:
        if node.routes:
            yield node, values
        return
    if (fixed := node.below.get(unquote(parts[0]))) is not None:
        yield from _matches(fixed, parts[1:], (*values, parts[0]) if fixed.is_argument else values)
    if parts[0] and (variable := node.below.get(VARIABLE)) is not None:
        yield from _matches(variable, parts[1:], (*values, parts[0]))
