"""Below a prefix: all that is served at ``/`` is served there, too.

The rule: a proxy that hands paths on as they are, and one that takes the prefix away, find the same
things. Whoever asks for the prefix itself is sent to the folder, for the page's own paths are
relative.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


class Prefixed:
    """An application, below a prefix as well."""

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
            # Relative: what stands before the proxy is not known.
            location = f"{prefix.rpartition('/')[2]}/".encode()
            headers = [(b"location", location), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 308, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        raw = scope.get("raw_path") or path.encode()
        below = {**scope, "path": path.removeprefix(prefix)}
        below["raw_path"] = raw.removeprefix(prefix.encode())
        await self._inside(below, receive, send)
