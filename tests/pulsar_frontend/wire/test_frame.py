"""The frame reader: the same frames however the bytes are cut, and an end to bad sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import cuts, encode, frames, mutated, read

from arneb_pulsar.wire.errors import FrameError
from arneb_pulsar.wire.frame import (
    EQUAL_FRAMES_MIN,
    FRAME_BYTES_MAX,
    SIZES,
    SIZES_BYTES,
    FrameReader,
    simple_frame,
)


@given(st.lists(frames(), max_size=6), st.data())
def test_frames_come_out_as_they_went_in(
    sent: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, sent))
    reader = FrameReader()
    assert read(reader, *data.draw(cuts(stream))) == sent
    assert reader.error is None


@st.composite
def runs_of_equal_frames(draw: st.DrawFn) -> list[tuple[bytes, bytes]]:
    """Runs of frames whose commands and payloads are equally large; some are one byte off."""
    sent: list[tuple[bytes, bytes]] = []
    for _ in range(draw(st.integers(1, 3))):
        command_bytes, payload_bytes = draw(st.integers(1, 20)), draw(st.integers(0, 300))
        for number in range(draw(st.integers(1, 4 * EQUAL_FRAMES_MIN))):
            more = draw(st.sampled_from((0,) * 20 + (1, 256)))
            fill = bytes((number,))
            sent.append((fill * command_bytes, fill * (payload_bytes + more)))
    return sent


@given(runs_of_equal_frames(), st.data())
def test_frames_of_equal_sizes_are_cut_as_others(
    sent: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    """Fed whole many are cut by one call, and fed frame by frame none: both give the same, and
    wait for the same rest."""
    stream = b"".join(map(encode, sent))
    stream = data.draw(st.one_of(st.just(stream), mutated(stream)))
    whole, single = FrameReader(), FrameReader()
    expected: list[tuple[bytes, bytes]] = []
    for start in range(0, len(stream), SIZES_BYTES):
        expected += read(single, stream[start : start + SIZES_BYTES])
    assert read(whole, stream) == expected
    assert repr(whole.error) == repr(single.error)
    assert read(whole, bytes(SIZES_BYTES)) == read(single, bytes(SIZES_BYTES))


@given(st.lists(frames(), min_size=1, max_size=3))
def test_a_frame_comes_with_its_last_byte(sent: list[tuple[bytes, bytes]]) -> None:
    reader = FrameReader()
    for frame in sent:
        data = encode(frame)
        for index in range(len(data) - 1):
            assert read(reader, data[index : index + 1]) == []
        assert read(reader, data[-1:]) == [frame]


@given(frames(), st.binary(max_size=7))
def test_trailing_bytes_wait_for_more(frame: tuple[bytes, bytes], trailing: bytes) -> None:
    reader = FrameReader()
    assert read(reader, encode(frame) + trailing) == [frame]
    assert reader.error is None


@given(st.lists(frames(), min_size=1, max_size=4), st.data())
def test_damage_gives_frames_or_an_error_and_never_raises(
    sent: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = data.draw(mutated(b"".join(map(encode, sent))))
    reader = FrameReader()
    for command, payload in read(reader, *data.draw(cuts(stream))):
        assert len(command) + len(payload) <= len(stream)


@pytest.mark.parametrize(
    ("total", "size"),
    [
        (0, 0),
        (3, 0),
        (4, 1),
        (10, 7),
        (10, 0xFFFFFFFF),
        (FRAME_BYTES_MAX - 3, 2),
        (0xFFFFFFFF, 2),
    ],
)
def test_impossible_sizes_end_the_reading(total: int, size: int) -> None:
    """They are refused as soon as they are there, before anything is gathered for them."""
    reader = FrameReader()
    good = (b"\x08\x12\x92\x01\x00", b"")
    assert read(reader, encode(good) + SIZES.pack(total, size)) == [good]
    assert isinstance(reader.error, FrameError)
    assert read(reader, simple_frame(b"later")) == []


@pytest.mark.parametrize(("room", "frames_read"), [(0, 2 * EQUAL_FRAMES_MIN), (-1, 0)])
def test_many_frames_are_read_only_if_each_is_small_enough(room: int, frames_read: int) -> None:
    frame = (b"\x08\x06\x32\x00", bytes(100))
    reader = FrameReader(len(encode(frame)) + room)
    assert len(read(reader, encode(frame) * 2 * EQUAL_FRAMES_MIN)) == frames_read
    assert (reader.error is None) is (room == 0)


def test_the_largest_frame_is_read() -> None:
    payload = bytes(FRAME_BYTES_MAX - 8 - 5)
    reader = FrameReader()
    data = encode((b"\x08\x12\x92\x01\x00", payload))
    assert len(data) == FRAME_BYTES_MAX
    pieces = [data[start : start + 262_144] for start in range(0, len(data), 262_144)]
    assert read(reader, *pieces) == [(b"\x08\x12\x92\x01\x00", payload)]
