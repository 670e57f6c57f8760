"""A salvage scan: every row that can still be found in a damaged data file.

The rule: LMDB's trees are followed as far as they are sound, and what they lead to is *live*. Only
if some are broken, every page that nothing leads to is examined by itself: what is found there is a
*stray*. It may be what is missing, or date from long ago; pages known to be free are not examined.
A row is recognised by its content: blocks and bodies by their checksums, others by the form of key
and value.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from struct import error
from typing import Final, NamedTuple

from arneb_core.store.data_file.meta_pages import Meta, out_of_step, read_metas
from arneb_core.store.data_file.page_walk import FREE_LIST, PageFault, PageWalk, last_transaction_of
from arneb_core.store.data_file.pages import (
    BIG_DATA,
    HEADER,
    HEADER_BYTES,
    NODE,
    NODE_BYTES,
    OVERFLOW,
    PAGE_NUMBER,
    PageDamaged,
    PageFile,
    PageKind,
    Row,
    rows,
)
from arneb_core.store.data_file.store_file import damaged_tables, table_name
from arneb_core.store.format.block import HEADER_BYTES as BLOCK_HEADER_BYTES
from arneb_core.store.format.block import BlockCorrupt, block_bytes, block_span, check_block
from arneb_core.store.format.bodies import unpack_body
from arneb_core.store.format.long_keys import is_long, unwrap
from arneb_core.store.format.records import LEDGER_RECORD
from arneb_core.store.format.schema import (
    BODY_KEY_BYTES,
    CATALOG_PREFIXES,
    LEDGER_KEY,
    META_KEYS,
    BodyKey,
    Table,
    parse_cursor_key,
    parse_entry_key,
)

META_PAGE: Final = "meta page: perhaps the last commit"


class Place(NamedTuple):
    """The place of a value in the file."""

    offset: int
    size: int


@dataclass(slots=True)
class Remains:
    """What is left of a store."""

    file: PageFile
    meta: Meta | None
    live: dict[Table, dict[bytes, Place]] = field(
        default_factory=lambda: {table: {} for table in Table}
    )
    """By key, as stored."""
    strays: dict[Table, dict[bytes, list[Place]]] = field(
        default_factory=lambda: {table: {} for table in Table}
    )
    unowned: list[Place] = field(default_factory=list)
    """Intact blocks without a row: a block does not name its topic."""
    faults: list[PageFault] = field(default_factory=list)
    damaged: set[Table] = field(default_factory=set)
    """Tables that may lack rows."""

    @property
    def knows_free_pages(self) -> bool:
        """Whether strays are only what is missing, and nothing that was freed long ago."""
        return self.meta is not None and all(fault.tree != FREE_LIST for fault in self.faults)

    def is_current(self, place: Place) -> bool:
        """Whether a stray is in a page that is whole and was in use at the end."""
        page = place.offset // self.file.page_bytes
        return self.knows_free_pages and all(fault.page != page for fault in self.faults)

    def read(self, place: Place) -> bytes:
        """Return a value, as far as the file goes."""
        return self.file.read(*place)

    def rows(self, table: Table) -> Iterator[tuple[bytes, bytes]]:
        """Yield the live rows, then strays without a live row; keys are complete."""
        found = self.live[table]
        for key, place in found.items():
            yield _whole(key, self.read(place))
        for key, places in self.strays[table].items():
            if key not in found:
                for place in places:
                    yield _whole(key, self.read(place))


def scan(file: PageFile) -> Remains:
    """Scan the whole file. Raises :class:`.ForeignDirectory` and :class:`.FormatMismatch`."""
    metas = read_metas(file)
    whole = [meta for meta in metas if isinstance(meta, Meta)]
    # Only what is beside a transaction's number confirms it.
    transactions = {
        each.page: max(each.transaction, last_transaction_of(file, each.free)) for each in whole
    }
    meta = max(whole, key=lambda each: transactions[each.page], default=None)
    found = Remains(file, meta)
    for each in metas:
        if isinstance(each, PageDamaged):
            at_byte = each.page * file.page_bytes
            found.faults.append(PageFault(each.page, at_byte, META_PAGE, str(each)))
    for each in whole:
        if (last := transactions[each.page]) != each.transaction:
            what = f"expected transaction {last} at least, got {each.transaction}"
            found.faults.append(PageFault(each.page, each.page * file.page_bytes, META_PAGE, what))
    if len(whole) == len(metas) and (apart := out_of_step(*whole)) is not None:
        found.faults.append(PageFault(0, 0, META_PAGE, apart))
    pages = file.size // file.page_bytes
    last_page = pages - 1 if meta is None else min(meta.last_page, pages - 1)
    walk = PageWalk(file, last_page)
    if meta is not None:
        trees = walk.tables(meta.main)
        for table in Table:
            tree = trees.get(table.value.decode())
            if tree is None:
                found.damaged.add(table)
                continue
            for leaf in walk.leaves(table_name(table), tree):
                # Includes rows whose long value has a wrong header: the value may be whole.
                for row in rows(leaf.number, leaf.page):
                    found.live[table][row.key] = _place(file, leaf.number, row)
        walk.free_list(meta.free)
        found.faults += walk.faults
    found.damaged |= damaged_tables(walk.faults) if meta is not None else set(Table)
    if found.damaged or not found.knows_free_pages:
        _scan_strays(found, walk, last_page)
    return found


def _scan_strays(found: Remains, walk: PageWalk, last_page: int) -> None:
    file = found.file
    damaged = {fault.page for fault in found.faults}
    number = 1
    while number < last_page:
        number += 1
        if number in walk.used and number not in damaged:
            continue
        page = file.read(number * file.page_bytes, file.page_bytes)
        if len(page) < file.page_bytes:
            continue
        bears_number = PAGE_NUMBER.unpack_from(page)[0] == number
        kind = HEADER.unpack_from(page)[2]
        if kind == PageKind.LEAF and (bears_number or number in damaged):
            for row in _any_rows(page):
                _take_stray(found, row.key, _place(file, number, row))
        elif kind == PageKind.OVERFLOW and bears_number and number not in walk.used:
            block = _block_at(file, number)
            if block is not None:
                found.unowned.append(block)
                number += OVERFLOW.unpack_from(page)[3] - 1
    led_to = {place.offset for places in found.strays[Table.ENTRIES].values() for place in places}
    led_to |= {place.offset for place in found.live[Table.ENTRIES].values()}
    found.unowned = [place for place in found.unowned if place.offset not in led_to]


def _take_stray(found: Remains, key: bytes, place: Place) -> None:
    value = found.read(place)
    if len(value) == place.size and (table := table_of(key, value)) is not None:
        found.strays[table].setdefault(key, []).append(place)


def _any_rows(page: bytes) -> Iterator[Row]:
    """Yield whatever looks like a row of a leaf page that may be damaged."""
    end = min(max(HEADER.unpack_from(page)[3], HEADER_BYTES), len(page))
    for at in range(HEADER_BYTES, end - 1, 2):
        pointer = int.from_bytes(page[at : at + 2], "little")
        if not HEADER_BYTES <= pointer <= len(page) - NODE_BYTES:
            continue
        low, high, flags, key_bytes = NODE.unpack_from(page, pointer)
        start, size = pointer + NODE_BYTES + key_bytes, low | high << 16
        if flags not in (0, BIG_DATA) or not key_bytes or start > len(page):
            continue
        key = page[pointer + NODE_BYTES : start]
        if flags & BIG_DATA and start + PAGE_NUMBER.size <= len(page):
            yield Row(key, flags, size, PAGE_NUMBER.unpack_from(page, start)[0])
        elif not flags and start + size <= len(page):
            yield Row(key, flags, size, start)


def _block_at(file: PageFile, number: int) -> Place | None:
    """Return the block in the overflow pages that begin here."""
    offset = number * file.page_bytes + HEADER_BYTES
    with suppress(BlockCorrupt):
        _, count = block_span(file.read(offset, BLOCK_HEADER_BYTES))
        head = file.read(offset, BLOCK_HEADER_BYTES + 4 * count)
        place = Place(offset, block_bytes(head))
        check_block(file.read(*place))
        return place
    return None


def table_of(key: bytes, value: bytes) -> Table | None:
    """Return the table of a row, by its content; None when it is not one of ours."""
    if key in META_KEYS:
        return Table.META
    if key.startswith(CATALOG_PREFIXES):
        return Table.CATALOG
    if len(key) == BODY_KEY_BYTES:
        with suppress(error, BlockCorrupt):
            first, count = block_span(value)
            check_block(value)
            if first + count - 1 == parse_entry_key(key)[1]:
                return Table.ENTRIES
        with suppress(BlockCorrupt):
            unpack_body(BodyKey(key), value)
            return Table.BODIES
        return None
    if len(key) == LEDGER_KEY.size and len(value) == LEDGER_RECORD.size:
        return Table.LEDGERS
    with suppress(ValueError):
        parse_cursor_key(key)
        return Table.CURSORS
    return None


def _place(file: PageFile, number: int, row: Row) -> Place:
    if row.flags & BIG_DATA:
        return Place(row.at * file.page_bytes + HEADER_BYTES, row.size)
    return Place(number * file.page_bytes + row.at, row.size)


def _whole(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    if is_long(key):
        with suppress(ValueError):
            return unwrap(value)
    return key, value
