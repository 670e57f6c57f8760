"""Murmur3: the hash by which keyed entries are told apart, the same in every frontend."""

from struct import Struct
from typing import Final

_WORDS_MASK: Final = 0xFFFFFFFF
_WORD: Final = Struct("<I")
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """The 32-bit Murmur3 hash of ``data``, x86 variant."""
    state, size = seed, len(data)
    whole = size & ~3
    for (word,) in _WORD.iter_unpack(data[:whole]):
        state ^= _scrambled(word)
        state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & _WORDS_MASK
    state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    state ^= size
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _WORDS_MASK
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _WORDS_MASK
    return state ^ state >> 16


def key_hash(key: bytes) -> int:
    """The ordering-key hash of an entry: 31 bits, and 0 for an empty key, which is no key."""
    return murmur3_32(key) & 0x7FFFFFFF if key else 0


def _scrambled(word: int) -> int:
    word = (word * _C1) & _WORDS_MASK
    word = (word << 15 | word >> 17) & _WORDS_MASK
    return (word * _C2) & _WORDS_MASK
