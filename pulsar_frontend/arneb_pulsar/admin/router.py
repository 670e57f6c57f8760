"""The router: which handler answers which method and path.

The rule: pure. A path is matched part by part, each decoded by itself, so that a name may hold
a slash; a path that nobody knows is 404, a method that it does not have 405.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import unquote

from arneb_pulsar.admin.exchange import AdminError, AdminReply, AdminRequest
from arneb_pulsar.admin.rules import Rule
from arneb_pulsar.services.context import BrokerContext

Handler = Callable[[BrokerContext, AdminRequest], Awaitable[AdminReply]]


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    """With ``{variables}`` (and ``{name=value}`` for a fixed part that is told too)."""
    rule: Rule
    handle: Handler


VARIABLE: Final = "{}"


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
        parts = [unquote(part) for part in raw_path.strip("/").split("/")]
        found = list(_matches(self._root, parts, ()))
        method = "GET" if method == "HEAD" else method  # the body is left out where it is sent
        for node, values in found:
            if method in node.routes:
                route, names = node.routes[method]
                return route, dict(zip(names, values, strict=True))
        if not found:
            raise AdminError(404, f"Not found: {method} {raw_path}")
        raise AdminError(405, f"Method not allowed: {method} {raw_path}")

    def methods(self, raw_path: str) -> list[str]:
        """The methods that a path has, sorted."""
        parts = [unquote(part) for part in raw_path.strip("/").split("/")]
        return sorted({each for node, _ in _matches(self._root, parts, ()) for each in node.routes})


def _matches(
    node: Node, parts: list[str], values: tuple[str, ...]
) -> Iterable[tuple[Node, tuple[str, ...]]]:
    """The nodes with handlers at the end of ``parts``, the best first."""
    if not parts:
        if node.routes:
            yield node, values
        return
    if (fixed := node.below.get(parts[0])) is not None:
        yield from _matches(fixed, parts[1:], (*values, parts[0]) if fixed.told else values)
    if parts[0] and (variable := node.below.get(VARIABLE)) is not None:
        yield from _matches(variable, parts[1:], (*values, parts[0]))
