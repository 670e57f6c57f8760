"""Opening bytes: what follows ``connection.open`` is found however the bytes are split."""

import hypothesis.strategies as st
from hypothesis import given
from pamqp import commands, frame

from arneb_amqp.wire.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from arneb_amqp.wire.opening import OpeningBytes

START_OK = frame.marshal(commands.Connection.StartOk({}, "PLAIN", "\0a\0b", "en_US"), 0)
TUNE_OK = frame.marshal(commands.Connection.TuneOk(10, 4096, 30), 0)
OPEN = frame.marshal(commands.Connection.Open("/"), 0)
HANDSHAKE = PROTOCOL_HEADER + START_OK + TUNE_OK


@given(st.integers(0, 3), st.binary(max_size=200), st.lists(st.integers(1, 400), max_size=8))
def test_what_follows_is_kept_unchanged(beats: int, rest: bytes, sizes: list[int]) -> None:
    data = HANDSHAKE + HEARTBEAT_FRAME * beats + OPEN + rest
    opening = OpeningBytes()
    at = 0
    for size in [*sizes, len(data)]:
        opening.receive(data[at : at + size])
        at = min(len(data), at + size)
        is_there = at >= len(data) - len(rest)
        assert opening.is_open is is_there
        assert opening.rest == (data[len(data) - len(rest) : at] if is_there else b"")


def test_byte_by_byte() -> None:
    opening = OpeningBytes()
    for octet in HANDSHAKE + OPEN + OPEN:
        opening.receive(bytes([octet]))
    assert opening.rest == OPEN


@given(st.binary(max_size=300))
def test_garbage_is_kept_and_nothing_else_happens(data: bytes) -> None:
    opening = OpeningBytes()
    for octet in data:
        opening.receive(bytes([octet]))
    assert opening.is_open or opening.rest == b""
