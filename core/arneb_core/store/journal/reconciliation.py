"""Reconciliation: which records of a damaged journal continue what LMDB holds.

The rule: an entry keeps the position that it was given. What is missing between the log and a run
of the journal, or between two of its runs, becomes a *gap*: a row of GAPS saying that these
positions were used and their entries are lost. A run that belongs nowhere, because its ledger does
not exist or its positions are taken, is left out and reported. After a lost record cursors stay
where they were: a record has only the changes of a cursor since the last one, so later records are
not enough. Acknowledged messages are then redelivered, and that is reported.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from arneb_core.api.entries.position import (
    LedgerId,
    Position,
    before,
    ledger_of,
    position_at,
    render,
)
from arneb_core.store.format.changes import Block, Changes
from arneb_core.store.format.commit_record import CommitRecord
from arneb_core.store.format.records import TopicRecord, pack_gap
from arneb_core.store.format.schema import TOPIC_PREFIX, Table, TopicId, gap_key, ledger_key
from arneb_core.store.journal.overlay import is_of_replica

SHOWN_MAX: Final = 10


class Stored(Protocol):
    """What LMDB holds; a :class:`.snapshot.Snapshot`."""

    def get(self, table: Table, key: bytes) -> bytes | None: ...

    def scan(self, table: Table, prefix: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    def last_position(self, topic_id: TopicId, up_to: Position) -> Position | None: ...


class Gap(NamedTuple):
    """Entries that are lost; both ends included."""

    topic_id: TopicId
    first: Position
    last: Position


@dataclass(slots=True)
class Reconciliation:
    """How the records of a journal continue what LMDB has."""

    records: list[CommitRecord] = field(default_factory=list)
    """Records that continue the log."""
    gaps: list[Gap] = field(default_factory=list)
    refused: list[Block] = field(default_factory=list)
    """Runs that belong nowhere."""
    cursors_left: int = 0
    """Records whose cursor rows are left out."""
    read_again: int = 0
    """Records of a replicated log, which is read again from there on."""

    @property
    def repairs(self) -> Changes | None:
        """What must be committed together with the records."""
        puts: list[tuple[Table, bytes, bytes | None]] = [
            (Table.GAPS, gap_key(gap.topic_id, gap.last), pack_gap(gap.first)) for gap in self.gaps
        ]
        return Changes(puts=puts) if puts else None


def reconcile(stored: Stored, records: Sequence[CommitRecord], number: int) -> Reconciliation:
    """Reconcile ``records`` with ``stored``, which has everything up to record ``number``."""
    made = Reconciliation()
    ends: dict[TopicId, Position] = {}
    for record, follows_loss in in_turn(records, number):
        if follows_loss and is_of_replica(record.changes):
            made.read_again += 1
            continue
        kept: list[Block] = []
        for run in record.changes.blocks:
            topic_id, first, entries = run
            expected = _expected(stored, ends.get(topic_id), topic_id, ledger_of(first))
            if expected is None or first < expected:
                made.refused.append(run)
                continue
            if first > expected:
                made.gaps.append(Gap(topic_id, expected, before(first)))
            ends[topic_id] = Position(first + len(entries))
            kept.append(run)
        changes = record.changes
        if len(kept) < len(changes.blocks):
            changes = replace(changes, blocks=kept)
        if follows_loss and (rest := _without_cursors(changes)) != changes:
            changes = rest
            made.cursors_left += 1
        if changes:
            made.records.append(replace(record, changes=changes))
    return made


def in_turn(records: Iterable[CommitRecord], number: int) -> Iterator[tuple[CommitRecord, bool]]:
    """Yield the records after record ``number``, each with whether one before it is missing."""
    follows_loss = False
    for record in records:
        follows_loss = follows_loss or record.number != number + 1
        number = record.number
        yield record, follows_loss


def _without_cursors(changes: Changes) -> Changes:
    return replace(
        changes,
        puts=[each for each in changes.puts if each[0] is not Table.CURSORS],
        deletes=[each for each in changes.deletes if each[0] is not Table.CURSORS],
    )


def _expected(
    stored: Stored, end: Position | None, topic_id: TopicId, ledger: LedgerId
) -> Position | None:
    """Return where the topic's next entry belongs if it is in ``ledger``; None: nowhere."""
    start = position_at(ledger, 0)
    if end is not None and end > start:
        return end
    if stored.get(Table.LEDGERS, ledger_key(topic_id, ledger)) is None:
        return None
    last = stored.last_position(topic_id, before(position_at(ledger + 1, 0)))
    return start if last is None or last < start else Position(last + 1)


def losses(stored: Stored, reconciled: Reconciliation) -> list[str]:
    """Return what is lost, from where to where, for people."""
    again: list[str] = []
    if left := reconciled.cursors_left:
        again.append(
            f"acknowledgements of {left} records behind that are not taken: they come again"
        )
    if left := reconciled.read_again:
        again.append(f"{left} records behind that are read again from the replicated log")
    if not (reconciled.gaps or reconciled.refused):
        return again
    names = {
        TopicRecord.unpack(value).id: f"topic {key[len(TOPIC_PREFIX) :].decode()!r}"
        for key, value in stored.scan(Table.CATALOG, TOPIC_PREFIX)
    }
    lines = [
        f"{names.get(gap.topic_id, f'topic {gap.topic_id}')} {_range(gap.first, gap.last)} lost"
        for gap in reconciled.gaps
    ]
    lines += [
        f"{names.get(topic_id, f'topic {topic_id}')} "
        f"{_range(first, Position(first + len(entries) - 1))} without a place in the log"
        for topic_id, first, entries in reconciled.refused
    ]
    more = len(lines) - SHOWN_MAX
    lines = lines[:SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
    return lines + again


def _range(first: Position, last: Position) -> str:
    if first == last:
        return f"entry {render(first)} is"
    return f"entries {render(first)} to {render(last)} are"
