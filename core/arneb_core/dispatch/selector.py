"""A selector: which receiver a key belongs to, and what a key is to it.

The rule: keys are told apart by *slots*, of which there are :data:`SLOTS`, never by their bytes;
and whose a slot is follows from who is there. A selector knows nothing of what is in flight.
Source: Pulsar ``StickyKeyConsumerSelector``.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, Protocol

from arneb_core.api.entry import KEY_HASH_OFFSET
from arneb_core.api.position import Position
from arneb_core.dispatch.receiver import Receiver

SLOTS: Final = 1 << 16
"""The hash of a key is taken modulo this; slot 0 is no key's (Pulsar keeps it for "not set")."""

KEY_HASH: Final = Struct(">I")

SPREAD: Final = 0x9E3779B1
"""Odd, and near the golden ratio of 2**32: multiples of it lie far apart."""


class Selector(Protocol):
    """Decides whose a slot is."""

    def add(self, receiver: Receiver) -> None:
        """``receiver`` came."""
        ...

    def remove(self, receiver: Receiver) -> None:
        """``receiver``, which is there, left."""
        ...

    def select(self, slot: int) -> Receiver | None:
        """Whose the slot is; None = nobody's."""
        ...

    def slots(self, hashes: Sequence[int]) -> list[int]:
        """The slots of keys with these hashes."""
        ...

    def ranges(self) -> Iterable[tuple[int, int, Receiver]]:
        """Which slots are whose, in ascending order: first, last and who has them."""
        ...


def key_hashes(positions: Sequence[Position], entries: Sequence[bytes]) -> list[int]:
    """The hashes of the entries' keys. What has no key has no order to keep: it gets a hash of
    its own, so that all receivers have their part of it."""
    unpack, offset = KEY_HASH.unpack_from, KEY_HASH_OFFSET
    hashes: list[int] = [unpack(entry, offset)[0] for entry in entries]
    if 0 in hashes:
        pairs = zip(hashes, positions, strict=True)
        hashes = [known or hash_of_place(place) for known, place in pairs]
    return hashes


def hash_of_place(place: Position) -> int:
    """What stands for the hash of a key that is not there."""
    return place * SPREAD & 0x7FFFFFFF


def slots_of(hashes: Sequence[int]) -> list[int]:
    """Slots from 1 on, as Pulsar makes them for ranges of hashes."""
    return [value % SLOTS or 1 for value in hashes]
