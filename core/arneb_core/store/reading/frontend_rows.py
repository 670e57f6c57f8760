"""The rows that frontends keep in a store, read from a snapshot of it.

The rule: it is read as an engine would read it, and not interpreted.
"""

from collections.abc import Iterator

from pyroaring import BitMap

from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.store.format.records import (
    CursorRecord,
    SubscriptionRecord,
    TopicRecord,
    unpack_holes,
)
from arneb_core.store.format.schema import (
    CHUNK_BITS,
    CHUNK_MASK,
    FRONTEND_PREFIX,
    CursorKind,
    Table,
    cursor_prefix,
    frontend_key,
    parse_cursor_key,
    subscription_key,
    topic_key,
)
from arneb_core.store.reading.snapshot import Snapshot


def metadata_rows(snapshot: Snapshot, prefix: str = "") -> dict[str, bytes]:
    """Return the metadata whose keys begin with ``prefix``, by key."""
    cut = len(FRONTEND_PREFIX)
    found = snapshot.scan(Table.CATALOG, frontend_key(prefix))
    return {key[cut:].decode(): value for key, value in found}


def unacknowledged(
    snapshot: Snapshot, topic: str, subscription: str
) -> Iterator[tuple[Position, bytes]]:
    """Yield the entries of a topic that a subscription has not acknowledged, in order; all of them
    if there is no such subscription, none if there is no such topic."""
    kept = snapshot.get(Table.CATALOG, topic_key(topic))
    if kept is None:
        return
    topic_id = TopicRecord.unpack(kept).id
    through, holes = BEFORE_ALL, dict[int, BitMap]()
    record = snapshot.get(Table.CATALOG, subscription_key(topic_id, subscription))
    if record is not None:
        prefix = cursor_prefix(topic_id, SubscriptionRecord.unpack(record).id)
        for key, value in snapshot.scan(Table.CURSORS, prefix):
            _, _, kind, chunk = parse_cursor_key(key)
            if kind is CursorKind.PLACE:
                through = CursorRecord.unpack(value).mark_delete
            elif kind is CursorKind.HOLES:
                holes[chunk] = unpack_holes(value)
    for first, entries in snapshot.iter_blocks(topic_id, Position(through + 1)):
        for position, entry in enumerate(entries, first):
            if position & CHUNK_MASK not in holes.get(position >> CHUNK_BITS, ()):
                yield Position(position), entry
