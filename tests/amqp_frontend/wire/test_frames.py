"""The opening of a connection, and single frames cut from bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.wire.constants import PROTOCOL_HEADER, PROTOCOL_HEADER_0_9, ChannelId
from arneb_amqp.wire.frames import (
    BadProtocolHeader,
    Frame,
    FramingLost,
    ProtocolHeaderReader,
    cut_frame,
)


@pytest.mark.parametrize("header", [PROTOCOL_HEADER, PROTOCOL_HEADER_0_9])
def test_an_incomplete_protocol_header_is_waited_for(header: bytes) -> None:
    reader = ProtocolHeaderReader()
    for at in range(7):
        assert reader.receive(header[at : at + 1]) is None
    assert reader.receive(header[7:] + b"rest") == b"rest"
    assert ProtocolHeaderReader().receive(bytearray(header)) == b""


@pytest.mark.parametrize(
    "header", [b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"GET / HTTP/1.1", bytes(8)]
)
def test_another_protocol_is_refused(header: bytes) -> None:
    """4.2.2: AMQP 1.0, its SASL layer, HTTP, noise."""
    with pytest.raises(BadProtocolHeader):
        ProtocolHeaderReader().receive(header)


@given(st.integers(0, 255), st.integers(0, 65535), st.binary(max_size=40), st.binary(max_size=9))
def test_a_frame_is_cut_where_it_ends(kind: int, channel: int, payload: bytes, more: bytes) -> None:
    raw = struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"
    frame = cut_frame(b"before" + raw + more, 6, 4096)
    assert frame == Frame(kind, ChannelId(channel), payload)
    assert frame.bytes_on_wire == len(raw)
    for size in range(len(raw)):
        need = cut_frame(raw[:size], 0, 4096)
        assert isinstance(need, int)
        assert size < need <= len(raw)


def test_the_size_is_checked_before_the_payload_has_arrived() -> None:
    with pytest.raises(FramingLost, match="frame_too_large,4097,4088"):
        cut_frame(b"\x01\x00\x01\x00\x00\x10\x01", 0, 4096)
