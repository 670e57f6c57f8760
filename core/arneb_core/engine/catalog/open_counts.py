"""Counts of open ledgers, made beforehand, so that recovery need not count every block.

The rule: a count covers the beginning of a ledger, and counting continues after it. An open ledger
grows only at its end, so the count of a beginning stays true however old it is. The time to open an
engine then depends on what was appended since the last count, not on the size of the log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import LedgerId, Position, entry_of, position_at
from arneb_core.log.stamps import stamp_of
from arneb_core.store.format.block import BlockCorrupt
from arneb_core.store.format.records import LedgerRecord
from arneb_core.store.format.schema import Table, TopicId, parse_ledger_key
from arneb_core.store.reading.snapshot import Snapshot

ASKED_BLOCKS: Final = 256
"""Blocks counted between two checks whether the count is still wanted: a millisecond."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How much the beginning of a ledger holds."""

    entries: int = 0
    messages: int = 0
    bytes_total: int = 0
    latest_ms: int = 0
    """When the last of these entries was published."""


NOTHING: Final = Counted()


class OpenCounts:
    """The counts of one store's open ledgers. Any thread may add to them; what one thread
    overwrites of another's is counted again."""

    def __init__(self) -> None:
        self._counted: dict[tuple[TopicId, LedgerId], Counted] = {}

    def __repr__(self) -> str:
        return f"<OpenCounts of {len(self._counted)} ledgers>"

    def count(
        self, snapshot: Snapshot, topic_id: TopicId, ledger: LedgerId, wanted: Callable[[], bool]
    ) -> tuple[Counted, BlockCorrupt | None]:
        """Count one ledger on while ``wanted``; return it and the damage that ended it."""
        counted = self._counted.get((topic_id, ledger), NOTHING)
        entries, messages, size = counted.entries, counted.messages, counted.bytes_total
        latest_ms, blocks, damage = counted.latest_ms, 0, None
        first, last = position_at(ledger, entries), Position(position_at(ledger + 1, 0) - 1)
        try:
            for position, run in snapshot.iter_blocks(topic_id, first, last):
                # A run's position says how many entries precede it, even if some of them are lost.
                entries = entry_of(position) + len(run)
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
        """Continue the counts of all open ledgers while ``wanted``. Runs in a thread."""
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
    """Return True: the count is wanted to its end."""
    return True
