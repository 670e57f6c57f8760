"""Frame headers: frame boundaries are found however the bytes are split, and are lost when an end
octet is wrong."""

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pamqp import commands, frame

from arneb_amqp.wire.constants import HEARTBEAT_FRAME
from arneb_cluster.routing.frame_heads import CloseMethod, FrameHeads
from arneb_cluster.routing.relay import close_frame

CLOSE = close_frame("x")
CLOSE_OK = frame.marshal(commands.Connection.CloseOk(), 0)

payloads = st.binary(max_size=40)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A frame that does not concern the end of the connection."""
    kind = draw(st.sampled_from([1, 2, 3, 8]))
    channel = draw(st.integers(0 if kind == 8 else 1, 0xFFFF))
    payload = draw(payloads)
    return bytes([kind]) + channel.to_bytes(2) + len(payload).to_bytes(4) + payload + b"\xce"


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """``data`` in pieces, cut at these places."""
    places = [0, *sorted({each % (len(data) + 1) for each in at}), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


@given(st.lists(frames(), max_size=8), st.lists(st.integers(0, 1000), max_size=12))
def test_a_boundary_is_where_a_frame_has_ended_and_nowhere_else(
    whole: list[bytes], at: list[int]
) -> None:
    borders = {sum(map(len, whole[:index])) for index in range(len(whole) + 1)}
    heads, seen = FrameHeads(), 0
    for piece in cut(b"".join(whole), at):
        heads.receive(piece)
        seen += len(piece)
        assert heads.at_border is (seen in borders)
    assert heads.frames == len(whole)
    assert not heads.is_lost
    assert heads.close_method is CloseMethod.NONE


@given(st.lists(frames(), max_size=4), st.lists(frames(), max_size=4), st.booleans())
def test_a_close_is_recognised_byte_by_byte_and_at_once(
    before: list[bytes], after: list[bytes], answers: bool
) -> None:
    goodbye = CLOSE_OK if answers else CLOSE
    data = b"".join([*before, goodbye, *after])
    expected = CloseMethod.CLOSE_OK if answers else CloseMethod.CLOSE
    at_once, by_byte = FrameHeads(), FrameHeads()
    at_once.receive(data)
    for octet in data:
        by_byte.receive(bytes([octet]))
    assert at_once.close_method is by_byte.close_method is expected
    assert at_once.frames == by_byte.frames == len(before) + 1 + len(after)


@pytest.mark.parametrize("goodbye", [CLOSE, CLOSE_OK])
def test_a_close_counts_when_its_last_byte_has_passed(goodbye: bytes) -> None:
    heads = FrameHeads()
    heads.receive(goodbye[:-1])
    assert heads.close_method is CloseMethod.NONE
    heads.receive(goodbye[-1:])
    assert heads.close_method is not CloseMethod.NONE


@given(st.lists(frames(), max_size=4), frames(), st.integers(0, 255), st.data())
def test_a_wrong_end_octet_loses_all_boundaries(
    before: list[bytes], broken: bytes, octet: int, data: st.DataObject
) -> None:
    bad = broken[:-1] + bytes([0xCF if octet == 0xCE else octet])
    heads = FrameHeads()
    at = data.draw(st.lists(st.integers(0, 500)))
    for piece in cut(b"".join([*before, bad, HEARTBEAT_FRAME]), at):
        heads.receive(piece)
    assert heads.is_lost
    assert not heads.at_border


def test_a_method_without_its_ids_loses_all_boundaries() -> None:
    heads = FrameHeads()
    heads.receive(b"\x01\x00\x00\x00\x00\x00\x02ab\xce" + HEARTBEAT_FRAME)
    assert heads.is_lost


@given(st.binary(max_size=300), st.lists(st.integers(0, 1000), max_size=12))
def test_garbage_is_followed_the_same_way_however_it_is_split(data: bytes, at: list[int]) -> None:
    whole, pieces = FrameHeads(), FrameHeads()
    whole.receive(data)
    for piece in cut(data, at):
        pieces.receive(piece)
    assert (whole.is_lost, whole.at_border, whole.close_method, whole.frames) == (
        pieces.is_lost, pieces.at_border, pieces.close_method, pieces.frames,
    )  # fmt: skip


def test_less_than_a_header_is_kept() -> None:
    heads = FrameHeads()
    huge = b"\x03\x00\x01" + (1 << 30).to_bytes(4)
    heads.receive(huge)
    for _ in range(100):
        heads.receive(bytes(100_000))
    assert len(heads._head) == 0
    assert not heads.at_border
