"""Values as RabbitMQ's error texts show them (compared with Erlang's own output)."""

import pytest

from arneb_amqp.wire.erlang import render_binary, render_octets, render_value
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
    assert render_binary(b"caf\xe9") == '<<"caf\xe9">>'
    assert render_binary(b"\x7f") == "<<127>>"
    assert render_octets(b"abc") == "<<97,98,99>>"
