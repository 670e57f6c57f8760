"""Merging: files of small ledgers become one, so that readers open few.

The rule: only files that stand next to one another in the log's order are merged, and rows keep
their order; so what a reader may skip stays as narrow as it can be. A merge changes no row: the new
file is read back and compared before one commit puts it in the place of the old ones, which stay
for those who still read them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyspark_arneb.lake.data_file import COMPRESSIONS, file_name, read_file, write_data_file
from pyspark_arneb.lake.table import SealedFile, SealedTable

MERGED_BYTES: Final = 128 << 20
"""Files of this size are merged no more: what other engines like to read, and what Delta's own
tools aim at."""

FILES_MIN: Final = 8
"""Neighbours before a merge of fewer bytes is worth the writing. A row is so written again about
once for each power of eight of its ledger's size below :data:`MERGED_BYTES`."""

TIER_RATIO: Final = 8


@dataclass(frozen=True, slots=True)
class Merged:
    """What was done to a table."""

    before: int
    """Files that were merged."""
    after: int


def plan_merges(
    files: Sequence[SealedFile], bytes_max: int = MERGED_BYTES, files_min: int = FILES_MIN
) -> list[list[SealedFile]]:
    """Which neighbours to merge into one file each; ``files`` are in order.

    Neighbours go together as long as the sum is no more than ``bytes_max``. They are worth it
    when they are ``files_min`` or fill a file by half, and none of them makes up most of it: a
    large file is not written again and again for the sake of small ones.
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
    """The part of a group that is worth merging: from the front goes what is much larger than all
    that follows."""
    while len(group) > 1:
        rest = sum(file.bytes for file in group[1:])
        fills = rest + group[0].bytes >= bytes_max // 2
        if fills or (len(group) >= files_min and group[0].bytes <= rest * TIER_RATIO):
            return group
        group = group[1:]
    return []


def merge(table: SealedTable, compression: str = COMPRESSIONS[0]) -> Merged:
    """Merge what is worth it. Raises :class:`.LakeError` and :class:`OSError`; then the table is
    as it was, or some merges further."""
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
    """The rows of all files, with the columns that the table has now."""
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
