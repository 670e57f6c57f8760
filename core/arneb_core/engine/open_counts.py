"""Counts of open ledgers: what recovery would count block by block, counted beforehand.

The rule: what was counted is a beginning of the ledger, and what stands behind it is counted on;
an open ledger only grows at its end, so a beginning stays true however old it is. Whoever waits
for an engine that opens waits for what came since the last look, and not for all there is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arneb_core.api.entry import messages_in
from arneb_core.api.position import LedgerId, Position, entry_of, position
from arneb_core.log.stamps import stamp_of
from arneb_core.store.format.block import BlockCorrupt
from arneb_core.store.format.records import LedgerRecord
from arneb_core.store.format.schema import Table, TopicId, parse_ledger_key
from arneb_core.store.reading.snapshot import Snapshot

ASKED_BLOCKS: Final = 256
"""Blocks between two looks whether the count is still wanted: a millisecond."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The beginning of a ledger: so many entries, with so much in them."""

    entries: int = 0
    messages: int = 0
    bytes_total: int = 0
    latest_ms: int = 0
    """When the last of them was published."""


NOTHING: Final = Counted()


class OpenCounts:
    """Of the open ledgers of one store. Any thread may count on; what one loses of another's work
    is counted again."""

    def __init__(self) -> None:
        self._counted: dict[tuple[TopicId, LedgerId], Counted] = {}

    def __repr__(self) -> str:
        return f"<OpenCounts of {len(self._counted)} ledgers>"

    def count(
        self, snapshot: Snapshot, topic_id: TopicId, ledger: LedgerId, wanted: Callable[[], bool]
    ) -> tuple[Counted, BlockCorrupt | None]:
        """Count one on as long as that is ``wanted``; and what ended it early."""
        counted = self._counted.get((topic_id, ledger), NOTHING)
        entries, messages, size = counted.entries, counted.messages, counted.bytes_total
        latest_ms, blocks, damage = counted.latest_ms, 0, None
        first, last = position(ledger, entries), Position(position(ledger + 1, 0) - 1)
        try:
            for place, run in snapshot.iter_blocks(topic_id, first, last):
                # Where a run stands says what came before it, also if that is lost.
                entries = entry_of(place) + len(run)
                messages += sum(map(messages_in, run))
                size += sum(map(len, run))
                latest_ms = stamp_of(run[-1])
                blocks += 1
                if not blocks % ASKED_BLOCKS and not wanted():
                    break
        except BlockCorrupt as error:
            damage = error
        if blocks:
            counted = Counted(entries, messages, size, latest_ms)
            self._counted[topic_id, ledger] = counted
        return counted, damage

    def count_all(self, snapshot: Snapshot, wanted: Callable[[], bool]) -> None:
        """Count on whatever is open, as long as that is ``wanted``. In a thread."""
        still_open = set()
        for key, value in snapshot.scan(Table.LEDGERS):
            if LedgerRecord.unpack(value).closed_ms:
                continue
            if not wanted():
                return
            topic_id, ledger = parse_ledger_key(key)
            still_open.add((topic_id, ledger))
            self.count(snapshot, topic_id, ledger, wanted)
        for gone in self._counted.keys() - still_open:
            del self._counted[gone]


def always() -> bool:
    """The whole of it is wanted."""
    return True
