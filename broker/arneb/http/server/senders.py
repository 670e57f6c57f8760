"""Senders: who sent a request, and the ASGI scope in which an application sees it.

The rule: nothing here is taken from a request's headers, which a client may set as it likes: the
addresses are the socket's, the certificate was verified by TLS, and the identity by another node.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import h11
from starlette.types import Scope

from arneb.http.server.asgi import VOUCHED, path_and_query

HOLD: Final = "arneb.hold"
"""The ASGI extension by which an application reserves memory: an async function of the number of
bytes, which returns when there is room for them."""

CERTIFICATE: Final = "arneb.certificate"
"""The ASGI extension with the client's certificate, as verified by TLS."""

Certificate = Mapping[str, Any]
"""As :meth:`ssl.SSLSocket.getpeercert` returns it; empty for none."""

NO_CERTIFICATE: Final[Certificate] = {}

Addresses = tuple[tuple[str, int] | None, tuple[str, int] | None]
"""Of the client, and the one that it reached; None if unknown."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of all requests of one connection."""

    addresses: Addresses = (None, None)
    scheme: str = "http"
    """``https`` if requests come over TLS."""
    certificate: Certificate = field(default_factory=dict)
    vouched: str = ""
    """The client's identity, if another node has authenticated it."""

    def scope(self, request: h11.Request, hold: Callable[[int], Awaitable[None]]) -> Scope:
        """Return the scope of a request; ``hold`` reserves memory for its answer."""
        raw_path, query = path_and_query(request.target)
        client, server = self.addresses
        extensions: dict[str, Any] = {HOLD: hold, CERTIFICATE: self.certificate}
        if self.vouched:
            extensions[VOUCHED] = self.vouched
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.http_version.decode(),
            "method": request.method.decode("ascii").upper(),
            "scheme": self.scheme,
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),
            "client": client,
            "server": server,
            "extensions": extensions,
        }
