"""Values as RabbitMQ's error texts show them (compared with Erlang's own output)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.wire.erlang import (
    render_atom,
    render_binary,
    render_float,
    render_octets,
    render_pair,
    render_string,
    render_value,
)
from arneb_amqp.wire.tables import Decimal, Field, FieldType, FieldValue, longstr, signedint


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (2.5, "2.5"),
        (True, "true"),
        (False, "false"),
        (None, "undefined"),
        (b"wrong", '<<"wrong">>'),
        (b"", "<<>>"),
        (b"\x00\x01", "<<0,1>>"),
        (b'say "hi"\\\n', r'<<"say \"hi\"\\\n">>'),
        (Decimal(2, 1234), "{2,1234}"),
        ((signedint(1), longstr("a")), '[{signedint,1},{longstr,<<"a">>}]'),
        ({"k": Field(FieldType.VOID, None)}, '[{<<"k">>,void,undefined}]'),
    ],
)
def test_values(value: FieldValue, text: str) -> None:
    assert render_value(value) == text


def test_binaries() -> None:
    # Erlang takes octets for Latin-1, and writes them unchanged.
    assert render_binary("café".encode()) == '<<"café">>'
    assert render_binary(b"caf\xe9") == '<<"caf\udce9">>'
    assert render_binary("€".encode()) == "<<226,130,172>>"
    assert render_binary(b"\x7f") == "<<127>>"
    assert render_octets(b"abc") == "<<97,98,99>>"


def test_atoms() -> None:
    assert render_atom("direct") == "direct"
    assert render_atom("x-consistent-hash") == "'x-consistent-hash'"


def test_strings() -> None:
    assert render_string("plain") == '"plain"'
    assert render_string('a"b\\') == r'"a\"b\\"'
    assert render_string("é") == '"é"'
    assert render_string("€1") == "[226,130,172,49]"
    assert render_string("") == '""'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (1000.0, "1.0e3"),
        (123456.0, "123456.0"),
        (12000.0, "1.2e4"),
        (-2.5, "-2.5"),
        (0.0001, "0.0001"),
        (0.00012, "1.2e-4"),
        (9007199254740991.0, "9007199254740991.0"),
        (9007199254740992.0, "9.007199254740992e15"),
        (1.0e22, "1.0e22"),
        (5.0e-324, "5.0e-324"),
        (float("inf"), "inf"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert render_float(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_gives_the_same_float(value: float) -> None:
    assert float(render_float(value)) == value


def test_a_pair_is_broken_when_it_would_be_too_long_for_its_line() -> None:
    assert render_pair("value_too_large", "9" * 18, 41) == "{value_too_large,999999999999999999}"
    assert render_pair("value_too_large", "9" * 18, 43) == (
        "{value_too_large,\n" + 44 * " " + "999999999999999999}"
    )
