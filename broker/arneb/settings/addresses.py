"""Addresses: where a server listens, as written in a setting."""

from dataclasses import dataclass
from typing import Any, Final

OFF: Final = "off"
PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener binds; port 0 takes any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """``HOST:PORT``, with brackets around an IPv6 host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Listen = Address | None
"""None: the listener is off."""


def parse_listen(value: Any) -> Listen:
    """Parse ``HOST:PORT``, ``[HOST]:PORT`` or ``off``.

    Raises :class:`ValueError` that says what was expected and what was received.
    """
    if value == OFF:
        return None
    if not isinstance(value, str):
        raise ValueError(f'expected "HOST:PORT" or "{OFF}", got {value!r}')
    host, colon, port = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise ValueError(f'expected "HOST:PORT" or "{OFF}", got "{value}"')
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise ValueError(f'expected a port from 0 to {PORT_MAX} after "{host}:", got "{port}"')
    return Address(host[1:-1] if bracketed else host, int(port))
