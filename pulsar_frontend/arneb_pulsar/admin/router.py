"""The router: which handler answers which method and path.

The rule: pure. A path is matched part by part, each decoded by itself, so that a name may hold
a slash; a path that nobody knows is 404, a method that it does not have 405.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from arneb_pulsar.admin.exchange import AdminError, AdminReply, AdminRequest
from arneb_pulsar.services.context import BrokerContext

Handler = Callable[[BrokerContext, AdminRequest], Awaitable[AdminReply]]
Route = tuple[str, str, Handler]
"""Method, path with ``{variables}`` (and ``{name=value}`` for a fixed part that is told too),
handler."""

VARIABLE: Final = "{}"


@dataclass(slots=True)
class Node:
    """What may come behind the parts of a path so far."""

    below: dict[str, "Node"] = field(default_factory=dict)
    handlers: dict[str, tuple[Handler, tuple[str, ...]]] = field(default_factory=dict)
    """By method, with the names of the path's variables."""
    told: bool = False
    """The part that leads here is a variable's value."""

    def __repr__(self) -> str:
        return f"<Node {sorted(self.handlers)}, below it {sorted(self.below)}>"


class Router:
    """All routes, as a tree. Fixed parts win over variables, however deep the two part ways."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = Node()
        for method, path, handler in routes:
            self._add(method, path, handler)

    def __repr__(self) -> str:
        return f"<Router {sorted(self._root.below)}>"

    def _add(self, method: str, path: str, handler: Handler) -> None:
        node, names = self._root, []
        for part in path.strip("/").split("/"):
            told = part.startswith("{")
            if told:
                name, _, value = part[1:-1].partition("=")
                names.append(name)
                part = value or VARIABLE
            node = node.below.setdefault(part, Node(told=told))
            assert node.told is told, f"{part} is told by some routes and not by others"
        assert method not in node.handlers, f"two handlers for {method} {path}"
        node.handlers[method] = handler, tuple(names)

    def find(self, method: str, raw_path: str) -> tuple[Handler, Mapping[str, str]]:
        """The handler and the variables of a path as it was sent. Raises :class:`AdminError`."""
        parts = [unquote(part) for part in raw_path.strip("/").split("/")]
        found = list(_matches(self._root, parts, ()))
        for node, values in found:
            if method in node.handlers:
                handler, names = node.handlers[method]
                return handler, dict(zip(names, values, strict=True))
        if not found:
            raise AdminError(404, f"Not found: {method} {raw_path}")
        raise AdminError(405, f"Method not allowed: {method} {raw_path}")

    def methods(self, raw_path: str) -> list[str]:
        """The methods that a path has, sorted."""
        parts = [unquote(part) for part in raw_path.strip("/").split("/")]
        return sorted(
            {each for node, _ in _matches(self._root, parts, ()) for each in node.handlers}
        )


def _matches(
    node: Node, parts: list[str], values: tuple[str, ...]
) -> Iterable[tuple[Node, tuple[str, ...]]]:
    """The nodes with handlers at the end of ``parts``, the best first."""
    if not parts:
        if node.handlers:
            yield node, values
        return
    if (fixed := node.below.get(parts[0])) is not None:
        yield from _matches(fixed, parts[1:], (*values, parts[0]) if fixed.told else values)
    if parts[0] and (variable := node.below.get(VARIABLE)) is not None:
        yield from _matches(variable, parts[1:], (*values, parts[0]))
