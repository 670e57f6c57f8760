"""Whether directories of one shard are equal: everything that a reader can see of them.

The rule: rows of every table are compared, but those that say how far a directory is itself. What a
directory is trimming it may still have, and each trims at its own pace.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from arneb_core.store.changes import Trim
from arneb_core.store.environment import Store
from arneb_core.store.records import unpack_trims
from arneb_core.store.schema import META_TRIMS, Table

TRIMMED: Final = (Table.ENTRIES, Table.BODIES, Table.REFERENCES, Table.GAPS)
SHOWN_MAX: Final = 5

Rows = dict[tuple[Table, bytes], bytes]


def differences(paths: Mapping[str, Path]) -> list[str]:
    """How each directory differs from the first, whose processes do not run."""
    found = {name: _walk(path) for name, path in paths.items()}
    (first, (rows, trims)), *others = found.items()
    said = []
    for name, (its_rows, its_trims) in others:
        pending = [*trims, *its_trims]
        wrong = [
            f"{table.name} {key.hex()}"
            for table, key in sorted(rows.keys() | its_rows.keys(), key=lambda each: each[1])
            if rows.get((table, key)) != its_rows.get((table, key))
            and not _is_going(table, key, pending)
        ]
        if wrong:
            shown = ", ".join(wrong[:SHOWN_MAX])
            said.append(f"{name} is not equal to {first}: {len(wrong)} rows differ: {shown}")
    return said


def _walk(path: Path) -> tuple[Rows, Sequence[Trim]]:
    with Store.open(path, follows=True) as store, store.snapshot() as snapshot:
        rows = {
            (table, key): value
            for table in Table
            if table is not Table.META
            for key, value in snapshot.scan(table)
        }
        return rows, unpack_trims(snapshot.get(Table.META, META_TRIMS) or b"")


def _is_going(table: Table, key: bytes, trims: Sequence[Trim]) -> bool:
    if table not in TRIMMED:
        return False
    topic, last = int.from_bytes(key[:4]), int.from_bytes(key[4:12])
    return any(topic == its_topic and last <= end for its_topic, _, end in trims)


def counted(path: Path) -> Iterator[str]:
    """How many rows each table has."""
    rows, _ = _walk(path)
    for table in Table:
        if number := sum(1 for each, _ in rows if each is table):
            yield f"{number} {table.name.lower()}"
