"""Ack sets: which messages of a batch are not acknowledged yet.

An ack set is a bit set of 64-bit words; a set bit means still unacknowledged. Zero words at its end
are left out, so it does not say how many messages the batch has.
"""

from collections.abc import Sequence
from struct import pack, unpack
from typing import Final

from arneb_pulsar.wire.metadata import BATCH_MESSAGES_MAX

WORD_BITS: Final = 64
WORDS_MAX: Final = BATCH_MESSAGES_MAX // WORD_BITS
ALL_MESSAGES: Final = (1 << BATCH_MESSAGES_MAX) - 1


def mask_of(words: Sequence[int]) -> int:
    """Return the messages still unacknowledged in an ack set: bit *i* for message *i*.

    Words beyond the largest batch are left out.
    """
    kept = words[:WORDS_MAX]
    return int.from_bytes(pack(f"<{len(kept)}q", *kept), "little")


def done_mask(words: Sequence[int]) -> int:
    """Return the messages that an ack set acknowledges; bits beyond the batch are set as well."""
    return ALL_MESSAGES ^ mask_of(words)


def words_of(mask: int) -> tuple[int, ...]:
    """Return the words of an ack set, without zeros at the end."""
    count = (mask.bit_length() + WORD_BITS - 1) // WORD_BITS
    return unpack(f"<{count}q", mask.to_bytes(count * 8, "little"))
