"""Routing: which partition a message goes to.

The rule: messages of one key go to one partition, the same that Java's client chooses with the same
hash, so that programs in both languages may produce to one topic. What has no key goes where the
router likes.
"""

from enum import Enum
from struct import iter_unpack
from typing import Final, Protocol

from mmh3 import hash as murmur3

POSITIVE: Final = 0x7FFFFFFF
"""Both hashes are taken without their sign."""

UNSIGNED: Final = 0xFFFFFFFF


def murmur3_32(key: bytes) -> int:
    """MurmurHash3 with seed 0, without its sign, as Pulsar's brokers and clients take it."""
    return murmur3(key, 0) & POSITIVE


def java_string_hash(text: str) -> int:
    """What ``String.hashCode`` gives in Java, without its sign."""
    number = 0
    for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        number = (31 * number + unit) & UNSIGNED
    return number & POSITIVE


class Hashing(Enum):
    """How a key becomes a number."""

    JAVA_STRING = "java-string"
    """Java's default."""
    MURMUR3 = "murmur3"

    def of(self, key: str) -> int:
        """The number of ``key``; keys of bytes are hashed as they travel, in base64."""
        if self is Hashing.MURMUR3:
            return murmur3_32(key.encode())
        return java_string_hash(key)


class Router(Protocol):
    """Chooses a partition."""

    def choose(self, key: str | None, partitions: int, now: float) -> int: ...


class SinglePartition:
    """What has no key goes to one partition; ``start`` says which, and is drawn by lot so that
    producers spread."""

    def __init__(self, start: int, hashing: Hashing = Hashing.JAVA_STRING) -> None:
        self._start = start
        self._hashing = hashing

    def __repr__(self) -> str:
        return f"<SinglePartition {self._start}, keys by {self._hashing.value}>"

    def choose(self, key: str | None, partitions: int, now: float) -> int:
        """The partition for a message with ``key``."""
        number = self._start if key is None else self._hashing.of(key)
        return number % partitions


class RoundRobin:
    """What has no key goes to each partition in turn: with every message, or with batching every
    ``batch_s``, so that batches are filled. ``start`` is drawn by lot, so that producers spread."""

    def __init__(
        self, start: int, batch_s: float = 0.0, hashing: Hashing = Hashing.JAVA_STRING
    ) -> None:
        self._next = start
        self._batch_s = batch_s
        self._hashing = hashing

    def __repr__(self) -> str:
        return f"<RoundRobin next {self._next}, keys by {self._hashing.value}>"

    def choose(self, key: str | None, partitions: int, now: float) -> int:
        """The partition for a message with ``key``."""
        if key is not None:
            return self._hashing.of(key) % partitions
        if self._batch_s > 0:
            return (self._next + int(now / self._batch_s)) % partitions
        chosen = self._next % partitions
        self._next += 1
        return chosen
