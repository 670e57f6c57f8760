"""Prefixed: everything served at ``/`` is also served below a prefix.

The rule: it makes no difference whether a proxy keeps or strips the prefix. A request for the
prefix itself is redirected to the path with a slash, since the page's links are relative.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


class Prefixed:
    """An application that is also served below a prefix."""

    def __init__(self, inside: ASGIApp, prefix: str) -> None:
        self._inside = inside
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"<Prefixed {self._prefix} {self._inside!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        prefix, path = self._prefix, scope.get("path", "")
        if scope["type"] != "http" or not (path == prefix or path.startswith(f"{prefix}/")):
            await self._inside(scope, receive, send)
            return
        if path == prefix:
            # Relative, since the path at the proxy is unknown.
            location = f"{prefix.rpartition('/')[2]}/".encode()
            headers = [(b"location", location), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 308, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        raw = scope.get("raw_path") or path.encode()
        below = {**scope, "path": path.removeprefix(prefix)}
        below["raw_path"] = raw.removeprefix(prefix.encode())
        await self._inside(below, receive, send)
