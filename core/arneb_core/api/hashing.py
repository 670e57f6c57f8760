"""Murmur3_32: the hash by which keys are told apart, the same for every frontend.

The rule: an entry header keeps :func:`key_hash`, Pulsar clients and brokers use
:func:`murmur3_32` in the same way, so both must give what theirs give.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

MASK_32: Final = 0xFFFFFFFF
KEY_HASH_MASK: Final = 0x7FFFFFFF

KEYS_REMEMBERED: Final = 8192
"""Bound of the cache of :func:`key_hash`: hashing is pure Python, 2 µs for a short key."""

C1: Final = 0xCC9E2D51
C2: Final = 0x1B873593

WORDS: Final = Struct("<I")


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """The 32-bit x86 variant of MurmurHash3, unsigned."""
    whole = len(data) & ~3
    mixed = seed
    for (word,) in WORDS.iter_unpack(data[:whole]):
        mixed ^= _scramble(word)
        mixed = (mixed << 13 | mixed >> 19) & MASK_32
        mixed = (mixed * 5 + 0xE6546B64) & MASK_32
    if whole < len(data):
        mixed ^= _scramble(int.from_bytes(data[whole:], "little"))
    mixed ^= len(data)
    mixed ^= mixed >> 16
    mixed = mixed * 0x85EBCA6B & MASK_32
    mixed ^= mixed >> 13
    mixed = mixed * 0xC2B2AE35 & MASK_32
    return mixed ^ mixed >> 16


def _scramble(word: int) -> int:
    word = word * C1 & MASK_32
    word = (word << 15 | word >> 17) & MASK_32
    return word * C2 & MASK_32


@lru_cache(maxsize=KEYS_REMEMBERED)
def key_hash(key: bytes) -> int:
    """The ordering-key hash of an entry header: Murmur3_32 with seed 0, without the sign bit;
    0 for an empty key, which is no key."""
    return murmur3_32(key) & KEY_HASH_MASK if key else 0
