"""Listening: the subscriptions of a topic that are notified of appends.

The rule: subscriptions that have consumers, or entries that must depart, are notified. There may be
thousands of others: they find new entries when a consumer attaches, and cost an append nothing.
"""

from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar

from arneb_core.log.memory_log import Log
from arneb_core.subscription.machine import SubscriptionMachine

NOTIFY_ALL_MAX: Final = 4
"""Up to this many subscriptions are all notified: cheaper than asking which of them listen."""


class Listener(Protocol):
    """A subscription."""

    machine: SubscriptionMachine


S = TypeVar("S", bound=Listener)


class Listening(Generic[S]):
    """The listening subscriptions of one topic.

    Invariant: each of ``subscriptions`` that :attr:`.SubscriptionState.listens` is in
    ``_listeners``, where others may remain until the next append.
    """

    def __init__(self, log: Log, subscriptions: Mapping[str, S]) -> None:
        self._log = log
        self._subscriptions = subscriptions
        self._listeners: dict[S, None] = {}

    def __repr__(self) -> str:
        return f"<Listening, {len(self._listeners)} of {len(self._subscriptions)}>"

    def begins(self, subscription: S) -> None:
        """Notify ``subscription`` of appends from now on, until it no longer listens."""
        self._listeners[subscription] = None

    def may_end(self, subscription: S) -> None:
        """Drop ``subscription`` if its last consumer has left and it no longer listens. Otherwise
        the next append would ask thousands that had a consumer once."""
        if not subscription.machine.state.listens:
            self.forget(subscription)

    def forget(self, subscription: S) -> None:
        """Drop a removed subscription."""
        self._listeners.pop(subscription, None)

    def now(self) -> list[S]:
        """Return the subscriptions that an append made now concerns."""
        if self._log.has_expiring:
            return list(self._subscriptions.values())
        found = [each for each in self._listeners if each.machine.state.listens]
        if len(found) < len(self._listeners):
            self._listeners = dict.fromkeys(found)
        return found
