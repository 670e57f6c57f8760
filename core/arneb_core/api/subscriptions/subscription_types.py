"""Subscription types: how a subscription shares its entries among its consumers.

The rule: one row per type. No code compares types; it asks for a trait. So a new type is a row here
and a dispatcher in :mod:`arneb_core.dispatch`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Self


@dataclass(frozen=True, slots=True)
class Traits:
    """What holds for every subscription of a type."""

    title: str
    """Pulsar's name for it."""
    number: int
    """Its number in Pulsar's protocol."""
    one_consumer: bool = False
    """Only one consumer may be attached at a time."""
    one_active: bool = False
    """Several may be attached, one of which gets everything; the others stand by."""
    by_key: bool = False
    """Entries of one key go to one consumer at a time, in order."""
    holds_back_delayed: bool = False
    """Entries that are not due wait; other types deliver them in log order, as in Pulsar."""

    @property
    def sharing(self) -> bool:
        """Several consumers get entries at the same time, so entries are acknowledged singly."""
        return not (self.one_consumer or self.one_active)

    @property
    def cumulative_acks_allowed(self) -> bool:
        """Everything before a consumer's own entries was its own, too."""
        return not self.sharing

    @property
    def divides_groups(self) -> bool:
        """Entries that belong together could go to different consumers unless that is prevented."""
        return self.sharing and not self.by_key


class SubscriptionType(Enum):
    """The types."""

    _value_: str
    traits: Traits

    EXCLUSIVE = "exclusive", Traits("Exclusive", 0, one_consumer=True)
    SHARED = "shared", Traits("Shared", 1, holds_back_delayed=True)
    FAILOVER = "failover", Traits("Failover", 2, one_active=True)
    KEY_SHARED = "key_shared", Traits("Key_Shared", 3, by_key=True, holds_back_delayed=True)

    def __new__(cls, value: str, traits: Traits) -> Self:
        made = object.__new__(cls)
        made._value_, made.traits = value, traits
        return made
