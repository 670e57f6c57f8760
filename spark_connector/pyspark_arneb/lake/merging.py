"""Merging: files of small ledgers become one, so that readers open fewer.

The rule: only files that are neighbours in the log's order are merged, and rows keep their order,
so the ranges by which readers skip stay as narrow as possible. A merge changes no row: the new file
is read back and compared before one commit replaces the old files, which are kept for a while for
queries that still read them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyspark_arneb.lake.data_file import COMPRESSIONS, file_name, read_file, write_data_file
from pyspark_arneb.lake.table import SealedFile, SealedTable

MERGED_BYTES: Final = 128 << 20
"""Files of this size in bytes are no longer merged: other engines read it well, and Delta's own
tools aim at it."""

FILES_MIN: Final = 8
"""The least number of neighbours for which a smaller merge is worth the writing. So a row is
rewritten about once for each power of eight between its ledger's size and :data:`MERGED_BYTES`."""

TIER_RATIO: Final = 8


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did to a table."""

    before: int
    """Files that were merged."""
    after: int


def plan_merges(
    files: Sequence[SealedFile], bytes_max: int = MERGED_BYTES, files_min: int = FILES_MIN
) -> list[list[SealedFile]]:
    """Return groups of neighbours, each to be merged into one file; ``files`` are in order.

    Neighbours form a group as long as their sum is at most ``bytes_max``. A group is worth merging
    when it has ``files_min`` files or fills a file by half, and none of them makes up most of it: a
    large file is not rewritten again and again for a few small ones.
    """
    groups: list[list[SealedFile]] = []
    group: list[SealedFile] = []
    for file in files:
        if group and (
            file.partition != group[0].partition
            or sum(each.bytes for each in group) + file.bytes > bytes_max
        ):
            groups.append(group)
            group = []
        if file.bytes < bytes_max // 2:
            group.append(file)
        elif group:
            groups.append(group)
            group = []
    groups.append(group)
    return [worth for group in groups if (worth := _worth(group, bytes_max, files_min))]


def _worth(group: list[SealedFile], bytes_max: int, files_min: int) -> list[SealedFile]:
    """Return the part of a group that is worth merging: files at the front that are much larger
    than the rest are left out."""
    while len(group) > 1:
        rest = sum(file.bytes for file in group[1:])
        fills = rest + group[0].bytes >= bytes_max // 2
        if fills or (len(group) >= files_min and group[0].bytes <= rest * TIER_RATIO):
            return group
        group = group[1:]
    return []


def merge(table: SealedTable, compression: str = COMPRESSIONS[0]) -> Merged:
    """Merge the groups that are worth it. Raises :class:`.LakeError` and :class:`OSError`; some
    merges may be done by then, and the table is valid."""
    before = after = 0
    for group in plan_merges(table.files()):
        name = file_name(group[0].partition, group[0].first)
        new = write_data_file(table.target, name, table.schema, _rows(table, group), compression)
        assert new is not None, "files in the table have rows"
        if table.replace(group, [new], changes_data=False):
            before += len(group)
            after += 1
        else:
            table.target.file_system().delete_file(name)
    return Merged(before, after)


def _rows(table: SealedTable, group: Sequence[SealedFile]) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of all files, with the table's current columns."""
    schema = table.schema
    for file in group:
        for batch in read_file(table.target, file.path):
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in batch.schema.names
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
