"""Property lists: there and back, and judged as if every one were the first."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, header
from tests.amqp_frontend.fields import properties

from arneb_amqp.errors import ConnectionException, ReplyCode
from arneb_amqp.wire.properties import (
    PERSISTENT,
    SINGLE,
    SKELETONS_MAX,
    Properties,
    PropertyFlag,
    PropertyJudge,
    decode_properties,
    encode_properties,
    priority_of,
)
from arneb_amqp.wire.tables import longstr, signedint


@given(properties)
def test_properties_survive_encoding(wanted: Properties) -> None:
    assert priority_of(encode_properties(wanted)) == (wanted.priority or 0)
    assert decode_properties(encode_properties(wanted)) == wanted


@st.composite
def variants(draw: st.DrawFn) -> list[bytes]:
    """Property lists that resemble one another, some of them damaged."""
    raw = encode_properties(draw(properties))
    lists = [raw]
    for _ in range(draw(st.integers(1, 5))):
        other = bytearray(raw)
        for _ in range(draw(st.integers(1, 2))):
            other[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        lists.append(bytes(other))
    return lists


@given(variants())
def test_a_judge_that_remembers_judges_like_a_new_one(lists: list[bytes]) -> None:
    old = PropertyJudge()
    for raw in lists:
        assert outcome(old, raw) == outcome(PropertyJudge(), raw)


def outcome(judge: PropertyJudge, raw: bytes) -> int | ReplyCode:
    try:
        return judge.judge(raw)
    except ConnectionException as problem:
        return problem.reply_code


@given(variants())
def test_judging_and_decoding_refuse_the_same(lists: list[bytes]) -> None:
    for raw in lists:
        judged = outcome(PropertyJudge(), raw)
        try:
            decode_properties(raw)
        except ConnectionException as problem:
            assert judged is problem.reply_code is ReplyCode.SYNTAX_ERROR
        else:
            assert not isinstance(judged, ReplyCode)


@pytest.mark.parametrize(
    ("wanted", "judgement"),
    [
        (Properties(), 0),
        (Properties(delivery_mode=1), 0),
        (Properties(delivery_mode=2), PERSISTENT),
        (Properties(delivery_mode=0), SINGLE),
        (Properties(delivery_mode=3), SINGLE),
        (Properties(content_type="a", content_encoding="b", delivery_mode=2), PERSISTENT),
        (Properties(headers={"a": longstr("b")}, delivery_mode=2), PERSISTENT),
        (Properties(headers={"CC": longstr("b")}, delivery_mode=2), PERSISTENT | SINGLE),
        (Properties(headers={"BCC": signedint(1)}), SINGLE),
        (Properties(headers={"k": longstr("CC"), "CC1": signedint(1)}), 0),
        (Properties(expiration="10"), SINGLE),
        (Properties(user_id="guest"), SINGLE),
        (Properties(priority=1), SINGLE),
        (Properties(reply_to="q"), SINGLE),
        (Properties(correlation_id="CC", message_id="m", timestamp=1, type="t", app_id="a"), 0),
        (Properties(cluster_id="c"), 0),
    ],
)
def test_judgements(wanted: Properties, judgement: int) -> None:
    assert PropertyJudge().judge(encode_properties(wanted)) == judgement


def test_the_mask_is_the_callers_choice() -> None:
    judge = PropertyJudge(PropertyFlag.TYPE)
    assert judge.judge(encode_properties(Properties(type="t"))) == SINGLE
    assert judge.judge(encode_properties(Properties(expiration="10"))) == 0


def test_reads_what_pamqp_writes() -> None:
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
def test_flags_of_no_property_say_nothing(flags: int) -> None:
    assert PropertyJudge().judge(pack(">H", flags)) == 0
    assert decode_properties(pack(">H", 0x8000 | flags) + b"\x01t") == Properties(content_type="t")
    with pytest.raises(ConnectionException):
        PropertyJudge().judge(pack(">HH", flags, 0))


def test_a_judge_remembers_a_bounded_number() -> None:
    judge = PropertyJudge()
    for size in range(255):
        for extra in range(3):
            judge.judge(encode_properties(Properties(app_id="x" * size, type="y" * extra * 100)))
    assert len(judge._skeletons) <= SKELETONS_MAX


def test_a_list_with_very_many_headers_is_not_remembered() -> None:
    judge = PropertyJudge()
    headers = {f"k{at}": signedint(at) for at in range(10_000)}
    assert judge.judge(encode_properties(Properties(headers=headers))) == 0
    assert not judge._skeletons


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
