"""A route: exchange and routing key as the two short strings of a method.

The rule: on the hot path a route stays bytes, the key of the caches; it is split once for each
cache entry.
"""

from typing import Final, NamedTuple

from arneb_core.api.entries.entry import HEADER_BYTES, HINT, HINT_OFFSET

SHORT_BYTES_MAX: Final = 255


class Route(NamedTuple):
    """Both names as text; bytes that are not UTF-8 survive as lone surrogates."""

    exchange: str
    routing_key: str


def split_route(route: bytes) -> Route:
    """Split ``route`` into exchange and routing key."""
    cut = 1 + route[0]
    return Route(
        route[1:cut].decode("utf-8", "surrogateescape"),
        route[cut + 1 :].decode("utf-8", "surrogateescape"),
    )


def content_start(entry: bytes) -> int:
    """Return the offset of the content in an AMQP entry: header and route precede it."""
    hint: int = HINT.unpack_from(entry, HINT_OFFSET)[0]
    return HEADER_BYTES + hint


def is_route(data: bytes) -> bool:
    """Whether ``data`` is two short strings and nothing else."""
    if len(data) < 2 or len(data) < data[0] + 2:
        return False
    return data[data[0] + 1] == len(data) - data[0] - 2


def routing_key_of(route: bytes) -> bytes:
    """Return the routing key alone, as received."""
    return route[route[0] + 2 :]


def join_route(exchange: str, routing_key: str) -> bytes:
    """Return the two short strings. Raises :class:`ValueError` when one is longer than 255
    bytes."""
    return shortstr(exchange) + shortstr(routing_key)


def is_short(text: str) -> bool:
    """Whether ``text`` fits a short string, as every name and routing key must."""
    return len(text.encode("utf-8", "surrogateescape")) <= SHORT_BYTES_MAX


def shortstr(text: str) -> bytes:
    """Return a short string with its length octet."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > SHORT_BYTES_MAX:
        raise ValueError(f"expected a short string of at most 255 bytes, got {len(raw)}")
    return bytes((len(raw),)) + raw
