"""Judging property lists: each is judged as if it were the first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.fields import properties

from arneb_amqp.errors import ConnectionException, ReplyCode
from arneb_amqp.wire.constants import DIRECT_REPLY_TO
from arneb_amqp.wire.properties import (
    EXPIRATION_MS_MAX,
    Properties,
    PropertyFlag,
    decode_properties,
    encode_properties,
)
from arneb_amqp.wire.property_judge import (
    PERSISTENT,
    SINGLE,
    SKELETONS_MAX,
    PropertyJudge,
    expiration_in,
    priority_in,
)
from arneb_amqp.wire.tables import longstr, signedint


@st.composite
def variants(draw: st.DrawFn) -> list[bytes]:
    """Property lists that resemble one another, some of them damaged."""
    wanted = draw(properties)
    if draw(st.booleans()):
        wanted = replace(wanted, reply_to=DIRECT_REPLY_TO)
    raw = encode_properties(wanted)
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
def test_judging_and_decoding_refuse_the_same_lists(lists: list[bytes]) -> None:
    for raw in lists:
        judged = outcome(PropertyJudge(), raw)
        try:
            decode_properties(raw)
        except ConnectionException as problem:
            assert judged is problem.reply_code is ReplyCode.SYNTAX_ERROR
        else:
            assert not isinstance(judged, ReplyCode)


def test_a_direct_reply_to_is_recognised_after_a_name_that_is_as_long() -> None:
    judge = PropertyJudge()
    for _ in range(2):
        for name, judgement in (("b" + DIRECT_REPLY_TO[1:], 0), (DIRECT_REPLY_TO, SINGLE)):
            assert judge.judge(encode_properties(Properties(reply_to=name))) == judgement


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
        (Properties(user_id="guest"), SINGLE),
        (Properties(expiration="10", user_id="guest", priority=1), SINGLE),
        (Properties(priority=0), 0),
        (Properties(reply_to="q"), 0),
        (Properties(reply_to=DIRECT_REPLY_TO), SINGLE),
        (Properties(reply_to=DIRECT_REPLY_TO + ".a"), 0),
        (Properties(reply_to="b" + DIRECT_REPLY_TO[1:], priority=0, delivery_mode=2), PERSISTENT),
        (Properties(correlation_id="CC", message_id="m", timestamp=1, type="t", app_id="a"), 0),
        (Properties(cluster_id="c"), 0),
    ],
)
def test_judgements(wanted: Properties, judgement: int) -> None:
    assert PropertyJudge().judge(encode_properties(wanted)) == judgement


@given(
    st.integers(0, 255),
    st.none() | st.integers(0, EXPIRATION_MS_MAX) | st.sampled_from([0, EXPIRATION_MS_MAX]),
    st.sampled_from(["", "0", "000"]),
    st.booleans(),
)
def test_priority_and_expiration_are_part_of_a_judgement(
    priority: int, expiration: int | None, zeros: str, is_persistent: bool
) -> None:
    """Also if the judge has met a list of this length with another expiration, or priority 0."""
    judge = PropertyJudge()
    text = None if expiration is None else f"{zeros}{expiration}"
    for first, each in ((0, None if text is None else "9" * len(text)), (priority, text)):
        properties = Properties(
            message_id="m", priority=first, expiration=each, delivery_mode=1 + is_persistent
        )
        judgement = judge.judge(encode_properties(properties))
    assert judgement & (PERSISTENT | SINGLE) == (PERSISTENT if is_persistent else 0)
    assert priority_in(judgement) == priority
    assert expiration_in(judgement) == expiration


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "+1", " 1", "1 ", "1.5", "1_0", "\u0661", str(EXPIRATION_MS_MAX + 1)]
)
def test_an_expiration_that_is_no_plain_number_is_inspected(text: str) -> None:
    judge = PropertyJudge()
    number = "1" * len(text.encode()) or "1"
    for _ in range(2):  # the second time, a list of this length has been met
        assert not judge.judge(encode_properties(Properties(expiration=number))) & SINGLE
        assert judge.judge(encode_properties(Properties(expiration=text))) & SINGLE


def test_the_caller_chooses_the_mask() -> None:
    judge = PropertyJudge(PropertyFlag.TYPE)
    assert judge.judge(encode_properties(Properties(type="t"))) == SINGLE
    assert not judge.judge(encode_properties(Properties(user_id="guest"))) & SINGLE


def test_the_number_of_lists_a_judge_remembers_is_bounded() -> None:
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
