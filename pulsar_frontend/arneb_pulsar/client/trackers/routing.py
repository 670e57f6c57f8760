"""Routing: which partition a message goes to.

The rule: messages with the same key go to the same partition, the one that Java's client chooses
with the same hash, so that programs in both languages can produce to one topic. For messages
without a key each router has its own way.
"""

from enum import Enum
from struct import iter_unpack
from typing import Final, Protocol

from mmh3 import hash as murmur3

POSITIVE: Final = 0x7FFFFFFF
"""The mask that clears the sign of a hash."""

UNSIGNED: Final = 0xFFFFFFFF


def murmur3_32(key: bytes) -> int:
    """Return MurmurHash3 with seed 0, without its sign, as Pulsar's brokers and clients use it."""
    return murmur3(key, 0) & POSITIVE


def java_string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``, without its sign."""
    number = 0
    for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        number = (31 * number + unit) & UNSIGNED
    return number & POSITIVE


class Hashing(Enum):
    """How a key is hashed."""

    JAVA_STRING = "java-string"
    """Java's default."""
    MURMUR3 = "murmur3"

    def of(self, key: str) -> int:
        """Return the hash of ``key``; keys of bytes are hashed in their wire form, base64."""
        if self is Hashing.MURMUR3:
            return murmur3_32(key.encode())
        return java_string_hash(key)


class Router(Protocol):
    """Chooses a partition."""

    def choose(self, key: str | None, partitions: int, now: float) -> int: ...


class SinglePartition:
    """Sends all messages without a key to one partition, ``start``; callers choose it at random so
    that producers spread."""

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
    """Sends messages without a key to each partition in turn: the next one for every message, or,
    with batching, every ``batch_s``, so that batches fill. Callers choose ``start`` at random so
    that producers spread."""

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
