"""Alarms: when subscriptions want to be woken, the earliest first.

The rule: a subscription has one alarm at the most, the earliest that it asked for, and one that
is gone has none and is not held; what alarms were set before costs no memory for long.
"""

from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from arneb_core.engine.subscription import LogSubscription

STALE_MAX: Final = 64
"""Alarms that are valid no more are thrown out when they are more than this and than the others."""


class Alarms:
    """The alarms of one engine.

    Invariant: every alarm of ``_set`` is in ``_heap`` and ``_whose``; what else is in ``_heap`` is
    stale.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._numbers = count()
        self._set: dict[LogSubscription, tuple[int, int]] = {}
        self._whose: dict[int, LogSubscription] = {}

    def __repr__(self) -> str:
        return f"<Alarms {len(self)}>"

    def __len__(self) -> int:
        return len(self._set)

    @property
    def soonest_ms(self) -> int | None:
        """When to look again."""
        return self._heap[0][0] if self._heap else None

    def set(self, subscription: LogSubscription, when_ms: int) -> bool:
        """Wake ``subscription`` then, if not before; True when nobody else is to be woken
        earlier."""
        known = self._set.get(subscription)
        if known is not None and known[0] <= when_ms:
            return False
        self.forget(subscription)
        alarm = when_ms, next(self._numbers)
        self._set[subscription], self._whose[alarm[1]] = alarm, subscription
        heappush(self._heap, alarm)
        return self._heap[0] == alarm

    def forget(self, subscription: LogSubscription) -> None:
        """It is not to be woken."""
        known = self._set.pop(subscription, None)
        if known is None:
            return
        del self._whose[known[1]]
        if len(self._heap) > 2 * len(self._set) + STALE_MAX:
            self._heap = list(self._set.values())
            heapify(self._heap)

    def ring(self, now_ms: int, most: int) -> list[LogSubscription]:
        """Those whose time has come, ``most`` of them, the earliest; their alarms are off."""
        due: list[LogSubscription] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < most:
            _, number = heappop(self._heap)
            subscription = self._whose.get(number)
            if subscription is not None:
                self.forget(subscription)
                due.append(subscription)
        return due
