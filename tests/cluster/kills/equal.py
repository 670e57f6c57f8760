"""Whether the directories of one shard are equal, in everything that a reader can see of them.

The rule: entries are compared one by one, however they are grouped into blocks. So are the rows of
every other table, except those that say how far the directory itself has come. Trimming removes
whole blocks, and each directory trims at its own pace. So what one directory has before another's
first entry, or in a gap, is about to be removed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.store.environment import Store
from arneb_core.store.format.records import unpack_trims
from arneb_core.store.format.schema import META_TRIMS, Table, TopicId

OWN: Final = (Table.META, Table.ENTRIES, Table.REFERENCES, Table.GAPS, Table.BODIES)
"""Not compared row by row: blocks, counts by block, and rows that say how far the directory has
come."""

LAST: Final = Position((1 << 64) - 1)
SHOWN_MAX: Final = 5

Range = tuple[int, int, int]
"""Topic, first and last position."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Everything in one directory."""

    rows: dict[tuple[str, bytes], bytes]
    entries: dict[int, dict[int, bytes]]
    """By topic and position."""
    going: list[Range]
    """What is being trimmed, and what has been trimmed in the middle."""

    def first(self, topic: int) -> int:
        """The first position that it has of a topic."""
        return min(self.entries.get(topic, {}), default=0)

    def is_going(self, topic: int, position: int) -> bool:
        return position < self.first(topic) or any(
            topic == its_topic and first <= position <= last
            for its_topic, first, last in self.going
        )


def differences(paths: Mapping[str, Path]) -> list[str]:
    """How each directory differs from the first; their processes must not be running."""
    walks = {name: walk(path) for name, path in paths.items()}
    (first, one), *others = walks.items()
    found = []
    for name, other in others:
        if wrong := [*_rows(one, other), *_entries(one, other)]:
            shown = ", ".join(wrong[:SHOWN_MAX])
            found.append(f"{name} is not equal to {first}: {len(wrong)} differ: {shown}")
    return found


def _rows(one: Walk, other: Walk) -> Iterator[str]:
    for table, key in sorted(one.rows.keys() | other.rows.keys()):
        if one.rows.get((table, key)) != other.rows.get((table, key)):
            yield f"{table} {key!r}"


def _entries(one: Walk, other: Walk) -> Iterator[str]:
    for topic in sorted(one.entries.keys() | other.entries.keys()):
        ours, theirs = one.entries.get(topic, {}), other.entries.get(topic, {})
        for position in sorted(ours.keys() | theirs.keys()):
            if ours.get(position) == theirs.get(position):
                continue
            lacking = [each for each in (one, other) if position not in each.entries.get(topic, {})]
            if not any(each.is_going(topic, position) for each in (*lacking, one, other)):
                yield f"entry {position >> 32}:{position & 0xFFFFFFFF} of topic {topic}"


def walk(path: Path) -> Walk:
    """Read all of a directory."""
    with Store.open(path, follows=True) as store, store.snapshot() as snapshot:
        rows = {
            (table.name, key): value
            for table in Table
            if table not in OWN
            for key, value in snapshot.scan(table)
        }
        topics = {int.from_bytes(key[:4]) for key, _ in snapshot.scan(Table.ENTRIES)}
        entries = {
            topic: {
                position + index: entry
                for position, run in snapshot.iter_blocks(TopicId(topic), Position(0), LAST)
                for index, entry in enumerate(run)
            }
            for topic in topics
        }
        going: list[Range] = [*unpack_trims(snapshot.get(Table.META, META_TRIMS) or b"")]
        for topic in topics:
            going += [(topic, *gap) for gap in snapshot.gaps(TopicId(topic))]
        return Walk(rows, entries, going)


def counted(path: Path) -> str:
    """How much there is."""
    found = walk(path)
    entries = sum(map(len, found.entries.values()))
    return f"{entries} entries of {len(found.entries)} topics, {len(found.rows)} rows"
