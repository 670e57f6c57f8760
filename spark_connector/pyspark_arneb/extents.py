"""What the log holds at one instant, read by the driver in one transaction.

The rule: everything that a read depends on is taken from one snapshot: the topics, their
ledgers and the last entry of each. What is committed later does not exist for this read.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from arneb_core.api.entry import messages_in
from arneb_core.api.position import ENTRY_MASK, LedgerId, Position, position
from arneb_core.store.records import LedgerRecord, TopicRecord
from arneb_core.store.schema import (
    TOPIC_PREFIX,
    Table,
    TopicId,
    parse_ledger_key,
    topic_prefix,
)
from pyspark_arneb.options import EARLIEST, OptionError
from pyspark_arneb.ranges import Extent, LedgerExtent
from pyspark_arneb.topics import TopicSelection, short_name

if TYPE_CHECKING:
    from arneb_core.store.snapshot import Snapshot

NAMES_SHOWN_MAX: Final = 10


def find_extents(snapshot: "Snapshot", selection: TopicSelection) -> list[Extent]:
    """The selected topics as of ``snapshot``.

    Raises :class:`OptionError` when a topic that was named is not there.
    """
    present = {
        key.removeprefix(TOPIC_PREFIX).decode(): TopicRecord.unpack(value).id
        for key, value in snapshot.scan(Table.CATALOG, TOPIC_PREFIX)
    }
    chosen, missing = selection.choose(present)
    if missing:
        raise OptionError("topic", f"no topic {missing[0]}; {_known(sorted(present))}")
    return [
        Extent(
            present[name],
            name,
            tuple(_ledgers(snapshot, present[name])),
            _floor(snapshot, present[name]),
        )
        for name in chosen
    ]


def _known(names: list[str]) -> str:
    if not names:
        return "the log has no topics"
    more = len(names) - NAMES_SHOWN_MAX
    shown = ", ".join(map(short_name, names[:NAMES_SHOWN_MAX]))
    return f"there are {shown}" + (f" and {more} more" if more > 0 else "")


def _floor(snapshot: "Snapshot", topic_id: TopicId) -> Position:
    """Where the oldest ledger begins, be it empty."""
    for key, _ in snapshot.scan(Table.LEDGERS, topic_prefix(topic_id)):
        return position(parse_ledger_key(key)[1], 0)
    return EARLIEST


def _ledgers(snapshot: "Snapshot", topic_id: TopicId) -> Iterator[LedgerExtent]:
    """The topic's ledgers that hold entries.

    A trim removes a ledger's record at once and its blocks in steps, oldest first; so what
    counts is what has a record, from the first block that is still there.
    """
    found = snapshot.read_blocks(topic_id, EARLIEST, bytes_max=1)
    if not found:
        return
    first = found[0][0]
    for key, value in snapshot.scan(Table.LEDGERS, topic_prefix(topic_id)):
        _, ledger = parse_ledger_key(key)
        extent = _extent(snapshot, topic_id, ledger, LedgerRecord.unpack(value), first)
        if extent is not None:
            yield extent


def _extent(
    snapshot: "Snapshot", topic_id: TopicId, ledger: LedgerId, record: LedgerRecord, first: Position
) -> LedgerExtent | None:
    start = Position(max(position(ledger, 0), first))
    if record.closed_ms:
        last: Position | None = position(ledger, record.entries - 1)
    else:
        last = snapshot.last_position(topic_id, up_to=position(ledger, ENTRY_MASK))
    if last is None or last < start:
        return None
    entries = last - start + 1
    if record.closed_ms:
        messages = record.messages * entries // record.entries
    else:
        messages = entries * _messages_an_entry(snapshot, topic_id, last)
    return LedgerExtent(start, last, max(entries, messages), record.created_ms, record.closed_ms)


def _messages_an_entry(snapshot: "Snapshot", topic_id: TopicId, last: Position) -> int:
    """An open ledger's record has no counts yet; its last entry speaks for the others."""
    (_, entries), *_ = snapshot.read_blocks(topic_id, last, bytes_max=1, last=last)
    return messages_in(entries[-1])
