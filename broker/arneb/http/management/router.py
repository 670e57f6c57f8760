"""The router: finds the route of a path as received.

The rule: a path is split at its slashes and then decoded, so ``%2F`` is part of a name. One
trailing slash is ignored. Nothing between two slashes is the default exchange, and no other name.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from arneb.http.management.requests.calls import Call, Refused, Reply, not_found
from arneb.http.management.requests.rules import Rule
from arneb.http.management.site import Site

Handler = Callable[[Site, Call], Awaitable[Reply]]
"""May raise :class:`.Refused`, :class:`.AmqpError` and :class:`.AccessError`."""

ROOT: Final = "/api/"

EXCHANGE: Final = ":exchange"
"""The parameter that may be empty: some clients write the default exchange by its own name."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. Segments that begin with a colon name parameters."""

    method: str
    path: str
    rule: Rule
    handle: Handler


Found = tuple[Mapping[str, Route], Mapping[str, str]]
"""The routes of a path by method, and its parameters."""


class Router:
    """All routes, by number of segments, fixed segments before parameters."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._paths: dict[int, dict[tuple[str, ...], dict[str, Route]]] = {}
        for route in self.routes:
            segments = tuple(route.path.strip("/").split("/"))
            of_length = self._paths.setdefault(len(segments), {})
            methods = of_length.setdefault(segments, {})
            assert route.method not in methods, f"{route.method} {route.path} is there twice"
            methods[route.method] = route
        for length, paths in self._paths.items():
            # Patterns that are fixed further to the left are tried first.
            self._paths[length] = dict(
                sorted(paths.items(), key=lambda each: [s.startswith(":") for s in each[0]])
            )

    def __repr__(self) -> str:
        return f"<Router of {len(self.routes)} routes>"

    def find(self, raw_path: str) -> Found:
        """Return the routes of a path as received, below :data:`ROOT`. Raises 404."""
        raw = raw_path.removeprefix(ROOT)
        segments = raw.removesuffix("/").split("/")
        try:
            names = [unquote(each, errors="strict") for each in segments]
        except UnicodeDecodeError:
            raise not_found() from None
        for pattern, methods in self._paths.get(len(names), {}).items():
            if all(p.startswith(":") or p == n for p, n in zip(pattern, names, strict=True)):
                if not all(n or p == EXCHANGE for p, n in zip(pattern, names, strict=True)):
                    break
                params = {
                    p[1:]: n for p, n in zip(pattern, names, strict=True) if p.startswith(":")
                }
                return methods, params
        raise not_found()


def allowed(methods: Mapping[str, Route]) -> str:
    """Return the value of the header ``Allow``."""
    names = ["HEAD", *methods] if "GET" in methods else [*methods]
    return ", ".join([*names, "OPTIONS"])


def route_for(methods: Mapping[str, Route], method: str) -> Route:
    """Return the route of a method. Raises 405."""
    route = methods.get("GET" if method == "HEAD" else method)
    if route is None:
        raise Refused(405, "method_not_allowed", "", {"allow": allowed(methods)})
    return route
