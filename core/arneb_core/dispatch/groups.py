"""Groups: entries that are useless without one another, such as the chunks of a message.

The rule: an entry's header says that it is grouped, and a *hint* says with which others. Hints
have 16 bits, so two messages may share one. That is enough where no order is kept; with keys it
could let a message overtake others of its key, so there the codec of the entry's origin names the
message. A group includes its slot: messages whose keys differ never share one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from arneb_core.api.entries.codec import Part, PartCodec, codecs
from arneb_core.api.entries.entry import (
    FLAGS_OFFSET,
    HINT,
    HINT_OFFSET,
    ORIGIN_OFFSET,
    EntryFlag,
    Origin,
)
from arneb_core.api.entries.position import Position
from arneb_core.dispatch.held_keys import HeldKeys
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import SLOTS

GROUPED: Final = int(EntryFlag.GROUPED)

HINTS: Final = 1 << 16
NAMES: Final = 1 << 60
"""A name counts by 60 bits of its hash: no two names of a subscription will ever agree in them."""


def hints_of(entries: Iterable[bytes]) -> list[int]:
    """Return the hints of entries, which distinguish their groups; 0 = no group."""
    return [
        HINT.unpack_from(entry, HINT_OFFSET)[0] if entry[FLAGS_OFFSET] & GROUPED else 0
        for entry in entries
    ]


def groups_of(entries: Sequence[bytes], slots: Sequence[int]) -> list[int] | None:
    """Return the groups of entries with these slots, 0 = none; None when no entry has any."""
    hints = hints_of(entries)
    if not any(hints):
        return None
    return [
        hint and _number(entry, hint) * SLOTS + slot
        for entry, hint, slot in zip(entries, hints, slots, strict=True)
    ]


def slot_of(line: int) -> int:
    """Return the slot of a group, or of a slot itself."""
    return line % SLOTS


def _number(entry: bytes, hint: int) -> int:
    """Return what tells the entry's message from all others: its name or, if that cannot be read,
    the hint."""
    part_of = _reader_of_parts(entry[ORIGIN_OFFSET])
    part = None if part_of is None else part_of(entry)
    return hint if part is None else HINTS + hash(part.message) % NAMES


@cache
def _reader_of_parts(origin: int) -> Callable[[bytes], Part | None] | None:
    codec = codecs().get(Origin(origin))
    return codec.part_of if isinstance(codec, PartCodec) else None


class HeldGroups:
    """The groups that have entries in flight.

    Invariant: ``strays`` has those whose holder does not own their slot, as of the last
    :meth:`sort`; a group that begins later begins at its owner.
    """

    def __init__(self) -> None:
        self._held = HeldKeys()
        self.strays: dict[int, Receiver] = {}
        """By group, the holder; not to be changed by others."""

    def __bool__(self) -> bool:
        return bool(self._held.holders)

    def __repr__(self) -> str:
        return f"<HeldGroups {len(self._held.holders)}, {len(self.strays)} strays>"

    def took(
        self, receiver: Receiver, positions: Sequence[Position], groups: Sequence[int]
    ) -> None:
        """Note that ``positions``, which are of ``groups``, are in flight at ``receiver``."""
        of_groups = [pair for pair in zip(positions, groups, strict=True) if pair[1]]
        self._held.took(
            receiver, [position for position, _ in of_groups], [g for _, g in of_groups]
        )

    def left(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Note that these are not in flight any more; return the groups of those that had one."""
        return self._held.left(positions)

    def ended(self, groups: Iterable[int]) -> list[int]:
        """Forget the strays among ``groups`` that are in flight nowhere any more; return them."""
        holders, strays = self._held.holders, self.strays
        gone = [each for each in set(groups) if each in strays and each not in holders]
        for group in gone:
            del strays[group]
        return gone

    def sort(self, owners: Mapping[int, Receiver | None]) -> None:
        """Find the strays again: slots have other owners now."""
        held = self._held.holders.items()
        self.strays = {each: holder for each, holder in held if owners[slot_of(each)] is not holder}
