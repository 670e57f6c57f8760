"""The router: which handler answers which method and path.

The rule: pure. A path is matched part by part, each decoded by itself, so that a name may hold
a slash; a path that nobody knows is 404, a method that it does not have 405. A slash at the end
is passed over; an empty part is none that a variable could be.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from arneb_pulsar.admin.exchange import AdminError, AdminReply, AdminRequest
from arneb_pulsar.admin.rules import Rule
from arneb_pulsar.services.context import BrokerContext

Handler = Callable[[BrokerContext, AdminRequest], Awaitable[AdminReply]]


class NoSuchMethod(AdminError):
    """The path is known, and not by that method."""


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    """With ``{variables}`` (and ``{name=value}`` for a fixed part that is told too)."""
    rule: Rule
    handle: Handler


VARIABLE: Final = "{}"

FREE: Final = frozenset({"topic", "subscription"})
"""Names of any characters, below a topic's path: Pulsar's clients encode them as forms are, and a
plus is a space there. Elsewhere it is a plus."""

BROKEN: Final = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(slots=True)
class Node:
    """What may come behind the parts of a path so far."""

    below: dict[str, "Node"] = field(default_factory=dict)
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)
    """By method, with the names of the path's variables."""
    told: bool = False
    """The part that leads here is a variable's value."""

    def __repr__(self) -> str:
        return f"<Node {sorted(self.routes)}, below it {sorted(self.below)}>"


class Router:
    """All routes, as a tree. Fixed parts win over variables, however deep the two part ways."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._root = Node()
        for route in self.routes:
            self._add(route)

    def __repr__(self) -> str:
        return f"<Router {sorted(self._root.below)}>"

    def _add(self, route: Route) -> None:
        node, names = self._root, []
        for part in route.path.strip("/").split("/"):
            told = part.startswith("{")
            if told:
                name, _, value = part[1:-1].partition("=")
                names.append(name)
                part = value or VARIABLE
            node = node.below.setdefault(part, Node(told=told))
            assert node.told is told, f"{part} is told by some routes and not by others"
        assert route.method not in node.routes, f"{route.method} {route.path} is there twice"
        node.routes[route.method] = route, tuple(names)

    def find(self, method: str, raw_path: str) -> tuple[Route, Mapping[str, str]]:
        """The route and the variables of a path as it was sent. Raises :class:`AdminError`."""
        if BROKEN.search(raw_path):
            raise AdminError(400, f"expected two hexadecimal digits behind %, got {raw_path!r:.80}")
        found = list(_matches(self._root, _parts(raw_path), ()))
        method = "GET" if method == "HEAD" else method  # the body is left out where it is sent
        for node, values in found:
            if method in node.routes:
                route, names = node.routes[method]
                return route, _decoded(names, values)
        if not found:
            raise AdminError(404, f"Not found: {method} {raw_path}")
        raise NoSuchMethod(405, f"Method not allowed: {method} {raw_path}")

    def methods(self, raw_path: str) -> list[str]:
        """What a path may be asked by, sorted; nothing for one that is not known."""
        nodes = [node for node, _ in _matches(self._root, _parts(raw_path), ())]
        found = {method for node in nodes for method in node.routes}
        if not found:
            return []
        return sorted(found | ({"HEAD", "OPTIONS"} if "GET" in found else {"OPTIONS"}))


def _parts(raw_path: str) -> list[str]:
    before, *parts = raw_path.removesuffix("/").split("/")
    return [] if before else parts  # a path begins with a slash; nothing else is known


def _decoded(names: Sequence[str], values: Sequence[str]) -> Mapping[str, str]:
    """The variables of a path, of which ``values`` are as they were sent."""
    free = FREE if "topic" in names else ()
    return {
        name: unquote_plus(value) if name in free else unquote(value)
        for name, value in zip(names, values, strict=True)
    }


def _matches(
    node: Node, parts: list[str], values: tuple[str, ...]
) -> Iterable[tuple[Node, tuple[str, ...]]]:
    """The nodes with handlers at the end of ``parts``, the best first."""
    if not parts:
        if node.routes:
            yield node, values
        return
    if (fixed := node.below.get(unquote(parts[0]))) is not None:
        yield from _matches(fixed, parts[1:], (*values, parts[0]) if fixed.told else values)
    if parts[0] and (variable := node.below.get(VARIABLE)) is not None:
        yield from _matches(variable, parts[1:], (*values, parts[0]))
