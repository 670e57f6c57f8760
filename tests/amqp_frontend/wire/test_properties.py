"""Property lists, encoded and decoded."""

from struct import pack

import pytest
from hypothesis import given
from pamqp import commands, header
from tests.amqp_frontend.fields import properties

from arneb_amqp.errors import ConnectionException, ReplyCode
from arneb_amqp.wire.properties import (
    Properties,
    decode_properties,
    encode_properties,
    priority_of,
)
from arneb_amqp.wire.property_judge import PropertyJudge
from arneb_amqp.wire.tables import longstr


@given(properties)
def test_properties_survive_encoding(wanted: Properties) -> None:
    assert priority_of(encode_properties(wanted)) == (wanted.priority or 0)
    assert decode_properties(encode_properties(wanted)) == wanted


def test_it_reads_what_pamqp_writes() -> None:
    written = commands.Basic.Properties(
        content_type="text/plain",
        headers={"k": "v"},
        delivery_mode=2,
        priority=5,
        correlation_id="c",
        message_id="m",
        app_id="a",
    )
    raw = header.ContentHeader(0, 0, written).marshal()[12:]
    assert decode_properties(raw) == Properties(
        content_type="text/plain",
        headers={"k": longstr("v")},
        delivery_mode=2,
        priority=5,
        correlation_id="c",
        message_id="m",
        app_id="a",
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80",
        b"\x80\x00",
        b"\x80\x00\x02a",
        b"\x80\x00\x01ab",
        b"\x00\x00x",
        b"\x00\x40\x00",
        b"\x10\x00",
        b"\x20\x00\x00\x00",
        pack(">HI", 0x2000, 5) + b"\x01kb",
        pack(">HI", 0x2000, 2) + b"\x01k",
        pack(">HI", 0x2000, 1 << 31),
    ],
)
def test_a_malformed_list_is_a_syntax_error(raw: bytes) -> None:
    for read in (PropertyJudge().judge, decode_properties):
        with pytest.raises(ConnectionException) as caught:
            read(raw)
        assert caught.value.reply_code is ReplyCode.SYNTAX_ERROR


@pytest.mark.parametrize("flags", [0x0001, 0x0002, 0x0003])
def test_flags_without_a_property_are_ignored(flags: int) -> None:
    assert PropertyJudge().judge(pack(">H", flags)) == 0
    assert decode_properties(pack(">H", 0x8000 | flags) + b"\x01t") == Properties(content_type="t")
    with pytest.raises(ConnectionException):
        PropertyJudge().judge(pack(">HH", flags, 0))


@pytest.mark.parametrize(
    "wanted",
    [
        Properties(content_type="x" * 256),
        Properties(priority=256),
        Properties(timestamp=-1),
        Properties(timestamp=1 << 64),
    ],
)
def test_a_value_that_does_not_fit_is_refused(wanted: Properties) -> None:
    with pytest.raises(ValueError, match="expected"):
        encode_properties(wanted)
