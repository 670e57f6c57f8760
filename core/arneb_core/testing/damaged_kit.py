"""The kit for damaged stores: what each page is, how to lose pages, and what a store contains.

The rule: pages are found in a sound store; wiped pages hold nothing any more.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from arneb_core.api.entries.position import FIRST_LEDGER, Position, position_at
from arneb_core.store.data_file.meta_pages import check_file
from arneb_core.store.data_file.page_walk import PageWalk
from arneb_core.store.data_file.pages import BIG_DATA, PageDamaged, PageFile, PageKind, kind_of
from arneb_core.store.format.records import (
    CursorRecord,
    SubscriptionRecord,
    TopicRecord,
    unpack_holes,
)
from arneb_core.store.format.schema import (
    CHUNK_BITS,
    TOPIC_PREFIX,
    CursorKind,
    Table,
    cursor_prefix,
    parse_cursor_key,
    parse_subscription_key,
    subscriptions_prefix,
)
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

PAGE_BYTES: Final = 4096
LONG: Final = 3 * PAGE_BYTES
"""A block of this many bytes has pages of its own."""

Log = dict[Position, bytes]


def page_classes(path: Path) -> dict[str, list[int]]:
    """Return the pages of the sound store in ``path``, by kind; of a long value the first."""
    file = path / "data.mdb"
    meta = check_file(file)
    classes: dict[str, list[int]] = {"meta": [0, 1]}
    with PageFile(file, meta.page_bytes) as pages:
        trees = PageWalk(pages, meta.last_page).tables(meta.main)
        for name, tree in {"main": meta.main, **trees}.items():
            walk, long = PageWalk(pages, meta.last_page), set[int]()
            for leaf in walk.leaves(name, tree):
                classes.setdefault(f"leaf of {name}", []).append(leaf.number)
                for row in leaf.rows:
                    if row.flags & BIG_DATA:
                        classes.setdefault(f"overflow of {name}", []).append(row.at)
                        long |= {*range(row.at, row.at + pages.overflow(row.at, row.size).pages)}
            for number in sorted({*walk.used} - long):
                with suppress(PageDamaged):
                    if kind_of(pages.page(number)) == PageKind.BRANCH:
                        classes.setdefault(f"branch of {name}", []).append(number)
        if meta.free.depth:
            classes["root of freelist"] = [meta.free.root]
    return classes


def wipe(path: Path, pages: Iterable[int], filled_with: int = 0) -> None:
    """Overwrite these pages."""
    with (path / "data.mdb").open("r+b") as data:
        for number in pages:
            data.seek(number * PAGE_BYTES)
            data.write(bytes([filled_with]) * PAGE_BYTES)


def logs_by_name(path: Path) -> dict[str, Log]:
    """Return every entry of the store, by topic."""
    found: dict[str, Log] = {}
    with open_snapshot_environment(path) as environment, environment.snapshot() as snapshot:
        for key, value in snapshot.scan(Table.CATALOG, TOPIC_PREFIX):
            log = found[key[len(TOPIC_PREFIX) :].decode()] = {}
            for first, entries in snapshot.iter_blocks(TopicRecord.unpack(value).id):
                log |= {Position(position): each for position, each in enumerate(entries, first)}
    return found


def acknowledged(path: Path) -> dict[str, dict[str, set[Position]]]:
    """Return, by topic and subscription, the positions in existing ledgers that will not be
    delivered again."""
    logs = logs_by_name(path)
    found: dict[str, dict[str, set[Position]]] = {}
    with open_snapshot_environment(path) as environment, environment.snapshot() as snapshot:
        for key, value in snapshot.scan(Table.CATALOG, TOPIC_PREFIX):
            topic_id, name = TopicRecord.unpack(value).id, key[len(TOPIC_PREFIX) :].decode()
            found[name] = {}
            for row, record in snapshot.scan(Table.CATALOG, subscriptions_prefix(topic_id)):
                gone: set[Position] = set()
                prefix = cursor_prefix(topic_id, SubscriptionRecord.unpack(record).id)
                for cursor, content in snapshot.scan(Table.CURSORS, prefix):
                    _, _, kind, low = parse_cursor_key(cursor)
                    if kind is CursorKind.PLACE:
                        mark_delete = CursorRecord.unpack(content).mark_delete
                        assert mark_delete >= position_at(FIRST_LEDGER, -1)
                        gone |= {each for each in logs[name] if each <= mark_delete}
                    elif kind is CursorKind.HOLES:
                        low <<= CHUNK_BITS
                        gone |= {Position(low + each) for each in unpack_holes(content)}
                found[name][parse_subscription_key(row)[1]] = gone
    return found
