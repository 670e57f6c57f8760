"""Ledger ids: what Pulsar's clients are told of a topic's ledgers.

The rule: no two topics of one store have an id in common, as in Apache Pulsar, because clients tell
the messages of several topics apart by ledger and entry alone. Each topic counts its own ledgers;
only what is shown has the topic's number in it, between two parts of the ledger's. So ids ascend as
ledgers do, and those of the first topic are its ledgers' numbers.
"""

from typing import Final

from arneb_core.api.entries.position import (
    AFTER_ALL,
    BEFORE_ALL,
    ENTRY_BITS,
    ENTRY_MASK,
    LedgerId,
    Position,
    position_at,
)

LOW_BITS: Final = 16
"""Bits of the ledger's number below the topic's. Clients that make one number of an id
(``ledger << 28 | entry`` in Java) want ids below 2^35: enough for half a million topics."""

LOW_MASK: Final = (1 << LOW_BITS) - 1
TOPIC_MASK: Final = (1 << 32) - 1
HIGH_SHIFT: Final = LOW_BITS + 32

LEDGERS: Final = 1 << 30
"""Above every ledger's number. Places that are in no log have larger ones, which are shown as they
are."""

ENTRIES: Final = 1 << ENTRY_BITS

LARGEST: Final = (1 << 63) - 1
"""Above every id."""


class LedgerIds:
    """The ids of one topic's ledgers."""

    __slots__ = ("_mark",)

    def __init__(self, topic_id: int = 1) -> None:
        self._mark = (topic_id - 1 & TOPIC_MASK) << LOW_BITS

    def __repr__(self) -> str:
        return f"<LedgerIds of topic {(self._mark >> LOW_BITS) + 1}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerIds) and other._mark == self._mark

    def __hash__(self) -> int:
        return hash(self._mark)

    def of(self, ledger: int) -> int:
        """Return the id of a ledger."""
        if ledger >= LEDGERS:
            return ledger
        return ledger >> LOW_BITS << HIGH_SHIFT | self._mark | ledger & LOW_MASK

    def ledger(self, shown: int) -> LedgerId | None:
        """Return the ledger of an id; None if it is another topic's, or no ledger's.

        An id without a topic's number is taken for this topic's: ids that clients saved before
        ids had one still mean what they meant.
        """
        low = shown ^ self._mark
        if 0 <= low <= LOW_MASK:  # nearly always
            return LedgerId(low)
        if not 0 <= shown < LEDGERS << ENTRY_BITS:
            return None
        mark = shown & TOPIC_MASK << LOW_BITS
        if mark and mark != self._mark:
            return None
        return LedgerId(shown >> HIGH_SHIFT << LOW_BITS | shown & LOW_MASK)

    def position(self, shown: int, entry: int) -> Position | None:
        """Return the position of an entry; None for one that this topic cannot have."""
        ledger = self.ledger(shown)
        return None if ledger is None or not 0 <= entry < ENTRIES else position_at(ledger, entry)

    def nearest(self, shown: int, entry: int) -> Position:
        """Return the position of an entry, or the nearest one: other topics' ledgers are before or
        after all of this one's, in the order of the topics. ``entry`` may be -1."""
        if shown < 0:
            return BEFORE_ALL
        ledger = self.ledger(shown)
        if ledger is None:
            is_in_a_log = shown < LEDGERS << ENTRY_BITS
            is_earlier = is_in_a_log and shown & TOPIC_MASK << LOW_BITS < self._mark
            return BEFORE_ALL if is_earlier else AFTER_ALL
        return position_at(ledger, min(max(entry, 0), ENTRIES - 1))

    def place(self, position: Position) -> tuple[int, int]:
        """Return ledger id and entry id of a position; the entry before a ledger's first is -1."""
        ledger, entry = position >> ENTRY_BITS, position & ENTRY_MASK
        return (self.of(ledger + 1), -1) if entry == ENTRY_MASK else (self.of(ledger), entry)

    def render(self, position: Position) -> str:
        """Return ``42:7``, as Pulsar's tools show it."""
        ledger, entry = self.place(position)
        return f"{ledger}:{entry}"


AS_COUNTED: Final = LedgerIds()
"""Ids that are the ledgers' numbers."""
