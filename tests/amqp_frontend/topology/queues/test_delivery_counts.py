"""Delivery counts: one more header on what is sent, and nothing else changed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.topology.queues.delivery_counts import (
    DELIVERY_COUNT,
    CountingSink,
    counted,
    with_count,
)
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, is_body, payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import long, longstr
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries

ROUTE = join_route("exchange", "key")
HEADERS = st.none() | st.dictionaries(
    st.sampled_from(["k", DELIVERY_COUNT]), st.binary(max_size=5).map(longstr)
)


def entry(payload: bytes, headers: object = None, origin: Origin = Origin.AMQP) -> bytes:
    properties = encode_properties(Properties(headers=headers, content_type="text/plain"))  # type: ignore[arg-type]
    head = EntryHeader(origin, publish_time_ms=1, hint=len(ROUTE)).pack()
    return head + ROUTE + compose(ChannelId(3), properties, payload)


def properties(made: bytes) -> Properties:
    return decode_properties(properties_of(made, HEADER_BYTES + len(ROUTE)))


@given(payload=st.binary(max_size=300), headers=HEADERS, count=st.integers(0, 1 << 40))
def test_only_the_header_is_added(payload: bytes, headers: object, count: int) -> None:
    before = entry(payload, headers)
    after = with_count(before, count)
    start = HEADER_BYTES + len(ROUTE)
    assert is_body(after, start)
    assert (after[:start], payload_of(after, start)) == (before[:start], payload)
    old = properties(before)
    expected = {**(old.headers or {}), DELIVERY_COUNT: long(count)}
    assert properties(after) == replace(old, headers=expected)


def test_messages_of_other_origins_stay() -> None:
    made = entry(b"x", origin=Origin.PULSAR)
    assert with_count(made, 3) is made


def test_a_delivery_has_the_header_once_there_is_something_to_count() -> None:
    places = [Position(1), Position(2)]
    entries = [entry(b"a"), entry(b"b")]
    plain = Deliveries(places, entries)
    run = Deliveries(places, entries, redelivery_counts={places[1]: 2})
    seen: list[Deliveries] = []

    class Box:
        def deliver(self, run: Deliveries) -> None:
            seen.append(run)

        def active_changed(self, active: bool) -> None:
            raise AssertionError(active)

        def closed_by_core(self, reason: str) -> None:
            raise AssertionError(reason)

    CountingSink(Box()).deliver(plain)
    CountingSink(Box()).deliver(run)
    assert seen[0] is plain
    assert seen[1].entries[0] is entries[0]
    assert (properties(seen[1].entries[1]).headers or {})[DELIVERY_COUNT] == long(2)
    assert run.entries is entries and entries[1] == entry(b"b"), "the list is shared"
    always = counted(plain, always=True)
    assert [(properties(each).headers or {})[DELIVERY_COUNT] for each in always.entries] == [
        long(0),
        long(0),
    ]
