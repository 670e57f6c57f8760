"""The check of the delayed indexes: every bucket against itself and against the log.

The rule: an index that contradicts the log is damaged, and so is one that lacks an entry which is
still to come. Surplus about entries that came due long ago is no damage: such parts are removed
once they are in nobody's way.
"""

import itertools
from dataclasses import dataclass, field

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey, position_of
from arneb_core.api.entries.entry import read_header
from arneb_core.api.entries.position import Position, render
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.checking.inventory import Inventory
from arneb_core.store.format.delayed_rows import (
    Span,
    keys_of,
    unpack_head,
    unpack_members,
    unpack_segment,
    unpack_through,
)
from arneb_core.store.format.schema import (
    DelayedKind,
    Table,
    TopicId,
    parse_delayed_key,
    segment_key,
)


@dataclass(slots=True)
class _Bucket:
    """The rows of a bucket."""

    spans: list[Span] | None = None
    members: BitMap64 | None = None
    segments: int = 0
    found: BitMap64 = field(default_factory=BitMap64)


@dataclass(slots=True)
class _Index:
    """The rows of a topic."""

    through: Position | None = None
    buckets: dict[int, _Bucket] = field(default_factory=dict)


def check_delayed(inventory: Inventory) -> None:
    """Check every row of the table."""
    indexes: dict[TopicId, _Index] = {}
    for key in inventory.snapshot.keys(Table.DELAYED, b""):
        try:
            topic_id, number, kind, _ = parse_delayed_key(key)
        except ValueError as problem:
            inventory.add(FindingKind.DELAYED_KEY, key.hex(), problem)
            continue
        if topic_id not in inventory.topics:
            inventory.add(FindingKind.DELAYED_ORPHAN, key.hex(), "expected its topic, got none")
            continue
        index = indexes.setdefault(topic_id, _Index())
        try:
            _take_row(inventory, index, key, number, kind)
        except ValueError as problem:
            where = f"{inventory.label(topic_id)}, bucket {number}"
            inventory.add(FindingKind.DELAYED_ROW, where, problem)
    for topic_id, index in indexes.items():
        _check_index(inventory, topic_id, index)
    for topic_id, topic in inventory.topics.items():
        if topic.delayed and topic_id not in indexes:
            where = inventory.label(topic_id)
            inventory.add(FindingKind.DELAYED_THROUGH, where, "expected its index, got none")


def _take_row(
    inventory: Inventory, index: _Index, key: bytes, number: int, kind: DelayedKind
) -> None:
    if kind is DelayedKind.SEGMENT:
        index.buckets.setdefault(number, _Bucket()).segments += 1
        return
    value = inventory.snapshot.get(Table.DELAYED, key) or b""
    if kind is DelayedKind.THROUGH:
        index.through = Position(unpack_through(value))
    elif kind is DelayedKind.HEAD:
        index.buckets.setdefault(number, _Bucket()).spans = unpack_head(value)
    else:
        index.buckets.setdefault(number, _Bucket()).members = unpack_members(value)


def _check_index(inventory: Inventory, topic_id: TopicId, index: _Index) -> None:
    where = inventory.label(topic_id)
    topic = inventory.topics[topic_id]
    if not topic.delayed:
        inventory.add(FindingKind.DELAYED_THROUGH, where, "expected a topic that may be delayed")
    if index.through is None:
        inventory.add(FindingKind.DELAYED_THROUGH, where, "expected to know where it ends")
        return
    covered = BitMap64()
    for number, bucket in index.buckets.items():
        if bucket.spans is None:
            continue  # from an unfinished merge; the next start removes it
        place = f"{where}, bucket {number}"
        _check_bucket(inventory, topic_id, number, bucket, place)
        twice = covered & bucket.found
        if twice:
            detail = f"expected {render(Position(twice.min()))} in one bucket only"
            inventory.add(FindingKind.DELAYED_PLACE, place, detail)
        covered |= bucket.found
    _check_against_log(inventory, topic_id, where, index.through, covered)


def _check_bucket(
    inventory: Inventory, topic_id: TopicId, number: int, bucket: _Bucket, where: str
) -> None:
    assert bucket.spans is not None, "looked at by the caller"
    if bucket.segments != len(bucket.spans):
        detail = f"expected {len(bucket.spans)} segments, got {bucket.segments}"
        inventory.add(FindingKind.DELAYED_ROW, where, detail)
    for index, span in enumerate(bucket.spans):
        value = inventory.snapshot.get(Table.DELAYED, segment_key(topic_id, number, index))
        if value is None:
            continue  # counted above
        try:
            keys = keys_of(unpack_segment(value))
            _check_segment(keys, span)
        except ValueError as problem:
            inventory.add(FindingKind.DELAYED_ROW, f"{where}, segment {index}", problem)
            continue
        bucket.found.update(map(position_of, keys))
    if bucket.members is None or bucket.found != bucket.members:
        detail = "expected the positions of all its entries, and no others"
        inventory.add(FindingKind.DELAYED_ROW, where, detail)


def _check_segment(keys: list[DueKey], span: Span) -> None:
    if (keys[0], keys[-1], len(keys)) != tuple(span):
        raise ValueError("expected what the bucket's head says of it")
    if any(low >= high for low, high in itertools.pairwise(keys)):
        raise ValueError("expected its entries in the order of their times")


def _check_against_log(
    inventory: Inventory, topic_id: TopicId, where: str, through: Position, covered: BitMap64
) -> None:
    topic = inventory.topics[topic_id]
    first = min(topic.ledgers, default=0) << 32
    wrong = BitMap64(covered)
    wrong.remove_range(0, first)  # of ledgers that are gone
    wrong -= topic.delays
    if wrong:
        detail = f"expected a delayed entry at {render(Position(wrong.min()))}"
        inventory.add(FindingKind.DELAYED_PLACE, where, detail)
    missing = topic.later - covered
    missing.remove_range(through + 1, 1 << 63)
    for position in missing:
        if _is_due_later(inventory, topic_id, Position(position), topic.stamped_ms):
            detail = f"expected {render(Position(position))}, which is not due yet"
            inventory.add(FindingKind.DELAYED_MISSING, where, detail)
            break


def _is_due_later(
    inventory: Inventory, topic_id: TopicId, position: Position, stamped_ms: int
) -> bool:
    """Whether the entry comes due later than any publish time. If not, the clock may have been
    there once, and the entry may have left the index before the clock was set back."""
    runs = inventory.snapshot.read_positions(topic_id, [position], 1)
    return bool(runs) and read_header(runs[0][1][0]).deliver_at_ms > stamped_ms
