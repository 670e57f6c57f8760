"""Murmur3_32: the hash of keys, the same for every frontend.

The rule: entry headers hold :func:`key_hash`, and Pulsar clients and brokers use
:func:`murmur3_32`, so both must return what theirs return.
"""

from typing import Final

from mmh3 import hash as murmur3

KEY_HASH_MASK: Final = 0x7FFFFFFF


def murmur3_32(data: bytes) -> int:
    """Return the 32-bit x86 variant of MurmurHash3 with seed 0, unsigned."""
    return murmur3(data, 0, False)


def key_hash(key: bytes) -> int:
    """Return the ordering-key hash of an entry header: Murmur3_32 with seed 0, without the sign
    bit; 0 for an empty key, which is no key. Hashing takes less time than a cache look-up."""
    return murmur3(key, 0, False) & KEY_HASH_MASK if key else 0
