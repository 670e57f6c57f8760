"""Listening: the subscriptions of a topic that are told of appends.

The rule: subscriptions that have consumers, or entries that must depart, are told. There may be
thousands of others: they find new entries when a consumer comes, and cost an append nothing.
"""

from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar

from arneb_core.log.memory_log import Log
from arneb_core.subscription.machine import SubscriptionMachine

TOLD_ALL_MAX: Final = 4
"""Up to this many subscriptions are told in any case: cheaper than asking which of them listen."""


class Listener(Protocol):
    """A subscription."""

    machine: SubscriptionMachine


S = TypeVar("S", bound=Listener)


class Listening(Generic[S]):
    """The listening subscriptions of one topic.

    Invariant: each of ``subscriptions`` that :attr:`.SubscriptionState.listens` is in ``_told``,
    where others may remain until the next append.
    """

    def __init__(self, log: Log, subscriptions: Mapping[str, S]) -> None:
        self._log = log
        self._subscriptions = subscriptions
        self._told: dict[S, None] = {}

    def __repr__(self) -> str:
        return f"<Listening, {len(self._told)} of {len(self._subscriptions)}>"

    def begins(self, subscription: S) -> None:
        """Tell ``subscription`` of appends from now on, until it no longer listens."""
        self._told[subscription] = None

    def may_end(self, subscription: S) -> None:
        """Drop ``subscription`` if its last consumer has left and it no longer listens. Otherwise
        the next append would ask thousands that came once."""
        if not subscription.machine.state.listens:
            self.forget(subscription)

    def forget(self, subscription: S) -> None:
        """Drop a removed subscription."""
        self._told.pop(subscription, None)

    def now(self) -> list[S]:
        """Return the subscriptions that an append made now concerns."""
        if self._log.has_expiring:
            return list(self._subscriptions.values())
        found = [each for each in self._told if each.machine.state.listens]
        if len(found) < len(self._told):
            self._told = dict.fromkeys(found)
        return found
