"""A selector: which receiver a key belongs to.

The rule: keys are hashed to *slots*, of which there are :data:`SLOTS`, and their bytes do not
matter; the owner of a slot follows from the receivers present. A selector knows nothing of what is
in flight. Source: Pulsar ``StickyKeyConsumerSelector``.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, Protocol

from arneb_core.api.entries.entry import KEY_HASH_OFFSET
from arneb_core.api.entries.position import Position
from arneb_core.dispatch.receiver import Receiver

SLOTS: Final = 1 << 16
"""Key hashes are taken modulo this; no key has slot 0 (Pulsar keeps it for "not set")."""

KEY_HASH: Final = Struct(">I")

SPREAD: Final = 0x9E3779B1
"""Odd, and near the golden ratio of 2**32: multiples of it lie far apart."""


class Selector(Protocol):
    """Decides which receiver owns a slot."""

    def add(self, receiver: Receiver) -> None:
        """Let ``receiver`` have its slots."""
        ...

    def remove(self, receiver: Receiver) -> None:
        """Take the slots of ``receiver``, which is there, from it."""
        ...

    def select(self, slot: int) -> Receiver | None:
        """Return the owner of the slot, None if it has none."""
        ...

    def slots(self, hashes: Sequence[int]) -> list[int]:
        """Return the slots of keys with these hashes."""
        ...

    def ranges(self) -> Iterable[tuple[int, int, Receiver]]:
        """Return ranges of slots in ascending order: first slot, last slot and owner."""
        ...


def key_hashes(positions: Sequence[Position], entries: Sequence[bytes]) -> list[int]:
    """Return the hashes of the entries' keys. An entry without a key has no order to keep: it gets
    a hash of its own, so that such entries spread over all receivers."""
    unpack, offset = KEY_HASH.unpack_from, KEY_HASH_OFFSET
    hashes: list[int] = [unpack(entry, offset)[0] for entry in entries]
    if 0 in hashes:
        pairs = zip(hashes, positions, strict=True)
        hashes = [known or hash_of_position(position) for known, position in pairs]
    return hashes


def hash_of_position(position: Position) -> int:
    """Return what stands in for the key hash of an entry without a key."""
    return position * SPREAD & 0x7FFFFFFF


def slots_of(hashes: Sequence[int]) -> list[int]:
    """Return slots from 1 on, as Pulsar makes them for ranges of hashes."""
    return [value % SLOTS or 1 for value in hashes]
