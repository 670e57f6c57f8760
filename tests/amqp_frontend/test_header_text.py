"""Typed headers as text: every field is restored, and nothing else is taken for one."""

import json
from contextlib import suppress

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


@given(st.text(max_size=20), st.sampled_from(TYPE_NAMES))
def test_any_text_is_a_field_or_a_value_error(text: str, type_name: str) -> None:
    try:
        field = field_of(text, type_name)
    except ValueError:
        return
    assert type_name.startswith(field.type.erlang_name)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", *TYPE_NAMES]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("k"), inner),
    max_leaves=6,
)


@given(_json, st.sampled_from(["array", "table"]))
def test_any_json_is_a_field_or_a_value_error(value: object, type_name: str) -> None:
    with suppress(ValueError):
        field_of(json.dumps(value), type_name)


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
