"""Protobuf by field numbers, without a schema: enough to write commands and read answers."""

from collections.abc import Iterator, Sequence

Value = int | bytes | str | Sequence["tuple[int, Value]"]
"""A protobuf value: a varint, bytes, or a nested message as (field number, value) pairs."""

Fields = Sequence[tuple[int, Value]]
"""Additional fields of a command; if a field occurs twice, the last value counts."""

Message = dict[int, list[int | bytes]]
"""A parsed message: every value of every field, by field number."""


def varint(value: int) -> bytes:
    """Encode an integer. Negative numbers are encoded like protobuf's int32 and int64: as 64-bit
    two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(fields: Sequence[tuple[int, Value]]) -> bytes:
    """Encode a protobuf message from (field number, value) pairs."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        if isinstance(value, str):
            value = value.encode()
        data = value if isinstance(value, bytes) else encode(value)
        out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def decode(data: bytes) -> Message:
    """Decode every field of a protobuf message; nested messages stay encoded."""
    fields: Message = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _read_varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                size, at = _read_varint(data, at)
                value, at = data[at : at + size], at + size
            case 5:
                value, at = data[at : at + 4], at + 4
            case other:
                raise ValueError(f"expected wire type 0, 1, 2 or 5, got {other}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def integer(message: Message, number: int, default: int = 0) -> int:
    """A varint field; the last value counts, as protobuf requires."""
    value = message.get(number, [default])[-1]
    assert isinstance(value, int)
    return value


def data_of(message: Message, number: int) -> bytes:
    """A bytes, string or message field; empty if absent."""
    value = message.get(number, [b""])[-1]
    assert isinstance(value, bytes)
    return value


def integers(values: list[int | bytes]) -> Iterator[int]:
    """Repeated varints, packed or not."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            number, at = _read_varint(value, at)
            yield number
