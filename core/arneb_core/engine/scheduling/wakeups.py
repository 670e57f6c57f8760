"""Wake-ups: when subscriptions asked to be woken, the earliest first.

The rule: a subscription has at most one wake-up, the earliest it asked for. A removed subscription
has none and is not kept alive. Those that were replaced do not take memory for long.
"""

from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from arneb_core.engine.subscriptions.subscription import LogSubscription

STALE_MAX: Final = 64
"""Replaced wake-ups are thrown out once there are more of them than this and than valid ones."""


class WakeUps:
    """The wake-ups of one engine, each a time and a number.

    Invariant: every wake-up in ``_valid`` is in ``_heap``, and its number in ``_numbered``; all
    others in ``_heap`` were replaced.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._numbers = count()
        self._valid: dict[LogSubscription, tuple[int, int]] = {}
        self._numbered: dict[int, LogSubscription] = {}

    def __repr__(self) -> str:
        return f"<WakeUps {len(self)}>"

    def __len__(self) -> int:
        return len(self._valid)

    @property
    def soonest_ms(self) -> int | None:
        """When to look again."""
        return self._heap[0][0] if self._heap else None

    def set(self, subscription: LogSubscription, when_ms: int) -> bool:
        """Wake ``subscription`` then, if not before; True when its wake-up is now the earliest
        of all."""
        known = self._valid.get(subscription)
        if known is not None and known[0] <= when_ms:
            return False
        self.forget(subscription)
        wake_up = when_ms, next(self._numbers)
        self._valid[subscription], self._numbered[wake_up[1]] = wake_up, subscription
        heappush(self._heap, wake_up)
        return self._heap[0] == wake_up

    def forget(self, subscription: LogSubscription) -> None:
        """Drop the wake-up of ``subscription``."""
        known = self._valid.pop(subscription, None)
        if known is None:
            return
        del self._numbered[known[1]]
        if len(self._heap) > 2 * len(self._valid) + STALE_MAX:
            self._heap = list(self._valid.values())
            heapify(self._heap)

    def take_due(self, now_ms: int, most: int) -> list[LogSubscription]:
        """Return the ``most`` earliest subscriptions whose time has come, and drop
        their wake-ups."""
        due: list[LogSubscription] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < most:
            _, number = heappop(self._heap)
            subscription = self._numbered.get(number)
            if subscription is not None:
                self.forget(subscription)
                due.append(subscription)
        return due
