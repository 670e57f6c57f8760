"""Listening: those subscriptions of a topic that are told what is appended.

The rule: whoever has consumers, or has to have something depart, is told. Thousands of others may
be there, each of which finds what came when somebody comes to it; they cost an append nothing.
"""

from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar

from arneb_core.log.memory_log import Log
from arneb_core.subscription.machine import SubscriptionMachine

FEW: Final = 4
"""So many are told in any case by their topic, which costs less than asking whom it concerns."""


class Listener(Protocol):
    """A subscription."""

    machine: SubscriptionMachine


S = TypeVar("S", bound=Listener)


class Listening(Generic[S]):
    """The listening subscriptions of one topic.

    Invariant: each of ``subscriptions`` that :attr:`.SubscriptionState.listens` is in ``_told``,
    where some others may be until the next append.
    """

    def __init__(self, log: Log, subscriptions: Mapping[str, S]) -> None:
        self._log = log
        self._subscriptions = subscriptions
        self._told: dict[S, None] = {}

    def __repr__(self) -> str:
        return f"<Listening, {len(self._told)} of {len(self._subscriptions)}>"

    def begins(self, subscription: S) -> None:
        """It is told from now on, until it listens no more."""
        self._told[subscription] = None

    def may_end(self, subscription: S) -> None:
        """Its last consumer has left. Otherwise thousands that came once were asked at once when
        something is appended."""
        if not subscription.machine.state.listens:
            self.forget(subscription)

    def forget(self, subscription: S) -> None:
        """It is gone."""
        self._told.pop(subscription, None)

    def now(self) -> list[S]:
        """Whom something that is appended now concerns."""
        if self._log.has_expiring:
            return list(self._subscriptions.values())
        found = [each for each in self._told if each.machine.state.listens]
        if len(found) < len(self._told):
            self._told = dict.fromkeys(found)
        return found
