"""Method frames: payload bytes to command objects and back.

The rule: the classes are pamqp's, the codec is ours. pamqp refuses what RabbitMQ accepts (a ticket
other than 0, names outside its patterns), accepts what RabbitMQ refuses (missing and trailing
octets) and reads delivery tags as signed, so only its field tables are used.

Attributes of a decoded command: short strings are ``str``, long strings ``bytes``, tables
:data:`~arneb_amqp.wire.tables.Table`.
"""

from collections.abc import Callable, Mapping
from struct import Struct, error
from typing import Final, cast

from pamqp import commands
from pamqp.base import Frame as Command

from arneb_amqp.errors import NO_METHOD, AmqpError, frame_error, not_implemented
from arneb_amqp.wire.access import Access
from arneb_amqp.wire.constants import (
    FRAME_END_OCTET,
    FRAME_METHOD,
    FRAME_START,
    ChannelId,
    DeliveryTag,
)
from arneb_amqp.wire.erlang import render_octets
from arneb_amqp.wire.frames import describe_frame
from arneb_amqp.wire.route import shortstr
from arneb_amqp.wire.tables import decode_table, encode_table

_COMMANDS: Final[Mapping[int, type[Command]]] = {
    **cast("Mapping[int, type[Command]]", commands.INDEX_MAPPING),
    Access.Request.index: Access.Request,
    Access.RequestOk.index: Access.RequestOk,
}

_WITH_CONTENT: Final = frozenset(
    kind.index
    for kind in (
        commands.Basic.Publish,
        commands.Basic.Return,
        commands.Basic.Deliver,
        commands.Basic.GetOk,
    )
)


def _fields(kind: type[Command]) -> tuple[tuple[str, str], ...]:
    """Return the name and type of each field. RabbitMQ checks that text is UTF-8 except in methods
    that carry content: a routing key may be any octets."""
    types = ((name, kind.amqp_type(name)) for name in kind.attributes())
    if kind.index in _WITH_CONTENT:
        return tuple((name, "octets" if type_ == "shortstr" else type_) for name, type_ in types)
    return tuple(types)


_FIELDS: Final = {index: _fields(kind) for index, kind in _COMMANDS.items()}

_NUMBERS: Final = {
    "octet": Struct(">B"),
    "short": Struct(">H"),
    "long": Struct(">I"),
    "longlong": Struct(">Q"),
}
_INDEX: Final = Struct(">I")
_ACK: Final = Struct(">BHIIQBB")
_REQUEUE: Final = 2
_ACK_PAYLOAD_BYTES: Final = 13


class _Undecodable(Exception):
    """The fields do not fill the payload exactly, or one is cut short."""


def method_ids(method: Command | type[Command]) -> tuple[int, int]:
    """Return class id and method id, as close methods name the method at fault."""
    return method.index >> 16, method.index & 0xFFFF


def has_content(method: Command | type[Command]) -> bool:
    """Whether a content header and body follow the method."""
    return method.index in _WITH_CONTENT


def decode_method(payload: bytes) -> Command:
    """Return the command in a method frame's ``payload`` (at least 4 octets).

    Raises :class:`~arneb_amqp.errors.ConnectionException`: 501 when the fields cannot be
    decoded, 502 for a malformed table, 540 for a method that AMQP 0-9-1 does not have.
    """
    (index,) = _INDEX.unpack_from(payload)
    kind = _COMMANDS.get(index)
    if kind is None:
        raise not_implemented(f"unknown method {index >> 16}.{index & 0xFFFF}")
    method = kind.__new__(kind)
    try:
        _read_fields(method, payload, _FIELDS[index])
    except (_Undecodable, error, IndexError):
        raise frame_error(f"cannot decode {render_octets(payload[4:])}", method_ids(kind)) from None
    except AmqpError as problem:
        raise problem.caused_by(method_ids(kind)) from None
    return method


def encode_method(channel: ChannelId, method: Command) -> bytes:
    """Return the whole frame of ``method``.

    Raises :class:`ValueError` when a value does not fit its field.
    """
    payload = _INDEX.pack(method.index) + _fields_of(method)
    return FRAME_START.pack(FRAME_METHOD, channel, len(payload)) + payload + FRAME_END_OCTET


def describe_method(method: Command) -> str:
    """Describe the method's frame as error texts do."""
    return describe_frame(FRAME_METHOD, _INDEX.pack(method.index) + _fields_of(method))


def encode_ack(channel: ChannelId, tag: DeliveryTag, multiple: bool = False) -> bytes:
    """Return a ``basic.ack`` frame; with ``multiple`` it confirms a whole run."""
    return _ACK.pack(
        FRAME_METHOD, channel, _ACK_PAYLOAD_BYTES, commands.Basic.Ack.index, tag, multiple, 0xCE
    )


def encode_nack(channel: ChannelId, tag: DeliveryTag, multiple: bool = False) -> bytes:
    """Return a ``basic.nack`` frame as a broker sends it: the message was not taken. The bit
    ``requeue`` means nothing there; RabbitMQ sets it."""
    bits = multiple | _REQUEUE
    return _ACK.pack(
        FRAME_METHOD, channel, _ACK_PAYLOAD_BYTES, commands.Basic.Nack.index, tag, bits, 0xCE
    )


def _read_fields(method: Command, data: bytes, fields: tuple[tuple[str, str], ...]) -> None:
    at, bit = 4, 0
    for name, kind in fields:
        if kind == "bit":
            setattr(method, name, bool(data[at] >> bit & 1))
            bit += 1
            continue
        if bit:  # Bits share one octet; no method of 0-9-1 has more than eight of them.
            at, bit = at + 1, 0
        value, at = _READERS[kind](data, at)
        setattr(method, name, value)
    if at + bool(bit) != len(data):
        raise _Undecodable


def _fields_of(method: Command) -> bytes:
    parts: list[bytes] = []
    bits: list[bool] = []
    for name, kind in _FIELDS[method.index]:
        value = getattr(method, name)
        if kind == "bit":
            bits.append(bool(value))
            continue
        _put_bits(parts, bits)
        parts.append(_WRITERS[kind](value))
    _put_bits(parts, bits)
    return b"".join(parts)


def _put_bits(parts: list[bytes], bits: list[bool]) -> None:
    if bits:
        parts.append(bytes((sum(bit << place for place, bit in enumerate(bits)),)))
        bits.clear()


def _read_shortstr(data: bytes, at: int) -> tuple[str, int]:
    try:
        return _read_octets(data, at, "strict")
    except UnicodeDecodeError:
        raise frame_error("Malformed UTF-8 in shortstr", NO_METHOD) from None


def _read_octets(data: bytes, at: int, errors: str = "surrogateescape") -> tuple[str, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise _Undecodable
    return data[at + 1 : end].decode("utf-8", errors), end


def _read_longstr(data: bytes, at: int) -> tuple[bytes, int]:
    end = _sized(data, at)
    return data[at + 4 : end], end


def _read_table(data: bytes, at: int) -> tuple[object, int]:
    end = _sized(data, at)
    return decode_table(data, at + 4, end), end


def _sized(data: bytes, at: int) -> int:
    (size,) = _INDEX.unpack_from(data, at)
    end: int = at + 4 + size
    if end > len(data):
        raise _Undecodable
    return end


def _number_reader(number: Struct) -> Callable[[bytes, int], tuple[object, int]]:
    size = number.size

    def read(data: bytes, at: int) -> tuple[object, int]:
        return number.unpack_from(data, at)[0], at + size

    return read


def _number_writer(number: Struct) -> Callable[[object], bytes]:
    def write(value: object) -> bytes:
        try:
            return number.pack(value)
        except error as problem:
            raise ValueError(f"expected a number that fits {number.size} octets") from problem

    return write


def _write_shortstr(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {value!r}")
    return shortstr(value)


def _write_longstr(value: object) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        raise ValueError(f"expected text or bytes, got {value!r}")
    return _INDEX.pack(len(raw)) + raw


def _write_table(value: object) -> bytes:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"expected a table, got {value!r}")
    return _write_longstr(encode_table(value or {}))


_READERS: Final[Mapping[str, Callable[[bytes, int], tuple[object, int]]]] = {
    **{name: _number_reader(number) for name, number in _NUMBERS.items()},
    "shortstr": _read_shortstr,
    "octets": _read_octets,
    "longstr": _read_longstr,
    "table": _read_table,
}

_WRITERS: Final[Mapping[str, Callable[[object], bytes]]] = {
    **{name: _number_writer(number) for name, number in _NUMBERS.items()},
    "shortstr": _write_shortstr,
    "octets": _write_shortstr,
    "longstr": _write_longstr,
    "table": _write_table,
}
