"""The salvaged log of one topic: its blocks at their positions, and gaps where some are missing.

The rule: an entry keeps its position, and no position is used twice. What is missing becomes a gap,
as after a damaged journal. Every ledger is closed, so the next entries begin a new one.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arneb_core.api.entries.position import (
    BEFORE_ALL,
    ENTRY_MASK,
    LedgerId,
    Position,
    before,
    entry_of,
    ledger_of,
    position_at,
)
from arneb_core.store.format.records import LedgerRecord


class FoundBlock(NamedTuple):
    """An intact block."""

    first: Position
    entries: int
    messages: int
    bytes_total: int
    value: int
    """The finder's own number for its contents."""

    @property
    def last(self) -> Position:
        return Position(self.first + self.entries - 1)


@dataclass(slots=True)
class SalvagedLog:
    """The log of a topic, as it will be written."""

    ledgers: dict[LedgerId, LedgerRecord] = field(default_factory=dict)
    blocks: list[FoundBlock] = field(default_factory=list)
    gaps: list[tuple[Position, Position]] = field(default_factory=list)
    """First and last positions of what is missing, in order."""
    open_end: Position | None = None
    """The open ledger may have had more entries from here on."""

    @property
    def lost_entries(self) -> int:
        return sum(last - first + 1 for first, last in self.gaps)

    @property
    def entries(self) -> int:
        return sum(block.entries for block in self.blocks)

    def contains(self, place: Position) -> bool:
        """Whether an entry has, or had, this position."""
        ledger = self.ledgers.get(ledger_of(place))
        return ledger is not None and entry_of(place) < ledger.entries

    def block_at(self, place: Position) -> FoundBlock | None:
        """Return the block with this entry."""
        index = bisect_right(self.blocks, place, key=lambda block: block.first) - 1
        block = self.blocks[index] if index >= 0 else None
        return block if block is not None and place <= block.last else None

    def misses(self, first: Position, last: Position) -> bool:
        """Return whether all of this is in one gap, or may have come after what is known.

        A gap up to the end of what is known does not end there: the end may come from a cursor,
        which can point into the middle of a block.
        """
        if any(low <= first and last <= high for low, high in self.gaps):
            return True
        end = self.open_end
        if end is None or ledger_of(end) != ledger_of(first):
            return False
        return first >= min([end, *(low for low, high in self.gaps if high == before(end))])

    def fill(self, block: FoundBlock) -> None:
        """Put a block into a gap."""
        end = self.open_end
        if end is not None and ledger_of(end) == ledger_of(block.first) and block.last >= end:
            more = block.last + 1 - end
            at_end = [gap for gap in self.gaps if gap[1] == before(end)]
            for gap in at_end:
                self.gaps.remove(gap)
            insort(self.gaps, (min([end, *(low for low, _ in at_end)]), block.last))
            self.open_end = Position(block.last + 1)
            self._change(ledger_of(end), entries=more, messages=more)
        index = next(
            i for i, (low, high) in enumerate(self.gaps) if low <= block.first <= block.last <= high
        )
        low, high = self.gaps[index]
        rest = [(low, before(block.first)), (Position(block.last + 1), high)]
        self.gaps[index : index + 1] = [gap for gap in rest if gap[0] <= gap[1]]
        insort(self.blocks, block)
        self._change(
            ledger_of(block.first),
            messages=block.messages - block.entries,
            bytes_total=block.bytes_total,
        )

    def _change(
        self, number: LedgerId, *, messages: int, entries: int = 0, bytes_total: int = 0
    ) -> None:
        for ledger, record in self.ledgers.items():
            if ledger == number:
                self.ledgers[ledger] = replace(
                    record,
                    entries=record.entries + entries,
                    messages=record.messages + messages,
                    bytes_total=record.bytes_total + bytes_total,
                )
            elif ledger > number:
                moved = record.messages_before + messages
                self.ledgers[ledger] = replace(record, messages_before=moved)

    def floored(self, place: Position) -> Position:
        """Return ``place`` if a cursor may be there, else the next lower position where it may."""
        if not self.ledgers:
            return place
        lowest, highest = min(self.ledgers), max(self.ledgers)
        if place >= position_at(highest + 1, -1):
            place = position_at(highest + 1, -1)
        if place < position_at(lowest, 0) or self.contains(place):
            return place
        ledger = ledger_of(Position(place + 1))
        while ledger > lowest and place != position_at(ledger, -1):
            entries = self.ledgers[ledger].entries if ledger in self.ledgers else 0
            if entries:
                return min(place, position_at(ledger, entries - 1))
            place, ledger = position_at(ledger, -1), LedgerId(ledger - 1)
        return min(place, position_at(ledger, -1))


def put_together(
    records: Mapping[LedgerId, LedgerRecord],
    blocks: Iterable[FoundBlock],
    *,
    up_to: Position,
    any_ledger: bool,
    now_ms: int,
) -> SalvagedLog:
    """Build a topic's log from what is known of its ledgers and blocks.

    ``up_to``: the last position that a cursor knows of. ``any_ledger``: blocks may be in ledgers
    without a record, because records are missing.
    """
    made = SalvagedLog()
    by_ledger: dict[LedgerId, list[FoundBlock]] = {}
    # Of two that begin at the same position take the longer: it includes the other one.
    for block in sorted(blocks, key=lambda block: (block.first, -block.entries)):
        ledger = ledger_of(block.first)
        if any_ledger or ledger in records:
            by_ledger.setdefault(ledger, []).append(block)
    known = {*records, *by_ledger}
    seen = ledger_of(Position(up_to + 1))
    if not known and up_to <= BEFORE_ALL:
        return made
    newest = max({*known, seen} if any_ledger or not known else known)
    total = 0
    for number in range(min(known, default=newest), newest + 1):
        ledger = LedgerId(number)
        record = records.get(ledger)
        if record is not None and not made.ledgers:
            total = record.messages_before
        blocks_here = by_ledger.get(ledger, [])
        closed = _ledger(made, ledger, record, blocks_here, total, now_ms, up_to)
        made.ledgers[ledger] = closed
        total += closed.messages
    return made


def _ledger(
    made: SalvagedLog,
    ledger: LedgerId,
    record: LedgerRecord | None,
    blocks: list[FoundBlock],
    messages_before: int,
    now_ms: int,
    up_to: Position,
) -> LedgerRecord:
    """Take the blocks of one ledger; return the record to write for it."""
    end = messages = size = 0
    for block in blocks:
        start = entry_of(block.first)
        if start < end:
            continue  # its entries are there already
        messages += _gap(made, ledger, end, start) + block.messages
        size += block.bytes_total
        made.blocks.append(block)
        end = start + block.entries
    known_end = record.entries if record is not None and record.closed_ms else 0
    if ledger_of(up_to) == ledger and entry_of(up_to) != ENTRY_MASK:
        known_end = max(known_end, entry_of(up_to) + 1)
    if known_end > end:
        messages += _gap(made, ledger, end, known_end)
        end = known_end
    if record is not None and not record.closed_ms:
        made.open_end = position_at(ledger, end)
    created_ms = record.created_ms if record is not None else now_ms
    closed_ms = (record.closed_ms if record is not None else 0) or max(now_ms, created_ms, 1)
    return LedgerRecord(created_ms, closed_ms, end, messages, size, messages_before)


def _gap(made: SalvagedLog, ledger: LedgerId, start: int, end: int) -> int:
    """Add a gap; each lost entry counts as one message, so that offsets after it move as little as
    possible."""
    if start < end:
        made.gaps.append((position_at(ledger, start), position_at(ledger, end - 1)))
    return end - start
