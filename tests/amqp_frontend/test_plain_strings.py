"""Plain strings: one pass over a property list gives the same as decoding it, or nothing."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.fields import RANGES, properties, short_texts

from arneb_amqp import codec
from arneb_amqp.codec import CODEC
from arneb_amqp.errors import AmqpError
from arneb_amqp.plain_strings import TIMESTAMP_MAX, TYPES_MAX
from arneb_amqp.translation import (
    HEADER_FIELDS_MAX,
    NULL_VALUE,
    event_time_ms,
    plain_strings,
    to_strings,
)
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import Route, join_route
from arneb_amqp.wire.tables import Field, FieldType, array, boolean, longstr, signedint, table
from arneb_core.api.entries.entry import EntryHeader, Origin

routes = st.builds(Route, short_texts, short_texts)
ORDERS = Route("", "orders")


def decoded(route: Route, raw: bytes) -> tuple[list[tuple[str, str]], int] | None:
    """The slow way: decode everything, then make strings. None means that the list is malformed."""
    try:
        found = decode_properties(raw)
    except AmqpError:
        return None
    return list(to_strings(route, found).items()), event_time_ms(found.timestamp)


def walked(route: Route, raw: bytes) -> tuple[list[tuple[str, str]], int] | None:
    found = plain_strings(join_route(*route), raw)
    return None if found is None else (list(found[0].items()), found[1])


@given(routes, properties)
def test_the_result_is_the_same_in_the_same_order_or_nothing(
    route: Route, wanted: Properties
) -> None:
    raw = encode_properties(wanted)
    assert walked(route, raw) in (None, decoded(route, raw))


@given(routes, properties, st.data())
def test_a_damaged_list_is_never_read_as_another(
    route: Route, wanted: Properties, data: st.DataObject
) -> None:
    raw = bytearray(encode_properties(wanted))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for damaged in (
        bytes(raw),
        bytes(raw[: data.draw(st.integers(2, len(raw)))]),
        bytes(raw) + b"x",
    ):
        assert walked(route, damaged) in (None, decoded(route, damaged))


def test_a_truncated_list_is_never_read() -> None:
    wanted = Properties(headers={"a": longstr("bc"), "n": signedint(5)}, message_id="text")
    raw = encode_properties(wanted)
    assert walked(ORDERS, raw) == decoded(ORDERS, raw)
    for size in range(2, len(raw)):
        assert walked(ORDERS, raw[:size]) is None


plain_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain_fields = st.one_of(
    plain_texts.map(longstr),
    st.booleans().map(boolean),
    *(
        st.integers(*limits).map(lambda value, kind=kind: Field(kind, value))  # type: ignore[misc]
        for kind, limits in RANGES.items()
    ),
    st.floats(allow_nan=False).map(lambda value: Field(FieldType.DOUBLE, value)),
)
plain_lists = st.builds(
    Properties,
    content_type=st.none() | plain_texts,
    headers=st.none() | st.dictionaries(plain_texts, plain_fields, min_size=1, max_size=4),
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    message_id=st.none() | plain_texts,
    timestamp=st.none() | st.integers(1, TIMESTAMP_MAX),
    cluster_id=st.none() | plain_texts,
)


@given(plain_texts, plain_lists)
def test_what_applications_send_is_read(exchange: str, wanted: Properties) -> None:
    if any(name.startswith("amqp.") for name in wanted.headers or ()):
        return
    raw = encode_properties(wanted)
    assert walked(Route(exchange, "key"), raw) == decoded(Route(exchange, "key"), raw)


@pytest.mark.parametrize(
    "wanted",
    [
        Properties(headers={}),
        Properties(headers={"amqp.exchange": longstr("mine")}),
        Properties(headers={"nested": table({"a": longstr("b")})}),
        Properties(headers={"listed": array([longstr("b")])}),
        Properties(headers={"octets": longstr(b"\xff")}),
        Properties(headers={str(number): signedint(number) for number in range(TYPES_MAX + 1)}),
        Properties(headers={str(number): longstr("") for number in range(HEADER_FIELDS_MAX)}),
        Properties(message_id="\udcff"),
        Properties(timestamp=0),
        Properties(timestamp=TIMESTAMP_MAX + 1),
    ],
)
def test_unusual_lists_are_left_to_the_decoder(wanted: Properties) -> None:
    raw = encode_properties(wanted)
    assert walked(ORDERS, raw) is None
    assert decoded(ORDERS, raw) is not None


def test_a_header_that_occurs_twice_is_left_to_the_decoder() -> None:
    """The first one counts, and the decoder is what knows that."""
    once = encode_properties(Properties(headers={"a": longstr("1")}))
    size = len(once) - 6
    twice = once[:2] + (2 * size).to_bytes(4, "big") + 2 * once[6:]
    assert walked(ORDERS, twice) is None
    assert decoded(ORDERS, twice) == ([("a", "1"), ("amqp.delivery_mode", "")], 0)


def test_an_exchange_that_is_not_text_is_left_to_the_decoder() -> None:
    raw = encode_properties(Properties())
    assert plain_strings(join_route("\udcff", "key"), raw) is None


@given(routes, properties, st.binary(max_size=5))
def test_the_codec_gives_the_same_message_both_ways(
    route: Route, wanted: Properties, payload: bytes
) -> None:
    listed = join_route(*route)
    head = EntryHeader(Origin.AMQP, publish_time_ms=7, hint=len(listed)).pack()
    entry = head + listed + compose(ChannelId(3), encode_properties(wanted), payload)
    with patch.object(codec, "plain_strings", lambda *_: None):
        expected = CODEC.decode(entry)
    assert CODEC.decode(entry) == expected


def test_a_void_field_becomes_null() -> None:
    head = EntryHeader(Origin.AMQP, hint=len(join_route(*ORDERS))).pack() + join_route(*ORDERS)
    wanted = Properties(headers={NULL_VALUE: boolean(True)})
    (message,) = CODEC.decode(head + compose(ChannelId(1), encode_properties(wanted), b""))
    assert message.is_null
    assert NULL_VALUE not in message.properties


def test_an_ordinary_list_is_not_decoded() -> None:
    """All of it in one pass, whatever its headers are called."""
    head = EntryHeader(Origin.AMQP, hint=len(join_route(*ORDERS))).pack() + join_route(*ORDERS)
    wanted = Properties(headers={"a": longstr("b"), "n": signedint(5)}, delivery_mode=2)
    entry = head + compose(ChannelId(1), encode_properties(wanted), b"x")
    with patch.object(codec, "decode_properties", side_effect=AssertionError):
        (message,) = CODEC.decode(entry)
    assert message.properties == {"a": "b", "n": "5", "amqp.header_types": '{"n":"signedint"}'}
