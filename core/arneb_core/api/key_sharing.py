"""Key sharing: what a consumer of a Key_Shared subscription asks for.

The rule: the first consumer decides how keys are shared out, whether order may be given up, and how
much may wait; the others must ask for the same of the first two.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

SlotRange = tuple[int, int]
"""First and last slot of a range of key hashes."""


class KeySharingMode(Enum):
    """How keys are shared out among consumers."""

    HASH_RANGES = "hash ranges"
    """One range a consumer, the biggest is split when one comes."""
    CONSISTENT_HASHING = "consistent hashing"
    STICKY = "sticky"
    """Consumers name their ranges."""


@dataclass(frozen=True, slots=True)
class LookAhead:
    """How many entries may wait for their keys' turn before nothing new is read; 0 = as many as
    there are."""

    per_consumer: int = 2_000
    per_subscription: int = 20_000

    def most(self, consumers: int) -> float:
        """With so many consumers."""
        bounds = self.per_consumer * consumers, self.per_subscription
        return min((each for each in bounds if each), default=math.inf)


AS_PULSAR: Final = LookAhead()


@dataclass(frozen=True, slots=True)
class KeySharing:
    """``ranges`` are for sticky consumers. ``in_order``: a key that moves to another consumer
    stays away from it until the one before has answered all it holds of it."""

    mode: KeySharingMode = KeySharingMode.CONSISTENT_HASHING
    ranges: tuple[SlotRange, ...] = ()
    in_order: bool = True
    look_ahead: LookAhead = AS_PULSAR


IN_ORDER: Final = KeySharing()


@dataclass(frozen=True, slots=True)
class DrainingSlot:
    """A slot that has moved to another consumer, and stays away from it for now."""

    slot: int
    entries: int
    """In flight at the consumer that had it."""
    waiting: int
    """Entries that wait for those to be answered."""


@dataclass(frozen=True, slots=True)
class KeyShare:
    """What one consumer of a Key_Shared subscription has of the keys at one instant."""

    ranges: tuple[SlotRange, ...]
    draining: tuple[DrainingSlot, ...] = ()
    """What it has in flight of slots that are another's by now."""
    drains: bool = True
    """A slot that moves stays away from its new consumer; see :attr:`KeySharing.in_order`."""
    drained_total: int = 0
    """Slots that it had so and has answered since it came."""
