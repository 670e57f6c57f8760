"""Groups: entries that mean nothing without one another, as the chunks of a message.

The rule: an entry's header says that it is grouped, and a *hint* which others it belongs to. Hints
have 16 bits, and two messages may share one. That is enough where no order is kept; among entries
that go by key it would have a message pass others of its key, so there the message is named by the
codec of its origin. A group is one of its slot: messages whose keys differ never share one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from arneb_core.api.codec import Part, PartCodec, codecs
from arneb_core.api.entry import (
    FLAGS_OFFSET,
    HINT,
    HINT_OFFSET,
    ORIGIN_OFFSET,
    EntryFlag,
    Origin,
)
from arneb_core.api.position import Position
from arneb_core.dispatch.held_keys import HeldKeys
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import SLOTS

GROUPED: Final = int(EntryFlag.GROUPED)

HINTS: Final = 1 << 16
NAMES: Final = 1 << 60
"""A name counts by so much of its hash: no two of a subscription will ever agree."""


def hints_of(entries: Iterable[bytes]) -> list[int]:
    """What tells the groups of entries from one another; 0 = no group."""
    return [
        HINT.unpack_from(entry, HINT_OFFSET)[0] if entry[FLAGS_OFFSET] & GROUPED else 0
        for entry in entries
    ]


def groups_of(entries: Sequence[bytes], slots: Sequence[int]) -> list[int] | None:
    """The groups of entries with these slots, 0 = none; None when no entry has any."""
    hints = hints_of(entries)
    if not any(hints):
        return None
    return [
        hint and _number(entry, hint) * SLOTS + slot
        for entry, hint, slot in zip(entries, hints, slots, strict=True)
    ]


def slot_of(line: int) -> int:
    """The slot of a group; a slot is its own."""
    return line % SLOTS


def _number(entry: bytes, hint: int) -> int:
    """What tells the message that the entry is a part of from all others: its name, or, of one that
    cannot be read, the hint."""
    part_of = _reader_of_parts(entry[ORIGIN_OFFSET])
    part = None if part_of is None else part_of(entry)
    return hint if part is None else HINTS + hash(part.message) % NAMES


@cache
def _reader_of_parts(origin: int) -> Callable[[bytes], Part | None] | None:
    codec = codecs().get(Origin(origin))
    return codec.part_of if isinstance(codec, PartCodec) else None


class HeldGroups:
    """The groups of which something is in flight.

    Invariant: ``strays`` has those of them whose holder is not the owner of their slot, as of the
    last :meth:`sort`, and a group that begins later begins at its owner.
    """

    def __init__(self) -> None:
        self._held = HeldKeys()
        self.strays: dict[int, Receiver] = {}
        """Their holders; not to be changed by others."""

    def __bool__(self) -> bool:
        return bool(self._held.holders)

    def __repr__(self) -> str:
        return f"<HeldGroups {len(self._held.holders)}, {len(self.strays)} strays>"

    def took(
        self, receiver: Receiver, positions: Sequence[Position], groups: Sequence[int]
    ) -> None:
        """``positions``, which are of ``groups``, are in flight at ``receiver``."""
        of_groups = [pair for pair in zip(positions, groups, strict=True) if pair[1]]
        self._held.took(receiver, [place for place, _ in of_groups], [g for _, g in of_groups])

    def left(self, positions: Iterable[Position]) -> dict[Position, int]:
        """These, if they were in flight, are no more; the groups of those that had one."""
        return self._held.left(positions)

    def ended(self, groups: Iterable[int]) -> list[int]:
        """Those of ``groups`` that strayed and are in flight nowhere any more."""
        holders, strays = self._held.holders, self.strays
        gone = [each for each in set(groups) if each in strays and each not in holders]
        for group in gone:
            del strays[group]
        return gone

    def sort(self, owners: Mapping[int, Receiver | None]) -> None:
        """Slots belong to others now: look who strays."""
        held = self._held.holders.items()
        self.strays = {each: holder for each, holder in held if owners[slot_of(each)] is not holder}
