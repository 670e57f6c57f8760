"""Rows on the wire: what is read back is what was handed in, however the batch was cut."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark_connector.sink.wire import decode_rows, targets_of

from pyspark_arneb.sink import rows as rows_module
from pyspark_arneb.sink.rows import TARGETS_MAX, Body, encode_rows

TARGETS = [{"topic": "persistent://public/default/a"}, {"queue": "q", "vhost": "/"}]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 4_102_444_800_000).map(lambda ms: EPOCH + timedelta(milliseconds=ms))


def optional(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | of


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "value": optional(st.binary(max_size=9)),
            "key": optional(st.binary(max_size=4)),
            "ordering_key": optional(st.binary(max_size=2)),
            "properties": optional(st.dictionaries(TEXTS, TEXTS, max_size=2)),
            "event_time": optional(MOMENTS),
            "deliver_at": optional(MOMENTS),
            "priority": optional(st.integers(0, 255)),
            "target": st.integers(0, 1),
        }
    ),
    max_size=12,
)
TYPES = {
    "value": pa.binary(),
    "key": pa.binary(),
    "ordering_key": pa.binary(),
    "properties": pa.map_(pa.string(), pa.string()),
    "event_time": pa.timestamp("us", "UTC"),
    "deliver_at": pa.timestamp("us", "UTC"),
    "priority": pa.int32(),
    "target": pa.uint32(),
}


def batch_of(rows: list[dict[str, Any]], *names: str) -> pa.RecordBatch:
    def cell(name: str, value: Any) -> Any:
        return list(value.items()) if name == "properties" and value is not None else value

    return pa.record_batch(
        {
            name: pa.array([cell(name, row[name]) for row in rows], TYPES[name])
            for name in names or TYPES
        }
    )


def decode(sent: Body) -> list[dict[str, Any]]:
    found = decode_rows(sent.data)
    assert len(found) == sent.rows
    assert targets_of(sent.data) == TARGETS
    return found


def expected(row: dict[str, Any]) -> dict[str, Any]:
    def ms(moment: datetime | None) -> int:
        return 0 if moment is None else (moment - EPOCH) // timedelta(milliseconds=1)

    plain = {name: row[name] for name in ("value", "key", "ordering_key", "properties", "target")}
    return {
        **plain,
        "event_time_ms": ms(row["event_time"]),
        "deliver_at_ms": ms(row["deliver_at"]),
        "priority": row["priority"] or 0,
    }


ABSENT = {"key": None, "ordering_key": None, "properties": None, "event_time_ms": 0}
ABSENT |= {"deliver_at_ms": 0, "priority": 0}


@given(ROWS, st.integers(0, 5), st.integers(1, 5))
def test_rows_are_read_back_as_they_were(
    rows: list[dict[str, Any]], skipped: int, rows_max: int
) -> None:
    """Nulls and empty texts apart, of a slice too, and however small the bodies must be."""
    batch = batch_of(rows).slice(skipped)
    with patch.object(rows_module, "ROWS_MAX", rows_max):
        bodies = list(encode_rows(batch, TARGETS))
    found = [ABSENT | row for body in bodies for row in decode(body)]
    assert found == [expected(row) for row in rows[skipped:]]
    assert all(len(decode(body)) <= rows_max for body in bodies)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_a_body_is_larger_than_allowed_only_for_a_single_row(sizes: list[int]) -> None:
    batch = pa.record_batch({"value": [bytes(size) for size in sizes]})
    with patch.object(rows_module, "BODY_BYTES_MAX", 200):
        bodies = list(encode_rows(batch, TARGETS))
    assert [len(row["value"]) for body in bodies for row in decode(body)] == sizes
    for body in bodies:
        size = sum(4 + len(row["value"]) for row in decode(body))
        assert size <= 220 or len(decode(body)) == 1


def test_a_body_names_the_targets_of_its_rows_and_no_more_than_a_broker_takes() -> None:
    topics = [{"topic": f"persistent://public/default/t{n}"} for n in range(2 * TARGETS_MAX + 1)]
    numbers = [*range(len(topics)), 7]
    batch = pa.record_batch({"value": [b""] * len(numbers), "target": numbers})
    bodies = list(encode_rows(batch, topics))
    found = [
        targets_of(each.data)[row["target"]] for each in bodies for row in decode_rows(each.data)
    ]
    assert found == [topics[number] for number in numbers]
    assert all(len(targets_of(each.data)) <= TARGETS_MAX for each in bodies)


def test_properties_that_are_longer_as_json_are_in_smaller_bodies() -> None:
    batch = batch_of(
        [{"value": b"v", "properties": {"n": f"{n}-" + "\x01" * 200}} for n in range(100)],
        "value",
        "properties",
    )
    with patch.object(rows_module, "BODY_BYTES_MAX", batch.nbytes):
        bodies = list(encode_rows(batch, TARGETS))
    assert max(len(each.data) for each in bodies) <= batch.nbytes
    assert [row["properties"]["n"][:2] for each in bodies for row in decode_rows(each.data)] == [
        f"{n}-"[:2] for n in range(100)
    ]


def test_equal_properties_are_sent_once() -> None:
    row = {"value": b"v", "properties": {"a": "1"}}
    batch = batch_of([row] * 100, "value", "properties")
    (body,) = encode_rows(batch, TARGETS)
    assert body.data.count(b'"a"') == 1


def test_text_is_sent_as_its_bytes() -> None:
    batch = pa.record_batch({"value": pa.array(["grün", None]), "key": pa.array(["k", ""])})
    (body,) = encode_rows(batch, TARGETS)
    assert decode(body) == [
        {"value": "grün".encode(), "key": b"k"},
        {"value": None, "key": b""},
    ]


@given(st.lists(optional(MOMENTS), min_size=1, max_size=4))
def test_a_time_may_be_given_in_milliseconds(moments: list[datetime | None]) -> None:
    """As the Pulsar connector's ``__eventTime`` may."""
    rows = [{"value": b"", "event_time": moment} for moment in moments]
    in_ms = [
        None if each is None else (each - EPOCH) // timedelta(milliseconds=1) for each in moments
    ]
    (expected,) = encode_rows(batch_of(rows, "value", "event_time"), TARGETS)
    (found,) = encode_rows(
        pa.record_batch({"value": [b""] * len(rows), "event_time": pa.array(in_ms, pa.int64())}),
        TARGETS,
    )
    assert decode(found) == decode(expected)


@pytest.mark.parametrize("ms", [-1, -86_400_000])
def test_an_event_before_1970_is_refused(ms: int) -> None:
    """Neither protocol can say its time, and 0 is none."""
    for before in (EPOCH + timedelta(milliseconds=ms), ms):
        rows = pa.record_batch({"value": [b"", b""], "event_time": [None, before]})
        with pytest.raises(ValueError, match=f"expected an event_time since 1970, got {ms} ms"):
            list(encode_rows(rows, TARGETS))


def test_what_was_due_before_1970_is_due() -> None:
    rows = pa.record_batch({"value": [b""], "deliver_at": [EPOCH - timedelta(days=1)]})
    (body,) = encode_rows(rows, TARGETS)
    assert decode(body) == [{"value": b"", "deliver_at_ms": 0}]


@pytest.mark.parametrize("priority", [-1, 256])
def test_a_priority_that_no_message_can_have_is_named(priority: int) -> None:
    rows = pa.record_batch({"value": [b"", b""], "priority": [3, priority]})
    with pytest.raises(ValueError, match=f"expected a priority of 0 to 255, got {priority}"):
        list(encode_rows(rows, TARGETS))


KAFKAS_HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))


def with_headers(*pairs: tuple[str, bytes | None]) -> pa.RecordBatch:
    headers = [{"key": name, "value": value} for name, value in pairs]
    return pa.record_batch({"value": [b""], "properties": pa.array([headers], KAFKAS_HEADERS)})


def test_kafkas_headers_are_properties() -> None:
    (body,) = encode_rows(with_headers(("a", b"1"), ("b", "ü".encode()), ("c", None)), TARGETS)
    assert decode(body) == [{"value": b"", "properties": {"a": "1", "b": "ü", "c": None}}]


@pytest.mark.parametrize("second", [b"1", b"2"])
def test_a_header_that_comes_twice_is_refused(second: bytes) -> None:
    """Neither protocol has a place for the other one."""
    with pytest.raises(ValueError, match='expected each property once in a row, got "a" twice'):
        list(encode_rows(with_headers(("a", b"1"), ("b", b""), ("a", second)), TARGETS))


@pytest.mark.parametrize("pair", [None, {"key": None, "value": b"1"}])
def test_a_header_without_a_name_is_refused(pair: dict[str, Any] | None) -> None:
    headers = pa.array([[pair]], KAFKAS_HEADERS)
    batch = pa.record_batch({"value": [b""], "properties": headers})
    with pytest.raises(ValueError, match="expected a name of each property in a row, got"):
        list(encode_rows(batch, TARGETS))


def test_a_header_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r'expected UTF-8 in the property "a", got b.\\xff'):
        list(encode_rows(with_headers(("a", b"\xff")), TARGETS))


def test_no_rows_are_no_body() -> None:
    assert list(encode_rows(batch_of([]), TARGETS)) == []
