"""Heads: the beginning of entries that the broker itself puts into queues.

The rule: what messages of one route, priority and flags have in common is worked out once.
"""

from collections.abc import Callable
from typing import Final

from arneb_amqp.wire.route import routing_key_of
from arneb_core.api.entry import ENTRY_FORMAT, HEADER, Origin
from arneb_core.api.hashing import key_hash

_AMQP: Final = int(Origin.AMQP)

Head = Callable[[int, int, int], bytes]
"""Given the time now, that of delivery and that of expiry (0 = none)."""


def head_of(route: bytes, priority_and_flags: int) -> Head:
    """Makes header and route of entries; the message's own part follows."""
    key, size = key_hash(routing_key_of(route)), len(route)

    def head(now_ms: int, deliver_at_ms: int, expires_at_ms: int) -> bytes:
        header = HEADER.pack(
            ENTRY_FORMAT, _AMQP, priority_and_flags, 1, now_ms, deliver_at_ms, expires_at_ms, key,
            size, 0,
        )  # fmt: skip
        return header + route

    return head
