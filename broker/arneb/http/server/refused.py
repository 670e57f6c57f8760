"""Refused: requests refused before the application sees them.

The rule: the reason says what was expected, and is sent to the client.
"""

import h11


class Refused(Exception):
    """A request to be answered with ``status``."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def expect_known(request: h11.Request) -> None:
    """Raise :class:`Refused` unless it is HTTP/1.1 or 1.0, and says once how long its body is: a
    proxy in front might read it differently, and take the request after it for a part of the
    body."""
    version = request.http_version.decode()
    if version not in ("1.0", "1.1"):
        raise Refused(505, f"expected HTTP/1.1, got HTTP/{version}")
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names and (version == "1.0" or b"content-length" in names):
        # RFC 9112, 6.1: the connection must be closed in any case.
        raise Refused(400, "expected Content-Length or, in HTTP/1.1, Transfer-Encoding")


def expect_small(request: h11.Request, bytes_max: int) -> None:
    """Raise :class:`Refused` if it says that its body is larger than ``bytes_max``."""
    for name, value in request.headers:
        if name == b"content-length" and int(value) > bytes_max:
            raise too_large(bytes_max)


def too_large(bytes_max: int) -> Refused:
    """Return the refusal of a body that is too large."""
    return Refused(413, f"expected a body of at most {bytes_max} bytes")


def too_late(what: str, within_s: float) -> Refused:
    """Return the refusal of a request that did not arrive in time."""
    return Refused(408, f"expected {what} within {within_s:g} s")
