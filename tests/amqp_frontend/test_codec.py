"""AMQP messages to neutral ones and back without loss, and messages of other protocols as an AMQP
client sees them."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.fields import properties, short_texts, tables

from arneb_amqp.codec import CODEC, DROPPED, encode_message
from arneb_amqp.translation import (
    EXCHANGE,
    HEADER_TYPES,
    LONG_KEY,
    LONG_NAMES,
    ORDERING_KEY,
    OTHER_HEADERS,
    TIMESTAMP_IN_MS,
)
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, is_body, payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import Route, join_route, split_route
from arneb_amqp.wire.tables import Field, FieldType, array, long, longstr, signedint, table
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin, read_header

NOON = 1_700_000_000


def entry(route: Route, wanted: Properties, payload: bytes, **header: int) -> bytes:
    raw = join_route(*route)
    head = EntryHeader(Origin.AMQP, hint=len(raw), **header).pack()  # type: ignore[arg-type]
    return head + raw + compose(ChannelId(3), encode_properties(wanted), payload)


def parts(raw: bytes) -> tuple[Route, Properties, bytes]:
    header = read_header(raw)
    assert header.origin is Origin.AMQP
    start = HEADER_BYTES + header.hint
    assert is_body(raw, start)
    route = split_route(raw[HEADER_BYTES:start])
    return route, decode_properties(properties_of(raw, start)), payload_of(raw, start)


def foreign(message: Message, queue: str = "orders") -> tuple[Route, Properties, bytes]:
    return parts(encode_message(message, queue))


routes = st.builds(Route, short_texts, short_texts)


@given(routes, properties, st.binary(max_size=50))
def test_amqp_to_neutral_and_back_is_equal(
    route: Route, wanted: Properties, payload: bytes
) -> None:
    (message,) = CODEC.decode(entry(route, wanted, payload))
    assert foreign(message) == (route, wanted, payload)


@given(routes, properties)
def test_properties_are_valid_unicode(route: Route, wanted: Properties) -> None:
    """Pulsar's properties are UTF-8, which cannot encode lone surrogates."""
    (message,) = CODEC.decode(entry(route, wanted, b""))
    for name, text in message.properties.items():
        name.encode()
        text.encode()


names = st.one_of(
    st.sampled_from(
        [
            "amqp.priority", "amqp.timestamp", "amqp.delivery_mode", EXCHANGE, HEADER_TYPES,
            OTHER_HEADERS, "amqp.content_type.base64", "k", "long" * 100,
        ]
    ),
    st.text(max_size=10),
)  # fmt: skip
texts = st.one_of(
    st.sampled_from(["", "5", "300", "AAA=", "%%%", "{}", "[1]", '{"k":"signedint"}', "x" * 300]),
    st.text(max_size=10),
)
foreign_messages = st.builds(
    Message,
    value=st.binary(max_size=20),
    key=st.none() | st.binary(max_size=20) | st.just(b"k" * 300),
    ordering_key=st.none() | st.binary(max_size=5),
    properties=st.dictionaries(names, texts, max_size=5),
    publish_time_ms=st.integers(0, 1 << 62),
    event_time_ms=st.integers(0, 1 << 62),
)


@given(foreign_messages)
def test_any_foreign_message_can_be_delivered(message: Message) -> None:
    route, found, payload = foreign(message)
    assert payload == message.value
    if message.key is not None:
        assert route.routing_key.encode("utf-8", "surrogateescape") == message.key[:255]
    elif EXCHANGE not in message.properties:
        assert route == ("", "orders")
    headers = found.headers or {}
    for name, text in message.properties.items():
        if name == "k" and HEADER_TYPES not in message.properties:
            assert headers["k"] == longstr(text)


def test_fields_that_both_protocols_have() -> None:
    wanted = Properties(headers={"colour": longstr("red")}, delivery_mode=2, timestamp=NOON)
    (message,) = CODEC.decode(entry(Route("", "orders"), wanted, b"hi", publish_time_ms=5))
    assert message == Message(
        b"hi",
        key=b"orders",
        properties={"colour": "red"},
        publish_time_ms=5,
        event_time_ms=NOON * 1000,
    )


def test_fields_that_only_amqp_has() -> None:
    wanted = Properties(
        content_type="text/plain",
        delivery_mode=1,
        priority=4,
        correlation_id="c\udcff",
        headers={
            "retries": signedint(3),
            "flag": Field(FieldType.BOOL, True),
            "raw": longstr(b"\xff"),
            "list": array([longstr("a"), long(1)]),
            "map": table({"k": signedint(1)}),
        },
    )
    (message,) = CODEC.decode(entry(Route("ex", ""), wanted, b""))
    assert message.key is None
    types = json.loads(message.properties[HEADER_TYPES])
    assert types == {
        "retries": "signedint",
        "flag": "bool",
        "raw": "longstr/base64",
        "list": "array",
        "map": "table",
    }
    assert {name: text for name, text in message.properties.items() if name != HEADER_TYPES} == {
        "amqp.exchange": "ex",
        "amqp.content_type": "text/plain",
        "amqp.delivery_mode": "1",
        "amqp.priority": "4",
        "amqp.correlation_id.base64": "Y/8=",
        "retries": "3",
        "flag": "true",
        "raw": "/w==",
        "list": '[["longstr","a"],["long",1]]',
        "map": '{"k":["signedint",1]}',
    }


def test_a_pulsar_message_as_an_amqp_consumer_sees_it() -> None:
    message = Message(b"hi", key=b"k", properties={"colour": "red"}, event_time_ms=NOON * 1000)
    route, found, payload = foreign(message)
    assert route == Route("", "k")
    assert payload == b"hi"
    assert found == Properties(delivery_mode=2, timestamp=NOON, headers={"colour": longstr("red")})


def test_a_message_without_properties_has_no_headers() -> None:
    _, found, _ = foreign(Message(b""))
    assert found == Properties(delivery_mode=2)


def test_fields_that_amqp_lacks_become_headers() -> None:
    message = Message(
        b"",
        key=b"k" * 256,
        ordering_key=b"\x00o",
        event_time_ms=1_500,
        properties={"n" * 256: "v"},
    )
    route, found, _ = foreign(message)
    assert route.routing_key == "k" * 255
    assert found.timestamp == 1
    assert found.headers == {
        LONG_KEY: longstr("k" * 256),
        ORDERING_KEY: longstr(b"\x00o"),
        TIMESTAMP_IN_MS: long(1_500),
        LONG_NAMES: array([longstr("n" * 256), longstr("v")]),
    }


def test_a_header_with_a_reserved_name_stays_a_header() -> None:
    wanted = Properties(headers={"amqp.priority": longstr("5")}, delivery_mode=2)
    (message,) = CODEC.decode(entry(Route("", "q"), wanted, b""))
    assert foreign(message)[1] == wanted


def test_a_producer_may_set_fields_that_only_amqp_has() -> None:
    strings = {"amqp.priority": "5", "amqp.type": "t", "amqp.delivery_mode": "high"}
    _, found, _ = foreign(Message(b"", properties=strings))
    assert found == Properties(
        priority=5, type="t", delivery_mode=2, headers={"amqp.delivery_mode": longstr("high")}
    )


def test_a_header_whose_text_was_changed_is_a_string() -> None:
    strings = {"retries": "many", HEADER_TYPES: '{"retries":"signedint"}'}
    _, found, _ = foreign(Message(b"", properties=strings))
    assert found.headers == {"retries": longstr("many")}


@pytest.mark.parametrize(
    "nested",
    [array([Field(FieldType.VOID, None)] * 9_000), array([array([])] * 9_000)],
    ids=["fields", "tables"],
)
def test_very_many_fields_are_passed_on_unread_and_come_back_equal(nested: Field) -> None:
    wanted = Properties(
        content_type="a", content_encoding="b", headers={"n": nested, "o": longstr("p")}, type="c"
    )
    (message,) = CODEC.decode(entry(Route("", "k"), wanted, b""))
    assert message.properties.keys() == {
        "amqp.headers", "amqp.content_type", "amqp.content_encoding", "amqp.type",
        "amqp.delivery_mode",
    }  # fmt: skip
    assert parts(encode_message(message, "q"))[1] == wanted


def test_many_fields_are_still_ordinary_properties() -> None:
    nested = array([Field(FieldType.VOID, None)] * 7_000)
    wanted = Properties(headers={"n": nested, "o": longstr("p" * 5_000)})
    (message,) = CODEC.decode(entry(Route("", "k"), wanted, b""))
    assert message.properties["o"] == "p" * 5_000
    assert message.properties["n"].startswith('[["void",null],')


def test_headers_stop_where_the_frame_is_full() -> None:
    strings = {f"n{at:03}": "x" * 1000 for at in range(200)}
    _, found, _ = foreign(Message(b"", properties=strings))
    assert found.headers is not None
    kept = [name for name in found.headers if name != DROPPED]
    assert 50 < len(kept) < 200
    assert found.headers[DROPPED] == signedint(200 - len(kept))
    assert len(encode_properties(found)) <= 65_536


@given(tables, st.data())
def test_damaged_entries_are_value_errors(headers: dict[str, Field], data: st.DataObject) -> None:
    raw = bytearray(entry(Route("ex", "key"), Properties(headers=headers), b"payload"))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]
    with suppress(ValueError):
        CODEC.decode(bytes(raw))


@pytest.mark.parametrize("cut", [1, 40, 41, 50])
def test_a_truncated_entry_is_a_value_error(cut: int) -> None:
    raw = entry(Route("ex", "key"), Properties(), b"payload")
    with pytest.raises(ValueError, match="expected"):
        CODEC.decode(raw[:-cut])
