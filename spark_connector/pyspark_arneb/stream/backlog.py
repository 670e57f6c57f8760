"""A backlog: what one topic holds beyond the position that a query has reached; pure.

The rule: messages and bytes of a part of a ledger are in proportion to its entries. That is exact
where entries are alike; elsewhere it only shifts work between micro-batches.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.store.reading.extents import Extent, LedgerExtent

NO_BOUND: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Backlog:
    """The entries from :attr:`begin` on, ledger by ledger."""

    begin: Position
    ledgers: tuple[LedgerExtent, ...]

    @property
    def messages(self) -> int:
        return sum(ledger.messages for ledger in self.ledgers)

    @property
    def bytes_total(self) -> int:
        return sum(ledger.bytes_total for ledger in self.ledgers)

    @property
    def end(self) -> Position:
        """The position after its last entry; :attr:`begin` if it has none."""
        return Position(self.ledgers[-1].last + 1) if self.ledgers else self.begin

    def take(self, messages_max: int = NO_BOUND, bytes_max: int = NO_BOUND) -> Position:
        """Return the end of the longest run within both limits, but of at least one entry: an entry
        is never divided, and a query must make progress."""
        end = self.begin
        for ledger in self.ledgers:
            entries = min(
                ledger.entries,
                _entries_within(messages_max, ledger.messages, ledger.entries),
                _entries_within(bytes_max, ledger.bytes_total, ledger.entries),
            )
            if entries == 0 and end != self.begin:
                return end
            end = Position(ledger.first + max(1, entries))
            if entries < ledger.entries:
                return end
            messages_max -= ledger.messages
            bytes_max -= ledger.bytes_total
        return end

    def __repr__(self) -> str:
        return f"<Backlog {self.messages} messages, {self.bytes_total} bytes>"


def backlog_of(extent: Extent, begin: Position, end: Position) -> Backlog:
    """Return the part of ``extent`` in [begin, end)."""
    parts = (part_of(ledger, begin, end) for ledger in extent.ledgers)
    return Backlog(begin, tuple(part for part in parts if part is not None))


def part_of(ledger: LedgerExtent, first: Position, end: Position) -> LedgerExtent | None:
    """Return the part of a ledger in [first, end), its counts in proportion; None when it is
    empty."""
    first, last = Position(max(first, ledger.first)), Position(min(end - 1, ledger.last))
    if first > last:
        return None
    skipped, entries = first - ledger.first, last - first + 1
    before = ledger.messages * skipped // ledger.entries
    until = ledger.messages * (skipped + entries) // ledger.entries
    return replace(
        ledger,
        first=first,
        last=last,
        messages=max(entries, until - before),
        bytes_total=ledger.bytes_total * entries // ledger.entries,
        messages_before=ledger.messages_before + before,
    )


def messages_until(extent: Extent, position: Position) -> int:
    """Return how many messages the topic ever had before ``position``, as far as that is known."""
    count = extent.messages_before
    for ledger in extent.ledgers:
        part = part_of(ledger, ledger.first, position)
        if part is None:
            break
        count = part.messages_before + part.messages
    return count


def total(backlogs: Iterable[Backlog]) -> tuple[int, int]:
    """Return the messages and bytes of several topics."""
    messages = bytes_total = 0
    for backlog in backlogs:
        messages += backlog.messages
        bytes_total += backlog.bytes_total
    return messages, bytes_total


def _entries_within(bound: int, amount: int, entries: int) -> int:
    """Return how many of ``entries``, which amount to ``amount`` in total, fit within ``bound``."""
    if amount <= bound:
        return entries
    return max(0, bound) * entries // amount
