"""The digest of rows: shows whether a file that is read back holds what was written.

The rule: a digest depends on the rows and their order, not on how they are cut into batches or how
Arrow represents them (a missing validity buffer, bytes below a null). Each leaf of a column has a
running checksum of its own: of which values are null, of lengths, of the values' bytes.
"""

from collections.abc import Iterable

import crc32c
import pyarrow as pa
import pyarrow.compute as pc


class RowDigest:
    """The digest of rows that are added batch by batch."""

    __slots__ = ("_checksums", "rows")

    def __init__(self) -> None:
        self._checksums: dict[tuple[str, ...], int] = {}
        self.rows = 0

    def add(self, batch: "pa.RecordBatch | pa.Table") -> None:
        """Add rows after those added before."""
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
                self._add_array((name,), chunk)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowDigest) and (self.rows, self._checksums) == (
            other.rows,
            other._checksums,
        )

    __hash__ = None  # type: ignore[assignment]

    def differs_in(self, other: "RowDigest") -> list[str]:
        """Return the columns in which two digests differ."""
        leaves = self._checksums.keys() | other._checksums.keys()
        different = {
            leaf[0] for leaf in leaves if self._checksums.get(leaf) != other._checksums.get(leaf)
        }
        return sorted(different)

    def __repr__(self) -> str:
        return f"<RowDigest of {self.rows} rows, {len(self._checksums)} leaves>"

    def _update(self, leaf: tuple[str, ...], data: "bytes | memoryview") -> None:
        self._checksums[leaf] = crc32c.crc32c(data, self._checksums.get(leaf, 0))

    def _add_array(self, path: tuple[str, ...], column: "pa.Array") -> None:
        self._update((*path, "valid"), _validity(column))
        kind = column.type
        if pa.types.is_struct(kind):
            for index, child in enumerate(column.flatten()):
                self._add_array((*path, kind.field(index).name), child)
        elif pa.types.is_list(kind) or pa.types.is_map(kind):
            lists = _as_list(column)
            self._update((*path, "length"), _plain(pc.fill_null(pc.list_value_length(lists), -1)))
            # Without bytes before the first row, after the last, and below nulls.
            self._add_array((*path, "element"), lists.flatten())
        elif pa.types.is_binary(kind) or pa.types.is_string(kind):
            if column.null_count == len(column):
                # The same as below, without making anything: many columns are mostly empty.
                self._update((*path, "length"), bytes(4 * len(column)))
                self._update((*path, "bytes"), b"")
                return
            known = column
            if column.null_count:
                known = pc.fill_null(column, "" if pa.types.is_string(kind) else b"")
            self._update((*path, "length"), _plain(pc.binary_length(known)))
            self._update((*path, "bytes"), _bytes(known))
        else:
            self._update(path, _plain(column))


def digest_of(batches: Iterable["pa.RecordBatch"]) -> RowDigest:
    """Return the digest of all rows of ``batches``."""
    digest = RowDigest()
    for batch in batches:
        digest.add(batch)
    return digest


def _validity(column: "pa.Array") -> "bytes | memoryview":
    if not column.null_count:
        return b"\1" * len(column)
    if column.null_count == len(column):
        return bytes(len(column))
    return _plain(column.is_valid().cast(pa.uint8()))


def _as_list(column: "pa.Array") -> "pa.Array":
    """Return a map as the list of pairs that represents it."""
    kind = column.type
    if not pa.types.is_map(kind):
        return column
    pairs = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return column.cast(pa.list_(pairs))


def _plain(column: "pa.Array") -> memoryview:
    """Return the bytes of a column of numbers; nulls as zeros."""
    if column.null_count == len(column):
        return memoryview(bytes(len(column) * max(1, column.type.bit_width // 8)))
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, pa.int64()).cast(column.type))
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    width = column.type.bit_width // 8
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]


def _bytes(column: "pa.Array") -> memoryview:
    """Return the concatenated bytes of the values."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return memoryview(b"")
    places = memoryview(offsets).cast("i")
    return memoryview(data)[places[column.offset] : places[column.offset + len(column)]]
