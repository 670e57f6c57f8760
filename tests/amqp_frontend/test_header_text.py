"""Typed headers as text: every field is restored, and nothing else is taken for one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.fields import fields

from arneb_amqp.header_text import field_of, text_of
from arneb_amqp.wire.tables import Decimal, Field, FieldType, longstr

TYPE_NAMES = [kind.erlang_name for kind in FieldType] + ["longstr/base64", "nonsense"]


@given(fields)
def test_a_field_survives_as_text(field: Field) -> None:
    text, type_name = text_of(field)
    assert field_of(text, type_name) == field
    text.encode()


def read_or_refused(text: str, type_name: str) -> None:
    """What is read is a field of that type, whose text gives the same field again."""
    try:
        field = field_of(text, type_name)
    except ValueError:
        return
    assert type_name.startswith(field.type.erlang_name)
    assert repr(field_of(*text_of(field))) == repr(field)  # NaN is not equal to itself


texts = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "false", "", "YWI=", "1234e-2", "1e-300", "5e-", "[]", "{}"]),
)


@given(texts, st.sampled_from(TYPE_NAMES))
def test_any_text_is_a_field_or_a_value_error(text: str, type_name: str) -> None:
    read_or_refused(text, type_name)


names = st.sampled_from(TYPE_NAMES)
_wholes = st.integers(-2, 2) | st.integers()
_values = st.one_of(
    st.none(), st.booleans(), _wholes, st.floats(), st.sampled_from(["a", "YWI=", "5e-2"])
)
typed = st.recursive(
    st.tuples(names, _values) | st.tuples(st.just("longstr"), st.text(max_size=3)),
    lambda inner: (
        st.tuples(st.just("array"), st.lists(inner, max_size=3))
        | st.tuples(st.just("table"), st.dictionaries(st.text(max_size=3), inner, max_size=3))
        | st.tuples(names, st.lists(inner, max_size=2))
    ),
    max_leaves=6,
)
"""Pairs of a type name and a value, as lists and tables contain them; not all of them fit."""


@given(
    st.tuples(st.just("array"), st.lists(typed, max_size=3))
    | st.tuples(st.just("table"), st.dictionaries(st.text(max_size=3), typed, max_size=3))
)
def test_any_json_is_a_field_or_a_value_error(pair: tuple[str, object]) -> None:
    type_name, value = pair
    read_or_refused(json.dumps(value), type_name)


@pytest.mark.parametrize(
    ("field", "text", "type_name"),
    [
        (longstr("red"), "red", "longstr"),
        (longstr(b"\xff"), "/w==", "longstr/base64"),
        (Field(FieldType.BINARY, b"ab"), "YWI=", "binary"),
        (Field(FieldType.BOOL, False), "false", "bool"),
        (Field(FieldType.VOID, None), "", "void"),
        (Field(FieldType.SHORT, -5), "-5", "short"),
        (Field(FieldType.DOUBLE, 2.5), "2.5", "double"),
        (Field(FieldType.DECIMAL, Decimal(2, 1234)), "1234e-2", "decimal"),
        (Field(FieldType.TIMESTAMP, 7), "7", "timestamp"),
    ],
)
def test_texts_are_what_a_person_would_write(field: Field, text: str, type_name: str) -> None:
    assert text_of(field) == (text, type_name)


def test_depth_is_bounded() -> None:
    with pytest.raises(ValueError, match="expected"):
        field_of("[" * 100_000 + "]" * 100_000, "array")
