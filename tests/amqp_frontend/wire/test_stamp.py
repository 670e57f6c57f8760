"""Stamping: a stamped entry equals one whose header was decoded and encoded."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, is_body, payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.stamp import LISTS_MAX, STREAM_OFFSET, OffsetStamp
from arneb_amqp.wire.tables import Field, long, longstr
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin

header_names = st.sampled_from(["a", STREAM_OFFSET, "x-stream-offsetl", "z"])
LOOKALIKE = "\x0fx-stream-offsetl" + "0" * 8
"""The bytes before the number, in a header without a number."""

headers = st.dictionaries(
    header_names, st.sampled_from([longstr("x"), long(5), longstr(LOOKALIKE)])
)
lists = st.builds(
    Properties,
    content_type=st.sampled_from([None, "text/plain"]),
    headers=st.none() | headers,
    delivery_mode=st.sampled_from([None, 2]),
    correlation_id=st.sampled_from([None, LOOKALIKE]),
)
messages = st.lists(
    st.tuples(lists, st.sampled_from([b"", b"x", b"y" * 300]), st.integers(0, (1 << 63) - 1)),
    max_size=8,
)


def entry_of(properties: Properties, payload: bytes, key: str = "k") -> bytes:
    route = join_route("ex", key)
    head = EntryHeader(Origin.AMQP, hint=len(route)).pack()
    return head + route + compose(ChannelId(3), encode_properties(properties), payload)


@given(messages)
def test_every_message_gets_its_offset_and_keeps_everything_else(
    wanted: list[tuple[Properties, bytes, int]],
) -> None:
    stamp = OffsetStamp()
    entries = [entry_of(properties, payload) for properties, payload, _ in wanted]
    stamped = stamp.stamp(entries, [offset for _, _, offset in wanted])
    start = HEADER_BYTES + len(join_route("ex", "k"))
    for entry, before, (properties, payload, offset) in zip(stamped, entries, wanted, strict=True):
        assert entry[:start] == before[:start]
        assert is_body(entry, start)
        assert payload_of(entry, start) == payload
        found = decode_properties(properties_of(entry, start))
        expected: dict[str, Field] = {**(properties.headers or {})}
        expected.pop(STREAM_OFFSET, None)
        assert found == replace(properties, headers={**expected, STREAM_OFFSET: long(offset)})


def test_a_publisher_of_ever_new_properties_does_not_fill_the_memory() -> None:
    stamp = OffsetStamp()
    for number in range(3 * LISTS_MAX):
        stamp.stamp([entry_of(Properties(message_id=str(number)), b"")], [number])
        assert f"{LISTS_MAX + 1} property lists" not in repr(stamp)
