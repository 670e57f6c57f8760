"""Limits: how much memory and time the clients of one HTTP port may take.

The rule: whatever a client can make longer or larger has a bound here, and every bound is a
setting. They hold for every client, authenticated or not.
"""

import re
from dataclasses import dataclass, fields
from typing import Final

PATH_PREFIX_CHARACTERS_MAX: Final = 200

HEAD_BYTES_MAX: Final = 80 * 1024
"""A request's line and headers; a token of 64 KiB fits."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Keys of the tables ``[http]`` and ``[http_pulsar]``. Raises :class:`ValueError`."""

    body_bytes_max: int = 1024 * 1024
    """The maximum size of a request's body."""

    held_bytes_max: int = 64 * 1024 * 1024
    """The maximum memory for all connections of the port: request bodies still arriving, and
    answers not read yet. When more is needed, connections are closed, those first whose clients
    have been inactive longest."""

    connections_max: int = 1000
    """The maximum number of connections. For one more, the connection that has been idle longest is
    closed or, if none is idle, the new one."""

    head_timeout_s: float = 10.0
    """The maximum time from a request's first byte to the end of its headers."""

    body_timeout_s: float = 30.0
    """The maximum time from there to the end of its body."""

    idle_timeout_s: float = 30.0
    """The maximum time until a connection's first request, and between two requests."""

    write_timeout_s: float = 30.0
    """The maximum time that a client may take to read 64 KiB of an answer."""

    def __post_init__(self) -> None:
        for each in fields(HttpLimits):
            if not getattr(self, each.name) > 0:
                raise ValueError(
                    f"{each.name}: expected more than 0, got {getattr(self, each.name)}"
                )


PATH_PREFIX: Final = re.compile(r"((/[A-Za-z0-9._~-]+)+)?")
"""A path that needs no percent-encoding, or nothing."""


def check_prefix(path: str) -> None:
    """Raise :class:`ValueError` for a path that cannot be a prefix."""
    if len(path) > PATH_PREFIX_CHARACTERS_MAX or not PATH_PREFIX.fullmatch(path):
        raise ValueError(f"path_prefix: expected a path such as /arneb, got {path[:100]!r}")


DEFAULT_LIMITS: Final = HttpLimits()
