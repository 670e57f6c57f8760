"""SEND commands, a run at a time.

Hot path: clients number their messages, so all SENDs of a run but the first can be predicted: the
same bytes with the next sequence id. Comparing a list of them costs a tenth of parsing them.
Property tests compare the result with protobuf's.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSend
from arneb_pulsar.wire.varint import varint, varints

SEND_PREFIX: Final = b"\x08\x06\x32"
"""Type SEND and the tag of its field, as every client writes them."""

SEND_OFFSET: Final = 4
"""Where the send itself begins: behind the prefix and one byte of length."""

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
    """Count the commands behind ``commands[at]``, which holds ``send``, that differ from it only in
    having the next sequence ids."""
    number = send.sequence_id
    parts = _around(commands[at], number)
    if parts is None or at + 1 >= len(commands):
        return 0
    before, behind = parts
    width = len(varint(number))
    if commands[at + 1] != before + varint(number + 1) + behind or number + 1 >= 1 << 64:
        return 0
    # Only numbers of one width share the bytes before them, which hold the command's length.
    bound = min(1 << 7 * width, 1 << 64)
    left = min(len(commands) - at - 1, bound - number - 1)
    expected = [before + each + behind for each in varints(number + 1, left)]
    found = commands[at + 1 : at + 1 + left]
    if found == expected:
        return left
    pairs = zip(found, expected, strict=True)
    return next(index for index, (one, other) in enumerate(pairs) if one != other)


def _around(command: bytes, number: int) -> tuple[bytes, bytes] | None:
    """Return the bytes before and behind the sequence id ``number``, in the usual form."""
    at = SEND_OFFSET + 1
    while command[at] >= 0x80:  # the producer id
        at += 1
    digits = FIELD_SEQUENCE_ID + varint(number)
    if not command.startswith(digits, at + 1):
        return None
    end = at + 1 + len(digits)
    return command[: at + 2], command[end:]
