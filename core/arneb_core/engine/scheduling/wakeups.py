"""WakeUps: when subscriptions want to be woken, the earliest first.

The rule: a subscription has at most one alarm, the earliest it asked for. A removed subscription
has none and is not kept alive. WakeUps that were replaced do not take memory for long.
"""

from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from arneb_core.engine.subscriptions.subscription import LogSubscription

STALE_MAX: Final = 64
"""Stale alarms are thrown out when they are more than this and more than the valid ones."""


class WakeUps:
    """The alarms of one engine.

    Invariant: every alarm of ``_set`` is in ``_heap`` and ``_whose``; all others in ``_heap`` are
    stale.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._numbers = count()
        self._set: dict[LogSubscription, tuple[int, int]] = {}
        self._whose: dict[int, LogSubscription] = {}

    def __repr__(self) -> str:
        return f"<WakeUps {len(self)}>"

    def __len__(self) -> int:
        return len(self._set)

    @property
    def soonest_ms(self) -> int | None:
        """When to look again."""
        return self._heap[0][0] if self._heap else None

    def set(self, subscription: LogSubscription, when_ms: int) -> bool:
        """Wake ``subscription`` then, if not before; True when its alarm is now the earliest of
        all."""
        known = self._set.get(subscription)
        if known is not None and known[0] <= when_ms:
            return False
        self.forget(subscription)
        alarm = when_ms, next(self._numbers)
        self._set[subscription], self._whose[alarm[1]] = alarm, subscription
        heappush(self._heap, alarm)
        return self._heap[0] == alarm

    def forget(self, subscription: LogSubscription) -> None:
        """Drop the alarm of ``subscription``."""
        known = self._set.pop(subscription, None)
        if known is None:
            return
        del self._whose[known[1]]
        if len(self._heap) > 2 * len(self._set) + STALE_MAX:
            self._heap = list(self._set.values())
            heapify(self._heap)

    def ring(self, now_ms: int, most: int) -> list[LogSubscription]:
        """Return the ``most`` earliest subscriptions whose time has come, and drop their alarms."""
        due: list[LogSubscription] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < most:
            _, number = heappop(self._heap)
            subscription = self._whose.get(number)
            if subscription is not None:
                self.forget(subscription)
                due.append(subscription)
        return due
