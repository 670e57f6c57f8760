"""Timed entries: plain messages that differ in their time of delivery, made many at a time.

The rule: the result is what :func:`.make_entry` makes of each. The times are read side by side, as
one large integer: a varint of six bytes becomes a number by shifts and masks alone, and a thousand
of them, each in eight bytes of its own, are shifted by the same few operations.
"""

from collections.abc import Sequence
from itertools import chain
from operator import add
from struct import Struct
from typing import Final

from arneb_core.api.entries.due_key import DELIVER_AT_OFFSET, STAMP_BYTES
from arneb_core.api.entries.entry import HEADER_BYTES

VARINT_BYTES: Final = 6
"""Bytes of the varint of a time in ms, from 2004 to 2109."""

HEAD: Final = Struct(f"{HEADER_BYTES}s")

LANES_MAX: Final = 2_048
"""Times read at once: 16 KiB, which stays in the processor's cache."""


def _lanes(lane: int) -> int:
    """Return an integer with ``lane`` in each lane."""
    return int.from_bytes(lane.to_bytes(STAMP_BYTES, "little") * LANES_MAX, "little")


EVEN_BYTES: Final = _lanes(0x007F_007F_007F)
ODD_BYTES: Final = _lanes(0x3F80_3F80_3F80)
"""Masks of the even bytes, and of the odd ones after a shift by one bit; both drop the bits that
say that a varint goes on."""
PAIRS: Final = tuple(_lanes(0x3FFF << 14 * at) for at in range(VARINT_BYTES // 2))
"""Masks of fourteen bits each, which are sixteen bits apart at first."""


def timed_entries(head: bytes, times: Sequence[bytes], bodies: Sequence[bytes]) -> list[bytes]:
    """Return the entries of ``bodies``: each is ``head`` with the time of delivery from its varint,
    and the body."""
    entries: list[bytes] = []
    for start in range(0, len(times), LANES_MAX):
        some = times[start : start + LANES_MAX]
        heads = chain.from_iterable(HEAD.iter_unpack(_heads(head, some)))
        entries += map(add, heads, bodies[start : start + LANES_MAX])
    return entries


def _heads(head: bytes, times: Sequence[bytes]) -> bytes:
    """Return copies of ``head``, one behind the other, each with its time."""
    joined, lanes = b"".join(times), bytearray(STAMP_BYTES * len(times))
    for at in range(VARINT_BYTES):
        lanes[at::STAMP_BYTES] = joined[at::VARINT_BYTES]
    sevens = int.from_bytes(lanes, "little")
    pairs = sevens & EVEN_BYTES | sevens >> 1 & ODD_BYTES
    first, second, third = PAIRS
    numbers = pairs & first | pairs >> 2 & second | pairs >> 4 & third
    found = numbers.to_bytes(len(lanes), "little")
    heads = bytearray(head * len(times))
    for at in range(VARINT_BYTES):  # 42 bits are six bytes again
        heads[DELIVER_AT_OFFSET + STAMP_BYTES - 1 - at :: HEADER_BYTES] = found[at::STAMP_BYTES]
    return bytes(heads)
