"""Subscription types: how a subscription shares its entries among its consumers.

The rule: one row a type. Nobody compares types: whoever has to know something of one asks for the
trait. So a new type is a row here and a dispatcher in :mod:`arneb_core.dispatch`.
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
    """Its number, where types are numbered: Pulsar's in its protocol."""
    one_consumer: bool = False
    """While one consumer is attached, nobody else may be."""
    one_active: bool = False
    """Several may be attached, one of which gets everything; the others wait."""
    by_key: bool = False
    """Entries of one key go to one consumer at a time, in order."""
    holds_back_delayed: bool = False
    """What is not due yet waits; elsewhere it is delivered in log order, as in Pulsar."""

    @property
    def sharing(self) -> bool:
        """Several consumers get entries at the same time, so each entry counts alone."""
        return not (self.one_consumer or self.one_active)

    @property
    def cumulative_acks_allowed(self) -> bool:
        """Whatever lies before one's own entries was one's own too."""
        return not self.sharing

    @property
    def divides_groups(self) -> bool:
        """Entries that belong together could go to different consumers, unless somebody sees to
        it that they do not."""
        return self.sharing and not self.by_key


class SubscriptionType(Enum):
    """The types that there are."""

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
