"""Deliveries: a client reads what was published, whatever the entries and the clients are."""

from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header

from arneb_amqp.errors import ReplyCode
from arneb_amqp.wire.constants import ChannelId, DeliveryTag
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.deliver import DeliverEncoder, encode_get_ok, encode_return
from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_core.api.entries.entry import EntryHeader, Origin

PAYLOADS = [b"", b"x", b"x" * 300, b"y" * 5000, b"\xce" * 4096]


@dataclass(frozen=True)
class Kept:
    """A message as it was published."""

    publisher: int
    exchange: str
    key: str
    properties: bytes
    payload: bytes

    @property
    def entry(self) -> bytes:
        route = join_route(self.exchange, self.key)
        head = EntryHeader(Origin.AMQP, hint=len(route)).pack()
        return head + route + compose(ChannelId(self.publisher), self.properties, self.payload)


LISTS = [
    encode_properties(each)
    for each in (Properties(), Properties(delivery_mode=2), Properties(message_id="m" * 20))
]

kept = st.builds(
    Kept,
    publisher=st.sampled_from([1, 2]),
    exchange=st.sampled_from(["", "ex"]),
    key=st.sampled_from(["orders", "k", ""]),
    properties=st.sampled_from(LISTS),
    payload=st.sampled_from(PAYLOADS),
)


@st.composite
def runs(draw: st.DrawFn) -> list[Kept]:
    """Entries that are all alike except for the payload, or mixed."""
    if draw(st.booleans()):
        return draw(st.lists(kept, max_size=20))
    one = draw(kept)
    payloads = draw(st.lists(st.sampled_from(PAYLOADS[draw(st.integers(0, 2)) :]), max_size=20))
    return [Kept(one.publisher, one.exchange, one.key, one.properties, each) for each in payloads]


@dataclass
class Seen:
    """What a client read from the frames."""

    method: object
    properties: commands.Basic.Properties
    payload: bytes
    frame_bytes: int


def read(raw: bytes, channel: int) -> list[Seen]:
    seen: list[Seen] = []
    missing = 0
    while raw:
        used, number, content = frame.unmarshal(raw)
        assert number == channel
        if isinstance(content, header.ContentHeader):
            missing = content.body_size
            seen[-1].properties = content.properties
        elif isinstance(content, body.ContentBody):
            assert content.value
            seen[-1].payload += content.value
            seen[-1].frame_bytes = max(seen[-1].frame_bytes, used)
            missing -= len(content.value)
        else:
            assert not missing
            seen.append(Seen(content, commands.Basic.Properties(), b"", 0))
        raw = raw[used:]
    assert not missing
    return seen


def properties_seen(raw: bytes) -> commands.Basic.Properties:
    head = header.ContentHeader()
    head.unmarshal(bytes(12) + raw)
    return head.properties


@given(
    runs(),
    st.sampled_from([1, 2]),
    st.sampled_from([0, 4096, 131072]),
    st.integers(1, 1 << 40),
    st.data(),
)
def test_deliveries_are_what_was_published(
    messages: list[Kept], channel: int, frame_bytes_max: int, first: int, data: st.DataObject
) -> None:
    count = len(messages)
    flags = data.draw(st.booleans() | st.lists(st.booleans(), min_size=count, max_size=count))
    encoder = DeliverEncoder(ChannelId(channel), "tag", frame_bytes_max)
    entries = [message.entry for message in messages]
    chunks = encoder.encode_run(DeliveryTag(first), entries, flags)
    seen = read(b"".join(chunks), channel)
    assert len(seen) == count
    expected_flags = [flags] * count if isinstance(flags, bool) else flags
    for at, (one, message) in enumerate(zip(seen, messages, strict=True)):
        deliver = cast("commands.Basic.Deliver", one.method)
        assert type(deliver) is commands.Basic.Deliver
        assert deliver.consumer_tag == "tag"
        assert deliver.delivery_tag == first + at
        assert deliver.redelivered == expected_flags[at]
        assert (deliver.exchange, deliver.routing_key) == (message.exchange, message.key)
        assert one.properties == properties_seen(message.properties)
        assert one.payload == message.payload
        assert one.frame_bytes <= (frame_bytes_max or 1 << 32)


@given(kept, st.sampled_from([1, 2]), st.booleans(), st.sampled_from([0, 4096]))
def test_get_ok(message: Kept, channel: int, redelivered: bool, frame_bytes_max: int) -> None:
    chunks = encode_get_ok(
        ChannelId(channel), DeliveryTag(9), redelivered, message.entry, 41, frame_bytes_max
    )
    (one,) = read(b"".join(chunks), channel)
    get_ok = cast("commands.Basic.GetOk", one.method)
    assert type(get_ok) is commands.Basic.GetOk
    assert (get_ok.delivery_tag, get_ok.redelivered, get_ok.message_count) == (9, redelivered, 41)
    assert (get_ok.exchange, get_ok.routing_key) == (message.exchange, message.key)
    assert one.payload == message.payload


@given(kept, st.sampled_from([1, 2]), st.sampled_from([0, 4096]))
def test_return(message: Kept, channel: int, frame_bytes_max: int) -> None:
    route = join_route(message.exchange, message.key)
    chunks = encode_return(
        ChannelId(channel),
        ReplyCode.NO_ROUTE,
        "NO_ROUTE",
        route,
        message.entry[40 + len(route) :],
        frame_bytes_max,
    )
    (one,) = read(b"".join(chunks), channel)
    returned = cast("commands.Basic.Return", one.method)
    assert type(returned) is commands.Basic.Return
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key) == (message.exchange, message.key)
    assert one.payload == message.payload


@pytest.mark.parametrize("count", [1, 7, 8, 31, 32, 33, 100])
@pytest.mark.parametrize("publisher", [1, 2])
def test_runs_of_any_length(count: int, publisher: int) -> None:
    message = Kept(publisher, "", "orders", LISTS[1], b"x" * 256)
    encoder = DeliverEncoder(ChannelId(1), "tag", 131072)
    raw = b"".join(encoder.encode_run(DeliveryTag(5), [message.entry] * count))
    tags = [cast("commands.Basic.Deliver", one.method).delivery_tag for one in read(raw, 1)]
    assert tags == list(range(5, 5 + count))


@pytest.mark.parametrize("publisher", [1, 2])
def test_one_large_message_in_a_run_is_split(publisher: int) -> None:
    """4.2.3: no frame may be larger than negotiated."""
    small, large = (Kept(publisher, "", "orders", LISTS[1], b"x" * size) for size in (10, 5000))
    entries = [message.entry for message in [small] * 10 + [large]]
    raw = b"".join(DeliverEncoder(ChannelId(1), "tag", 4096).encode_run(DeliveryTag(1), entries))
    seen = read(raw, 1)
    assert [len(one.payload) for one in seen] == [10] * 10 + [5000]
    assert max(one.frame_bytes for one in seen) == 4096


def test_an_ordinary_run_copies_each_entry_once() -> None:
    """The end of the entry itself is the last chunk of its delivery."""
    message = Kept(1, "", "orders", LISTS[1], b"x" * 256)
    chunks = DeliverEncoder(ChannelId(1), "tag", 131072).encode_run(
        DeliveryTag(1), [message.entry] * 10
    )
    assert len(chunks) == 40
    assert chunks[3::4] == [message.entry[40:]] * 10


@pytest.mark.parametrize("strange", [None, 0, 25, 49])
def test_a_run_of_mixed_routes(strange: int | None) -> None:
    """Whatever the lengths of its routes, and also if one message arrived on another channel
    number."""
    messages = [
        Kept(2 if at == strange else 1, "shop", "k" * (at % 7), LISTS[at % 2], b"x" * at)
        for at in range(50)
    ]
    entries = [message.entry for message in messages]
    chunks = DeliverEncoder(ChannelId(1), "tag", 131072).encode_run(DeliveryTag(7), entries)
    seen = read(b"".join(chunks), 1)
    delivers = [cast("commands.Basic.Deliver", one.method) for one in seen]
    assert [one.delivery_tag for one in delivers] == list(range(7, 57))
    assert [one.routing_key for one in delivers] == ["k" * (at % 7) for at in range(50)]
    assert [one.payload for one in seen] == [b"x" * at for at in range(50)]
    if strange is None:
        assert len(chunks) == 200
        assert chunks[3::4] == [entry[40:] for entry in entries]
