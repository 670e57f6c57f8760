"""Long keys: how a key longer than LMDB allows is stored.

LMDB takes keys of at most 511 bytes, but the names of an AMQP exchange, a queue and a routing key
together reach 765. The rule: a key of 511 bytes or more is stored as its first 479 bytes and its
SHA-256, and its value is preceded by the whole key. So a prefix scan still finds it, and nothing
outside the store notices.
"""

from hashlib import sha256
from struct import Struct
from typing import Final

STORED_KEY_BYTES_MAX: Final = 511
HEAD_BYTES: Final = STORED_KEY_BYTES_MAX - 32
KEY_LENGTH: Final = Struct(">I")


def is_long(key: bytes) -> bool:
    """Whether a key, as given or as stored, is a long one."""
    return len(key) >= STORED_KEY_BYTES_MAX


def shorten(key: bytes) -> bytes:
    """Return the stored form of any key."""
    return key if len(key) < STORED_KEY_BYTES_MAX else key[:HEAD_BYTES] + sha256(key).digest()


def wrap(key: bytes, value: bytes) -> bytes:
    """Return the stored value of a long key."""
    return KEY_LENGTH.pack(len(key)) + key + value


def unwrap(stored: bytes) -> tuple[bytes, bytes]:
    """Return key and value of a long key; raises :class:`ValueError` when they are not there."""
    end = KEY_LENGTH.size + int.from_bytes(stored[: KEY_LENGTH.size], "big")
    key = stored[KEY_LENGTH.size : end]
    if not is_long(key) or len(stored) < end:
        raise ValueError(f"expected a long key before the value, got {len(key)} bytes of it")
    return key, stored[end:]
