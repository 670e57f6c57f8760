"""A position: where one entry is in one topic's log.

The rule: a position is one plain ``int`` with the ledger id in the high bits and the entry id in
the low 32, so that positions compare, sort, subtract inside a ledger, and live in roaring bitmaps
without any conversion. A frozen pair was rejected: runs of positions are the hot path of every
consumer, and an ``int`` is the only value that C code can work through for us.
"""

from typing import Final, NewType

LedgerId = NewType("LedgerId", int)
"""Counts a topic's ledgers from 1; never reused inside a topic. Pulsar's clients are told
:mod:`another number <arneb_core.api.entries.ledger_ids>`."""

EntryId = NewType("EntryId", int)
"""Counts a ledger's entries from 0, without gaps."""

Position = NewType("Position", int)
"""``ledger << 32 | entry``; an existing or possible place in the log."""

ENTRY_BITS: Final = 32
ENTRY_MASK: Final = (1 << ENTRY_BITS) - 1

FIRST_LEDGER: Final = LedgerId(1)

BEFORE_ALL: Final = Position((FIRST_LEDGER << ENTRY_BITS) - 1)
"""Sorts before every entry: the mark-delete position of a new cursor at the earliest entry."""

AFTER_ALL: Final = Position((1 << 63) - 1)
"""Sorts after every entry that can exist."""


def position_at(ledger: int, entry: int) -> Position:
    """Return the position of entry ``entry`` in ledger ``ledger``.

    ``entry`` may be -1: the position just before the ledger's first entry.
    """
    return Position((ledger << ENTRY_BITS) + entry)


def ledger_of(position: Position) -> LedgerId:
    """Return the ledger that contains ``position``."""
    return LedgerId(position >> ENTRY_BITS)


def entry_of(position: Position) -> EntryId:
    """Return the entry id of ``position`` inside its ledger."""
    return EntryId(position & ENTRY_MASK)


def before(position: Position) -> Position:
    """Return the exclusive lower bound just under ``position``.

    Before a ledger's first entry this is a position that no entry ever has (entry 2^32 - 1 of the
    ledger below), which is exactly what a mark-delete position may be.
    """
    return Position(position - 1)


def render(position: Position) -> str:
    """Return ``42:7`` for people; the bound before ledger 42's first entry is ``42:-1``."""
    ledger, entry = position >> ENTRY_BITS, position & ENTRY_MASK
    return f"{ledger + 1}:-1" if entry == ENTRY_MASK else f"{ledger}:{entry}"
