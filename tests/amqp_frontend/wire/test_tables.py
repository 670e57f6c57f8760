"""Field tables: every type is encoded and decoded, and nothing malformed gets through."""

import datetime as dt
import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import encode as pamqp_encode
from tests.amqp_frontend.fields import tables

from arneb_amqp.errors import ConnectionException, ReplyCode
from arneb_amqp.wire.constants import TABLE_DEPTH_MAX
from arneb_amqp.wire.tables import (
    Decimal,
    Field,
    FieldType,
    check_table,
    decode_table,
    encode_table,
    longstr,
    lookup_bool,
    lookup_table,
    lookup_text,
    signedint,
    table,
)


def row(name: bytes, rest: bytes) -> bytes:
    return bytes((len(name),)) + name + rest


@given(tables)
def test_a_table_survives_encoding(fields: dict[str, Field]) -> None:
    raw = encode_table(fields)
    assert decode_table(raw) == fields
    check_table(raw, 0, len(raw), [])


@given(tables, st.data())
def test_decoding_and_checking_refuse_the_same(
    fields: dict[str, Field], data: st.DataObject
) -> None:
    raw = bytearray(encode_table(fields))
    for _ in range(data.draw(st.integers(0, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(raw)))
    outcomes = set()
    for read in (decode_table, partial(check_table, free=[])):
        try:
            read(bytes(raw), 0, end)
        except ConnectionException as problem:
            outcomes.add(problem.reply_code)
        else:
            outcomes.add(None)
    assert len(outcomes) == 1
    assert outcomes <= {None, ReplyCode.SYNTAX_ERROR}


@given(tables, st.data())
def test_free_octets_may_have_any_value(fields: dict[str, Field], data: st.DataObject) -> None:
    """Names, types and structure stay the same whatever these octets are."""
    raw = bytearray(encode_table(fields))
    free: list[int] = []
    check_table(bytes(raw), 0, len(raw), free)
    assert free == sorted(free)
    for start, end in zip(free[::2], free[1::2], strict=True):
        raw[start:end] = data.draw(st.binary(min_size=end - start, max_size=end - start))
    assert shape(decode_table(bytes(raw))) == shape(fields)


def shape(value: object) -> object:
    match value:
        case Field(kind, inner):
            return kind, shape(inner)
        case dict():
            return {name: shape(field) for name, field in value.items()}
        case tuple() if not isinstance(value, Decimal):
            return list(map(shape, value))
        case bytes():
            return len(value)
        case _:
            return None


@given(tables, st.binary(min_size=1, max_size=5))
def test_a_table_is_not_read_beyond_its_end(fields: dict[str, Field], around: bytes) -> None:
    raw = encode_table(fields)
    start = len(around)
    assert decode_table(around + raw + around, start, start + len(raw)) == fields


@pytest.mark.parametrize("kind", FieldType)
def test_every_type_has_its_letter_and_erlang_name(kind: FieldType) -> None:
    assert len(kind.value) == 1
    assert kind.erlang_name == kind.name.lower()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"S\x00\x00\x00\x02hi", Field(FieldType.LONGSTR, b"hi")),
        (b"I\xff\xff\xff\xff", Field(FieldType.SIGNEDINT, -1)),
        (b"i\xff\xff\xff\xff", Field(FieldType.UNSIGNEDINT, (1 << 32) - 1)),
        (b"b\xff", Field(FieldType.BYTE, -1)),
        (b"B\xff", Field(FieldType.UNSIGNEDBYTE, 255)),
        (b"s\xff\xfe", Field(FieldType.SHORT, -2)),
        (b"u\xff\xfe", Field(FieldType.UNSIGNEDSHORT, 65534)),
        (b"l\xff\xff\xff\xff\xff\xff\xff\xff", Field(FieldType.LONG, -1)),
        (b"L\xff\xff\xff\xff\xff\xff\xff\xff", Field(FieldType.LONG, -1)),
        (b"T\xff\xff\xff\xff\xff\xff\xff\xff", Field(FieldType.TIMESTAMP, (1 << 64) - 1)),
        (b"D\x02\x00\x00\x04\xd2", Field(FieldType.DECIMAL, Decimal(2, 1234))),
        (b"t\x07", Field(FieldType.BOOL, True)),
        (b"f\x3f\x80\x00\x00", Field(FieldType.FLOAT, 1.0)),
        (b"d\x3f\xf0\x00\x00\x00\x00\x00\x00", Field(FieldType.DOUBLE, 1.0)),
        (b"x\x00\x00\x00\x01\xff", Field(FieldType.BINARY, b"\xff")),
        (b"V", Field(FieldType.VOID, None)),
        (b"A\x00\x00\x00\x02b\x01", Field(FieldType.ARRAY, (Field(FieldType.BYTE, 1),))),
        (b"F\x00\x00\x00\x03\x01kV", Field(FieldType.TABLE, {"k": Field(FieldType.VOID, None)})),
    ],
)
def test_letters_mean_what_rabbitmq_means(raw: bytes, field: Field) -> None:
    """The letters of RabbitMQ's ``rabbit_binary_parser``, not those of the AMQP grammar."""
    assert decode_table(row(b"n", raw)) == {"n": field}


def test_it_reads_what_pamqp_writes() -> None:
    raw = pamqp_encode.field_table(
        {
            "text": "hi",
            "number": 5,
            "big": 1 << 40,
            "truth": True,
            "list": ["a", 1],
            "nested": {"k": 2.5},
            "nothing": None,
            "bytes": bytearray(b"\x00\xff"),
            "time": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        }
    )
    fields = decode_table(raw, 4)
    assert fields["text"] == longstr("hi")
    assert fields["number"].value == 5
    assert fields["big"] == Field(FieldType.LONG, 1 << 40)
    assert fields["truth"] == Field(FieldType.BOOL, True)
    assert [each.value for each in fields["list"].value] == [b"a", 1]  # type: ignore[union-attr]
    assert lookup_table(fields, "nested")["k"].value == 2.5
    assert fields["nothing"] == Field(FieldType.VOID, None)
    assert fields["bytes"] == Field(FieldType.BINARY, b"\x00\xff")
    assert fields["time"] == Field(FieldType.TIMESTAMP, 1767225600)


def test_of_two_fields_with_one_name_the_first_counts() -> None:
    assert decode_table(row(b"k", b"b\x01") + row(b"k", b"b\x02")) == {
        "k": Field(FieldType.BYTE, 1)
    }


@pytest.mark.parametrize(
    "raw",
    [
        b"\x01",
        b"\x01k",
        b"\x05k",
        row(b"k", b"?"),
        row(b"k", b"\x00"),
        row(b"k", b"I\x00"),
        row(b"k", b"S\x00\x00"),
        row(b"k", b"S\x00\x00\x00\x05hi"),
        row(b"k", b"S\xff\xff\xff\xffhi"),
        row(b"k", b"A\x00\x00\x00\x02b"),
        row(b"k", b"F\x00\x00\x00\x02\x05k"),
        row(b"k", b"D\x00"),
        row(b"k", b"t"),
    ],
)
def test_a_malformed_table_is_a_syntax_error(raw: bytes) -> None:
    with pytest.raises(ConnectionException) as caught:
        decode_table(raw)
    assert caught.value.reply_code is ReplyCode.SYNTAX_ERROR
    with pytest.raises(ConnectionException):
        check_table(raw, 0, len(raw), [])


def nested(depth: int) -> bytes:
    raw = b""
    for _ in range(depth):
        raw = b"A" + struct.pack(">I", len(raw)) + raw
    return row(b"k", raw)


def test_depth_is_bounded() -> None:
    decode_table(nested(TABLE_DEPTH_MAX))
    for deep in (TABLE_DEPTH_MAX + 1, 20_000):
        for read in (decode_table, lambda raw: check_table(raw, 0, len(raw), [])):
            with pytest.raises(ConnectionException, match="inside one another"):
                read(nested(deep))


@pytest.mark.parametrize(
    "fields",
    [
        {"k" * 256: signedint(1)},
        {"k": signedint(1 << 31)},
        {"k": Field(FieldType.FLOAT, 1e300)},
        {"k": Field(FieldType.BYTE, b"no number")},
        {"k": Field(FieldType.LONGSTR, 5)},
        {"k": Field(FieldType.LONGSTR, None)},
        {"k": Field(FieldType.BOOL, 1)},
        {"k": Field(FieldType.DECIMAL, Decimal(300, 1))},
    ],
)
def test_a_value_that_does_not_fit_is_refused(fields: dict[str, Field]) -> None:
    with pytest.raises(ValueError, match="expected"):
        encode_table(fields)


def test_lookups_ignore_other_types() -> None:
    fields = {
        "s": longstr("v"),
        "i": signedint(1),
        "b": Field(FieldType.BOOL, True),
        "t": table({}),
    }
    assert lookup_text(fields, "s") == "v"
    assert lookup_text(fields, "i") is None
    assert lookup_text(fields, "absent") is None
    assert lookup_bool(fields, "b")
    assert not lookup_bool(fields, "i")
    assert lookup_table(fields, "t") == {}
    assert lookup_table(fields, "s") == {}
    assert signedint(1).is_integer
    assert not longstr("1").is_integer
