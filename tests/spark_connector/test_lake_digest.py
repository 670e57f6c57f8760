"""The digest of rows: the same for the same rows, whatever batches they come in, else not."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from pyspark_arneb.lake.digest import digest_of

TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "time": (pa.timestamp("us", "UTC"), st.integers(0, 10**15)),
    "truth": (pa.bool_(), st.booleans()),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "text": (pa.string(), st.text(max_size=3)),
    "pairs": (
        pa.map_(pa.string(), pa.string()),
        st.lists(st.tuples(st.text(max_size=2), st.none() | st.text(max_size=2)), max_size=3),
    ),
    "headers": (
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        st.lists(
            st.none()
            | st.fixed_dictionaries({"key": st.text(max_size=2), "value": st.binary(max_size=2)}),
            max_size=3,
        ),
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()}),
    min_size=1,
    max_size=30,
)


def as_table(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows, SCHEMA)


@given(ROWS, st.lists(st.integers(0, 30), max_size=4))
def test_rows_have_one_digest_however_they_are_cut(
    rows: list[dict[str, Any]], cuts: list[int]
) -> None:
    table = as_table(rows)
    ends = [*sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    pieces = [table.slice(start, end - start) for start, end in zip([0, *ends], ends, strict=False)]
    whole = digest_of(table.to_batches())
    assert digest_of(batch for piece in pieces for batch in piece.to_batches()) == whole
    assert whole.rows == len(rows)


@given(ROWS)
def test_a_parquet_file_has_the_digest_of_what_was_written(rows: list[dict[str, Any]]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(as_table(rows), sink, row_group_size=7)
    read_back = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert digest_of(read_back.iter_batches(5)) == digest_of(as_table(rows).to_batches())


@given(ROWS, st.data())
def test_another_value_in_one_column_is_another_digest(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    column = data.draw(st.sampled_from(sorted(TYPES)))
    row = data.draw(st.sampled_from(range(len(rows))))
    other = data.draw(st.none() | TYPES[column][1])
    changed = [dict(each) for each in rows]
    changed[row][column] = other
    before, after = as_table(rows), as_table(changed)
    differ = digest_of(before.to_batches()).differs_in(digest_of(after.to_batches()))
    assert differ == ([] if before.equals(after) else [column])
