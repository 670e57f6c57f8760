"""Stamping: gives the messages of a transaction the time of its commit.

The rule: a piece at a time, because a transaction may be large, and others have their turn between
two pieces. Nothing can be added to it meanwhile: its client waits for the answer.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import trio

from arneb_amqp.session.effects import Commit
from arneb_core.api.entries.entry import published_at

PIECE_ENTRIES: Final = 1_000
PIECE_BYTES: Final = 1024 * 1024
"""Bounds of a piece, about a millisecond each: every entry is copied."""

TRACED_PIECE_ENTRIES: Final = 50
"""The same if messages are traced, which copies each of them."""

Run: TypeAlias = tuple[tuple[str, ...], list[bytes]]
"""Names of queues, or of delayed exchanges, and entries for them."""

EXPIRY: Final = slice(24, 32)
NO_EXPIRY: Final = bytes(8)
"""The bytes of the expiry in an entry's header."""


async def stamp(request: Commit) -> list[tuple[str, ...]]:
    """Set the publish time of every message of ``request``; return the queues that get expiring
    ones."""
    expiring = []
    entries_left, bytes_left = PIECE_ENTRIES, PIECE_BYTES
    for names, entries in (*request.appends, *request.delayed):
        expires = False
        for index, entry in enumerate(entries):
            entries[index] = published_at(entry, request.published_ms)
            expires = expires or entry[EXPIRY] != NO_EXPIRY
            entries_left, bytes_left = entries_left - 1, bytes_left - len(entry)
            if entries_left <= 0 or bytes_left <= 0:
                entries_left, bytes_left = PIECE_ENTRIES, PIECE_BYTES
                await trio.lowlevel.checkpoint()
        if expires:
            expiring.append(names)
    return expiring


def pieces(runs: Iterable[Run], entries_max: int = PIECE_ENTRIES) -> Iterator[Run | None]:
    """Yield ``runs`` in pieces, and None where the turn must end: after ``entries_max`` entries,
    each counted once for each of its names."""
    left = entries_max
    for names, entries in runs:
        most = max(1, entries_max // len(names))
        for start in range(0, len(entries), most):
            if left <= 0:
                left = entries_max
                yield None
            piece = entries[start : start + most]
            left -= len(piece) * len(names)
            yield names, piece
