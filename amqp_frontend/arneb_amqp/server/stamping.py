"""Stamping: the messages of a transaction get the time of its commit.

The rule: a piece at a time, for a transaction may be large, and others have their turn between two
pieces. Nothing can be added to it meanwhile: its client waits for the answer.
"""

from collections.abc import Iterator
from typing import Final

import trio

from arneb_amqp.session.effects import Commit
from arneb_core.api.entry import published_at

PIECE_ENTRIES: Final = 1_000
PIECE_BYTES: Final = 1024 * 1024
"""About a millisecond each: an entry is copied."""

EXPIRY: Final = slice(24, 32)
NO_EXPIRY: Final = bytes(8)
"""The expiry in an entry's header."""


async def stamp(request: Commit) -> list[tuple[str, ...]]:
    """Let every message of ``request`` begin its time now; the queues that get some that expire."""
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


def pieces(entries: list[bytes]) -> Iterator[list[bytes]]:
    """``entries`` a piece at a time; one that is short as it is."""
    if len(entries) <= PIECE_ENTRIES:
        yield entries
        return
    for start in range(0, len(entries), PIECE_ENTRIES):
        yield entries[start : start + PIECE_ENTRIES]
