"""SEND commands, a run at a time.

Hot path: clients number their messages, so all SENDs of a run but the first can be predicted: the
same bytes with the next sequence id. Comparing a list of them costs a tenth of parsing them.
Property tests compare the result with protobuf's.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from arneb_pulsar.wire.counting import put_counting
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSend
from arneb_pulsar.wire.varint import VARINT_BITS, varint

SEND_PREFIX: Final = b"\x08\x06\x32"
"""Type SEND and the tag of its field, as every client writes them."""

SEND_OFFSET: Final = 4
"""Where the send itself begins: after the prefix and one byte of length."""

SEQUENCE_ID_BITS: Final = 64

FIRST_LOOK: Final = 32
LOOK_GROWTH: Final = 8
"""How many commands are compared at first, and how much more each time. If all that a read brought
were compared at once, producers that take turns would have it compared again for each turn."""

FIELD_PRODUCER_ID: Final = 0x08
FIELD_SEQUENCE_ID: Final = b"\x10"


def parse_send(data: bytes) -> CommandSend | None:
    """Return the SEND in ``data`` if it is one in the form that clients write; None for the rest,
    which :func:`arneb_pulsar.wire.commands.parse_command` must parse."""
    size = len(data)
    if data[:3] != SEND_PREFIX or size <= SEND_OFFSET or data[3] != size - SEND_OFFSET:
        return None
    # A required field is present if it is not zero, or comes first; asking protobuf is slow.
    if data[SEND_OFFSET] != FIELD_PRODUCER_ID or data[3] >= 0x80:
        return None
    try:
        send = CommandSend.FromString(data[SEND_OFFSET:])
    except DecodeError:
        return None
    if not send.sequence_id and not send.IsInitialized():
        return None
    return send


def count_successors(commands: Sequence[bytes], at: int, send: CommandSend) -> int:
    """Count the commands after ``commands[at]``, which holds ``send``, that differ from it only in
    having the next sequence ids."""
    first = send.sequence_id + 1
    parts = _around(commands[at], send.sequence_id)
    if parts is None or at + 1 >= len(commands):
        return 0
    before, behind = parts
    # Only numbers of one width share the bytes before them, which hold the command's length.
    bound = 1 << min(VARINT_BITS * len(varint(first - 1)), SEQUENCE_ID_BITS)
    left = min(len(commands) - at - 1, bound - first)
    if left == 0 or commands[at + 1] != before + varint(first) + behind:
        return 0
    one, counted, looked_at = len(commands[at + 1]), 1, FIRST_LOOK
    while counted < left:
        found = commands[at + 1 + counted : at + 1 + min(left, counted + looked_at)]
        expected = bytearray(commands[at + 1] * len(found))
        put_counting(expected, len(before), one, first + counted)
        if b"".join(found) != expected or set(map(len, found)) != {one}:
            starts = range(0, len(expected), one)
            return counted + next(
                index
                for index, (each, start) in enumerate(zip(found, starts, strict=True))
                if each != expected[start : start + one]
            )
        counted += len(found)
        looked_at *= LOOK_GROWTH
    return counted


def _around(command: bytes, number: int) -> tuple[bytes, bytes] | None:
    """Return the bytes before and after the sequence id ``number``, in the usual form."""
    at = SEND_OFFSET + 1
    while command[at] >= 0x80:  # the producer id
        at += 1
    digits = FIELD_SEQUENCE_ID + varint(number)
    if not command.startswith(digits, at + 1):
        return None
    end = at + 1 + len(digits)
    return command[: at + 2], command[end:]
