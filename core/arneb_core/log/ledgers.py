"""The ledgers of one topic: which entries exist, and how many lie between two positions.

The rule: pure state, no I/O. Entry ids are dense inside a ledger; ledger ids are not (ledgers are
dropped from the front, and some are empty). So every question about "the next" or "how many" is
answered here and nowhere else, in O(log ledgers) or better.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from arneb_core.api.entries.position import (
    BEFORE_ALL,
    ENTRY_BITS,
    ENTRY_MASK,
    FIRST_LEDGER,
    LedgerId,
    Position,
    before,
    position_at,
    render,
)


@dataclass(slots=True)
class LedgerInfo:
    """One ledger at one instant. Not to be changed; not frozen, because one is made for every
    commit, and a frozen one takes four times as long to make."""

    id: LedgerId
    entries: int = 0
    messages: int = 0
    bytes: int = 0
    """Bytes of the entries, headers included."""
    created_ms: int = 0
    closed_ms: int = 0
    """0: open, it may still grow."""
    messages_before: int = 0
    """Messages in all ledgers that the topic ever had below this one: it numbers messages for good,
    although ledgers go."""

    @property
    def last(self) -> Position:
        """The last entry; the bound before the first one when the ledger is empty."""
        return position_at(self.id, self.entries - 1)

    def extended(self, entries: int, messages: int, bytes: int) -> "LedgerInfo":  # noqa: A002
        """Return this ledger with that much more after its last entry."""
        # Not replace(), which takes four times as long: this happens in every commit.
        return LedgerInfo(
            self.id,
            self.entries + entries,
            self.messages + messages,
            self.bytes + bytes,
            self.created_ms,
            self.closed_ms,
            self.messages_before,
        )


def empty_ledger(ledger: LedgerId, now_ms: int, messages_before: int) -> LedgerInfo:
    """Return a ledger that was passed over."""
    # 0 would read as open.
    return LedgerInfo(
        ledger, created_ms=now_ms, closed_ms=max(now_ms, 1), messages_before=messages_before
    )


class LedgerIndex:
    """The ledgers of a topic, in order.

    Invariants: ids ascend; only the last ledger may be open; the last ledger is never dropped
    before an empty one is opened after it, so that no ledger id is ever used twice.
    """

    __slots__ = ("_bases", "_ids", "_ledgers", "_sizes")

    def __init__(self, ledgers: Iterable[LedgerInfo] = ()) -> None:
        self._ids: list[int] = []
        self._ledgers: list[LedgerInfo] = []
        # Entries in all ledgers below, counted since the index was made. Drops from the front do
        # not change them: counts are differences.
        self._bases: list[int] = []
        self._sizes: dict[int, int] = {}
        for info in ledgers:
            self._add(info)

    def open(self, ledger: LedgerId, now_ms: int) -> LedgerInfo:
        """Begin an empty ledger, which takes the entries appended from now on.

        Raises :class:`ValueError` when another one is open or the id does not ascend.
        """
        info = LedgerInfo(ledger, created_ms=now_ms, messages_before=self.messages_ever)
        self._add(info)
        return info

    def pass_over(self, ledger: LedgerId, now_ms: int) -> None:
        """Fill the gap of missing ids below ``ledger``, which is about to be opened, with empty
        closed ledgers."""
        first = self._ids[-1] + 1 if self._ids else FIRST_LEDGER
        for passed in range(first, ledger):
            self._add(empty_ledger(LedgerId(passed), now_ms, self.messages_ever))

    def extend(self, entries: int, messages: int, bytes: int) -> Position:  # noqa: A002
        """Count entries appended to the open ledger; return the position of the first."""
        info = self._open_ledger()
        self.becomes(info.extended(entries, messages, bytes), entries)
        return position_at(info.id, info.entries)

    def becomes(self, info: LedgerInfo, added: int) -> None:
        """Replace the open ledger by ``info``, which has ``added`` more entries."""
        before = self._ledgers[-1]
        is_same = before.id == info.id and not before.closed_ms
        assert is_same, f"expected more of {before}, got {info}"
        assert before.entries + added == info.entries, f"{self!r} moved under {info}"
        self._ledgers[-1] = info
        self._sizes[info.id] = info.entries

    def close(self, now_ms: int) -> LedgerInfo:
        """End the open ledger; its counts are final."""
        # 0 would read as open, and a clock at 0 must not reopen a ledger.
        closed = replace(self._open_ledger(), closed_ms=max(now_ms, 1))
        self._ledgers[-1] = closed
        return closed

    def drop_through(self, ledger: LedgerId) -> list[LedgerInfo]:
        """Forget the ledgers up to ``ledger``, inclusive, and return them.

        A holder of an :class:`~arneb_core.cursor.acks.AckState` over this index must call its
        ``log_trimmed`` next. Raises :class:`ValueError` if that would drop the last ledger.
        """
        count = bisect_right(self._ids, ledger)
        if count and count == len(self._ids):
            raise ValueError(f"expected to keep the last ledger, got drop_through({ledger})")
        dropped = self._ledgers[:count]
        for info in dropped:
            del self._sizes[info.id]
        del self._ids[:count], self._ledgers[:count], self._bases[:count]
        return dropped

    @property
    def current(self) -> LedgerInfo | None:
        """The open ledger."""
        ledgers = self._ledgers
        return ledgers[-1] if ledgers and not ledgers[-1].closed_ms else None

    @property
    def newest(self) -> LedgerInfo | None:
        """The last ledger, open or closed."""
        return self._ledgers[-1] if self._ledgers else None

    @property
    def next_append(self) -> Position:
        """The next entry's position: in the open ledger, or first in the one to come."""
        if not self._ledgers:
            return position_at(FIRST_LEDGER, 0)
        info = self._ledgers[-1]
        return position_at(info.id + 1, 0) if info.closed_ms else position_at(info.id, info.entries)

    @property
    def floor(self) -> Position:
        """The bound just before everything that exists; nothing at or below it ever will."""
        return before(position_at(self._ids[0], 0)) if self._ids else BEFORE_ALL

    @property
    def first(self) -> Position | None:
        """The first entry."""
        return self.after(self.floor)

    @property
    def last(self) -> Position | None:
        """The last entry."""
        return self.at_or_before(self._ledgers[-1].last) if self._ledgers else None

    def contains(self, position: Position) -> bool:
        """Whether ``position`` is an entry."""
        return position & ENTRY_MASK < self._sizes.get(position >> ENTRY_BITS, 0)

    def has_all(self, positions: Sequence[Position]) -> bool:
        """Whether all ``positions``, which ascend, are entries."""
        start = 0
        while start < len(positions):
            end = Position((positions[start] >> ENTRY_BITS) + 1 << ENTRY_BITS)
            start = bisect_left(positions, end, start)
            if not self.contains(positions[start - 1]):
                return False
        return True

    def entries_in(self, ledger: int) -> int:
        """Return how many entries ``ledger`` has; 0 if it does not exist."""
        return self._sizes.get(ledger, 0)

    def after(self, position: Position) -> Position | None:
        """Return the first entry above ``position``, which may be any bound."""
        ledger, entry = position >> ENTRY_BITS, (position & ENTRY_MASK) + 1
        if entry < self._sizes.get(ledger, 0):
            return Position(position + 1)
        for info in self._ledgers[bisect_right(self._ids, ledger) :]:
            if info.entries:
                return position_at(info.id, 0)
        return None

    def at_or_before(self, position: Position) -> Position | None:
        """Return ``position`` if it is an entry, else the last entry below it."""
        ledger = position >> ENTRY_BITS
        if size := self._sizes.get(ledger):
            return position_at(ledger, min(position & ENTRY_MASK, size - 1))
        for info in self._ledgers[bisect_left(self._ids, ledger) - 1 :: -1]:
            if info.entries and info.id < ledger:
                return info.last
        return None

    def count_after(self, position: Position) -> int:
        """Return how many entries lie above ``position``."""
        if not self._ledgers:
            return 0
        last = self._ledgers[-1]
        if last.id == position >> ENTRY_BITS:  # the usual case
            return max(0, last.entries - (position & ENTRY_MASK) - 1)
        return self._bases[-1] + last.entries - self._rank(position)

    def count_between(self, low_exclusive: Position, high_inclusive: Position) -> int:
        """Return how many entries lie in (low, high]; 0 when the bounds are crossed."""
        if low_exclusive >= high_inclusive:
            return 0
        return self._rank(high_inclusive) - self._rank(low_exclusive)

    def runs(
        self, low_exclusive: Position, high_inclusive: Position
    ) -> Iterator[tuple[Position, Position]]:
        """Yield the contiguous stretches (first, last) of entries in (low, high], in order."""
        if low_exclusive >= high_inclusive:
            return
        start = bisect_left(self._ids, low_exclusive >> ENTRY_BITS)
        stop = bisect_right(self._ids, high_inclusive >> ENTRY_BITS)
        for info in self._ledgers[start:stop]:
            first = max(position_at(info.id, 0), Position(low_exclusive + 1))
            last = min(info.last, high_inclusive)
            if first <= last:
                yield first, last

    @property
    def entries(self) -> int:
        """How many entries exist."""
        return self.count_after(self.floor)

    @property
    def messages(self) -> int:
        """How many messages those entries hold."""
        return sum(info.messages for info in self._ledgers)

    @property
    def messages_ever(self) -> int:
        """How many messages the topic has ever had."""
        if not self._ledgers:
            return 0
        info = self._ledgers[-1]
        return info.messages_before + info.messages

    def at(self, ledger: int) -> LedgerInfo | None:
        """Return that ledger; None if it does not exist."""
        index = bisect_left(self._ids, ledger)
        return self._ledgers[index] if self._sizes.get(ledger) is not None else None

    @property
    def bytes(self) -> int:
        """Bytes of those entries, headers included."""
        return sum(info.bytes for info in self._ledgers)

    def __iter__(self) -> Iterator[LedgerInfo]:
        return iter(self._ledgers)

    def __len__(self) -> int:
        return len(self._ledgers)

    def __repr__(self) -> str:
        state = "open" if self.current else "closed"
        end = render(self.next_append)
        return f"<LedgerIndex {len(self)} ledgers, {self.entries} entries, next {end}, {state}>"

    def _add(self, info: LedgerInfo) -> None:
        if self.current:
            raise ValueError(f"expected ledger {self._ids[-1]} to be closed before {info.id}")
        above = self._ids[-1] if self._ids else FIRST_LEDGER - 1
        if info.id <= above:
            raise ValueError(f"expected a ledger id above {above}, got {info.id}")
        self._bases.append(self._bases[-1] + self._ledgers[-1].entries if self._ids else 0)
        self._ids.append(info.id)
        self._ledgers.append(info)
        self._sizes[info.id] = info.entries

    def _open_ledger(self) -> LedgerInfo:
        if (info := self.current) is None:
            raise ValueError("expected an open ledger, got none")
        return info

    def _rank(self, position: Position) -> int:
        """Count the entries at or below ``position``, on the scale of ``_bases``."""
        ledger = position >> ENTRY_BITS
        index = bisect_right(self._ids, ledger) - 1
        if index < 0:
            return self._bases[0] if self._bases else 0
        info = self._ledgers[index]
        entry = (position & ENTRY_MASK) + 1 if info.id == ledger else info.entries
        return self._bases[index] + min(entry, info.entries)
