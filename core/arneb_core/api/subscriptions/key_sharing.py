"""Key sharing: what a consumer of a Key_Shared subscription asks for.

The rule: the first consumer decides how keys are shared out, whether order may be given up, and how
many entries may wait; later ones must agree on the first two.
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
    """One range per consumer; the largest is split when a consumer comes."""
    CONSISTENT_HASHING = "consistent hashing"
    STICKY = "sticky"
    """Consumers name their ranges."""


@dataclass(frozen=True, slots=True)
class LookAhead:
    """How many entries may wait for their keys' turn before no new ones are read; 0: any number."""

    per_consumer: int = 2_000
    per_subscription: int = 20_000

    def most(self, consumers: int) -> float:
        """Return the bound for that many consumers."""
        bounds = self.per_consumer * consumers, self.per_subscription
        return min((each for each in bounds if each), default=math.inf)


AS_PULSAR: Final = LookAhead()


@dataclass(frozen=True, slots=True)
class KeySharing:
    """``ranges`` are for sticky consumers. ``in_order``: a key that moves to another consumer is
    withheld from it until the previous one has answered all entries of that key."""

    mode: KeySharingMode = KeySharingMode.CONSISTENT_HASHING
    ranges: tuple[SlotRange, ...] = ()
    in_order: bool = True
    look_ahead: LookAhead = AS_PULSAR


IN_ORDER: Final = KeySharing()


@dataclass(frozen=True, slots=True)
class DrainingSlot:
    """A slot that has moved to another consumer and is withheld from it for now."""

    slot: int
    entries: int
    """Entries in flight at the previous consumer."""
    waiting: int
    """Entries that wait until those are answered."""


@dataclass(frozen=True, slots=True)
class KeyShare:
    """One consumer's share of the keys of a Key_Shared subscription, at one instant."""

    ranges: tuple[SlotRange, ...]
    draining: tuple[DrainingSlot, ...] = ()
    """Slots with entries in flight here that belong to another consumer by now."""
    drains: bool = True
    """A slot that moves is withheld from its new consumer; see :attr:`KeySharing.in_order`."""
    drained_total: int = 0
    """Such slots that it has answered completely since it attached."""
