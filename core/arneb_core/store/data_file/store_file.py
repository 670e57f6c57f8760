"""The store's file: whether it is a store of ours, of this format, and whole.

The rule: this is checked page by page, before LMDB reads a table, so that damage is one line that
names the place. A start checks every page of every tree; a reader in another process checks the
tables that describe the store, and leaves the log to the checksums of its blocks.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from arneb_core.api.errors import ForeignDirectory, FormatMismatch, StoreDamaged
from arneb_core.store.data_file.meta_pages import Meta, read_metas
from arneb_core.store.data_file.page_walk import FREE_LIST, PageFault, PageWalk
from arneb_core.store.data_file.pages import PageDamaged, PageFile
from arneb_core.store.format.records import unpack_number
from arneb_core.store.format.schema import FORMAT_VERSION, META_FORMAT, Table

EVERY_TABLE: Final = frozenset(Table)
DESCRIBING_TABLES: Final = frozenset({Table.META, Table.CATALOG, Table.LEDGERS, Table.CURSORS})
"""Tables that are small beside the log: with ten thousand topics, some hundred pages."""


def table_name(table: Table) -> str:
    """Return a table's name for people."""
    return f"table {table.name}"


def look_through(
    file: PageFile, meta: Meta, *, claimed: bool, tables: Collection[Table] = EVERY_TABLE
) -> list[PageFault]:
    """Check the format, then every page of ``tables``, and of the free list if these are all
    tables; return the faults.

    ``claimed``: the directory is ours, so a file without our tables is damaged. Raises
    :class:`.ForeignDirectory` and :class:`.FormatMismatch`.
    """
    walk = PageWalk(file, meta.last_page)
    trees = walk.tables(meta.main)
    missing = [table for table in Table if table.value.decode() not in trees]
    if walk.faults:
        return walk.faults
    if Table.META in missing and not claimed:
        raise ForeignDirectory(f"{file.path} is not an Arneb store")
    for table in Table:
        if table not in missing and (table in tables or table is Table.META):
            rows: dict[bytes, bytes] = {}
            for leaf in walk.leaves(table_name(table), trees[table.value.decode()]):
                if table is Table.META:
                    rows |= {row.key: leaf.page[row.at : row.at + row.size] for row in leaf.rows}
            if table is Table.META and not walk.faults:
                _check_format(file.path, rows.get(META_FORMAT), missing)
    for table in missing:
        walk.fault(table_name(table), PageDamaged(meta.main.root, "expected this table, got none"))
    if tables == EVERY_TABLE:
        walk.free_list(meta.free)
    return walk.faults


def look_at_transaction(
    path: Path, transaction: int, *, claimed: bool, tables: Collection[Table]
) -> list[PageFault] | None:
    """Do :func:`look_through` on the pages that an open read transaction of LMDB holds; None when
    its meta page was overwritten by later transactions."""
    with PageFile(path) as file:
        for meta in read_metas(file):
            if isinstance(meta, Meta) and meta.transaction == transaction:
                return look_through(file, meta, claimed=claimed, tables=tables)
    return None


def refuse(path: Path, faults: list[PageFault]) -> None:
    """Raise :class:`.StoreDamaged` if there are faults."""
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        raise StoreDamaged(f"{path} is damaged: {faults[0]}{more}")


def damaged_tables(faults: list[PageFault]) -> set[Table]:
    """Return the unreadable tables: all of them, unless each fault is in one table only."""
    names = {table_name(table): table for table in Table}
    if any(fault.tree not in names and fault.tree != FREE_LIST for fault in faults):
        return set(Table)
    return {names[fault.tree] for fault in faults if fault.tree in names}


def _check_format(path: Path, value: bytes | None, missing: list[Table]) -> None:
    if value is None and missing:
        raise ForeignDirectory(f"{path} is not an Arneb store")
    try:
        found = "no" if value is None else str(unpack_number(value))
    except ValueError as error:
        raise StoreDamaged(f"{path} is damaged: its format: {error}") from error
    if found != str(FORMAT_VERSION):
        raise FormatMismatch(
            f"{path.parent} holds a store of format {found}; "
            f"this version reads format {FORMAT_VERSION} only"
        )
