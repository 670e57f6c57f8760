"""The frame reader: the same frames however the bytes are cut, and an end to bad sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import cuts, encode, frames, mutated, read

from arneb_pulsar.wire.errors import FrameError
from arneb_pulsar.wire.frame import FRAME_BYTES_MAX, SIZES, FrameReader, simple_frame


@given(st.lists(frames(), max_size=6), st.data())
def test_frames_come_out_as_they_went_in(
    sent: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, sent))
    reader = FrameReader()
    assert read(reader, *data.draw(cuts(stream))) == sent
    assert reader.error is None


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


def test_the_largest_frame_is_read() -> None:
    payload = bytes(FRAME_BYTES_MAX - 8 - 5)
    reader = FrameReader()
    data = encode((b"\x08\x12\x92\x01\x00", payload))
    assert len(data) == FRAME_BYTES_MAX
    pieces = [data[start : start + 262_144] for start in range(0, len(data), 262_144)]
    assert read(reader, *pieces) == [(b"\x08\x12\x92\x01\x00", payload)]
