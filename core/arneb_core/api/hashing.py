"""Murmur3_32: the hash by which keys are told apart, the same for every frontend.

The rule: an entry header keeps :func:`key_hash`, Pulsar clients and brokers use
:func:`murmur3_32` in the same way, so both must give what theirs give.
"""

from typing import Final

from mmh3 import hash as murmur3

KEY_HASH_MASK: Final = 0x7FFFFFFF


def murmur3_32(data: bytes) -> int:
    """The 32-bit x86 variant of MurmurHash3 with seed 0, unsigned."""
    return murmur3(data, 0, False)


def key_hash(key: bytes) -> int:
    """The ordering-key hash of an entry header: Murmur3_32 with seed 0, without the sign bit;
    0 for an empty key, which is no key. It takes less time than to look it up in a cache."""
    return murmur3(key, 0, False) & KEY_HASH_MASK if key else 0
