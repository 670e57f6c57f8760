"""Bodies as entries store them: split, joined, and distinguished from other bytes."""

from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.fields import properties

from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import (
    compose,
    is_body,
    payload_of,
    payload_size,
    properties_of,
    with_properties,
)
from arneb_amqp.wire.properties import encode_properties

lists = properties.map(encode_properties)


@given(lists, st.binary(max_size=50), st.binary(max_size=50))
def test_the_parts_are_recovered(list_: bytes, payload: bytes, before: bytes) -> None:
    body = compose(ChannelId(7), list_, payload)
    start = len(before)
    assert is_body(before + body, start)
    assert properties_of(before + body, start) == list_
    assert payload_of(before + body, start) == payload
    assert payload_size(before + body, start) == len(payload)


@given(lists, lists, st.binary(max_size=50))
def test_properties_are_replaced_and_nothing_else(old: bytes, new: bytes, payload: bytes) -> None:
    body = compose(ChannelId(7), old, payload)
    assert with_properties(body, new) == compose(ChannelId(7), new, payload)


@given(lists, st.binary(max_size=50), st.data())
def test_damaged_bodies_are_recognised(list_: bytes, payload: bytes, data: st.DataObject) -> None:
    """Everything except the property list and the payload is fixed, and so are the lengths."""
    body = compose(ChannelId(7), list_, payload)
    size = data.draw(st.integers(0, len(body) - 1))
    assert not is_body(body[:size])
    assert not is_body(body + b"\x00")
    frame_at = 20 + len(list_)
    fixed = [0, 1, *range(4, 20), *range(frame_at, len(body) - len(payload) - 1), len(body) - 1]
    at = data.draw(st.sampled_from(fixed))
    other = bytearray(body)
    other[at] ^= data.draw(st.integers(1, 255))
    # Nobody reads the weight.
    assert not is_body(bytes(other)) or at in {10, 11}


@given(lists, st.binary(max_size=50), st.data())
def test_a_truncated_body_is_recognised(list_: bytes, payload: bytes, data: st.DataObject) -> None:
    """Cut off anywhere, or with octets behind it; no length makes it read outside the bytes."""
    body = compose(ChannelId(7), list_, payload)
    assert not is_body(body[: data.draw(st.integers(0, len(body) - 1))])
    assert not is_body(body + data.draw(st.binary(min_size=1, max_size=9)))
    assert not is_body(body, data.draw(st.integers(1, len(body) + 9)))
