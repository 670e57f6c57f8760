"""The overlay: what the journal or the process holds and LMDB lacks, laid over what LMDB has.

The rule: a reader finds what a takeover of the same commits would leave. So journal and process
hold only what can be laid over a table key by key: runs of entries, and the single rows of
:func:`can_be_laid_over`. Any other row says how to read others (a ledger, a trim, the journal
itself), and is read from LMDB alone.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.store.format.block import encode_block, split_run
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.commit_record import merged_blocks
from arneb_core.store.format.schema import FRONTEND_PREFIX, META_REPLICA, Table, TopicId

Rows = dict[bytes, bytes | None]
"""By key; None: the row was deleted."""

NO_ROWS: Final[Mapping[bytes, bytes | None]] = {}


class Overlay:
    """What some commits, oldest first, have that LMDB lacks."""

    __slots__ = ("_rows", "runs")

    def __init__(self, commits: Sequence[Changes] = ()) -> None:
        self.runs: dict[TopicId, list[tuple[Position, list[bytes]]]] = {}
        self._rows: dict[Table, Rows] = {}
        for topic_id, first, entries in merged_blocks(commits):
            self.runs.setdefault(topic_id, []).append((first, entries))
        for changes in commits:
            for table, key, value in rows_of(changes):
                self._rows.setdefault(table, {})[key] = value

    def __repr__(self) -> str:
        rows = sum(map(len, self._rows.values()))
        return f"<Overlay of {len(self.runs)} topics and {rows} rows>"

    def blocks(
        self, topic_id: TopicId, first: Position = BEFORE_ALL, last: Position | None = None
    ) -> Iterator[tuple[Position, bytes]]:
        """Yield the topic's entries from ``first`` to ``last`` in blocks as LMDB will have them,
        perhaps with some more; each with the position of its last entry."""
        for position, entries in self.runs.get(topic_id, ()):
            # One run may be all that the journal holds.
            for begin, part, lengths in split_run(position, entries):
                end = Position(begin + len(part) - 1)
                if end >= first:
                    yield end, bytes(encode_block(begin, part, lengths))
                if last is not None and end >= last:
                    return

    def rows(self, table: Table) -> Mapping[bytes, bytes | None]:
        """Return the rows of ``table`` that replace LMDB's."""
        return self._rows.get(table, NO_ROWS)


def can_be_laid_over(changes: Changes) -> bool:
    """Whether all of it can be laid over LMDB: entries, cursor rows, frontends' rows, and how far a
    directory has a replicated log."""
    return changes.is_plain or (
        not (changes.prefixes or changes.trims)
        and all(
            table is Table.CURSORS
            or (table is Table.CATALOG and key.startswith(FRONTEND_PREFIX))
            or (table is Table.META and key == META_REPLICA)
            for table, key, _ in rows_of(changes)
        )
    )


def is_of_replica(changes: Changes) -> bool:
    """Whether it comes from a replicated log, and says how far the directory has that."""
    return any(table is Table.META and key == META_REPLICA for table, key, _ in changes.puts)


def rows_of(changes: Changes) -> Iterable[tuple[Table, bytes, bytes | None]]:
    """Return the rows that a commit changes, in the order that :class:`.Changes` promises."""
    if not changes.deletes:
        return changes.puts
    return [(table, key, None) for table, key in changes.deletes] + changes.puts


def laid_over(
    stored: Iterator[tuple[bytes, bytes]], late: Mapping[bytes, bytes | None], prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Merge the rows of ``late`` into ``stored``, which are one table's rows with ``prefix`` in key
    order."""
    return _merged(stored, late, prefix) if late else stored


def _merged(
    stored: Iterator[tuple[bytes, bytes]], late: Mapping[bytes, bytes | None], prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    fresh = deque(
        sorted(
            (key, value)
            for key, value in late.items()
            if value is not None and key.startswith(prefix)
        )
    )
    for key, value in stored:
        if key in late:
            continue
        while fresh and fresh[0][0] < key:
            yield fresh.popleft()
        yield key, value
    yield from fresh
