"""Unacknowledged messages: what the application has and has not acknowledged in time.

The rule: the timeout begins when the application gets a message. What was prefetched and waits in
the receiver queue has no timeout, and is somebody else's only when the consumer closes.
"""

from math import ceil
from typing import Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff
from arneb_pulsar.client.trackers.timer_wheel import TimerWheel

ACK_TIMEOUT_S_MIN: Final = 1.0
"""Java's bound. Less makes messages come twice because a machine was busy."""

TICK_S: Final = 1.0
"""Java's default; never longer than the timeout itself."""


class UnackedMessageTracker:
    """The entries of one consumer that its application has in hand.

    A wheel of ``ceil(ack_timeout_s / tick_s) + 1`` slots: what is new goes into the last one, and
    the first is emptied with every tick. So an entry expires between its timeout and one tick
    later. With a ``backoff`` an entry waits longer each time that it comes.

    A batch is one entry, and redelivered as one: its time begins anew with every message of it
    that the application gets, so that a batch that is worked through slowly does not expire.
    """

    def __init__(
        self,
        *,
        ack_timeout_s: float,
        tick_s: float = TICK_S,
        backoff: RedeliveryBackoff | None = None,
    ) -> None:
        if ack_timeout_s < ACK_TIMEOUT_S_MIN:
            raise ConfigurationError(
                f"expected an ack timeout of at least {ACK_TIMEOUT_S_MIN} s, got {ack_timeout_s}"
            )
        if tick_s <= 0:
            raise ConfigurationError(f"expected a tick of more than 0 s, got {tick_s}")
        self._tick_s = min(tick_s, ack_timeout_s)
        self._timeout_s = self._rounded(ack_timeout_s)
        self._backoff = backoff
        self._wheel = TimerWheel(self._tick_s)

    def __repr__(self) -> str:
        return f"<UnackedMessageTracker {len(self)} in hand, {self._timeout_s} s each>"

    def __len__(self) -> int:
        return len(self._wheel)

    def add(self, entry: EntryId, now: float, redelivery_count: int = 0) -> None:
        """The application has got ``entry``, or one more message of it."""
        timeout_s = self._timeout_s
        if self._backoff is not None:
            timeout_s = max(timeout_s, self._rounded(self._backoff.delay_s(redelivery_count)))
        self._wheel.put(entry, now + timeout_s)

    def remove(self, entry: EntryId) -> None:
        """``entry`` was acknowledged, or given back."""
        self._wheel.discard(entry)

    def remove_up_to(self, entry: EntryId) -> int:
        """``entry`` was acknowledged cumulatively; how many entries are let go of."""
        return self._wheel.discard_up_to(entry)

    def due(self) -> float | None:
        """When :meth:`expire` has something to give."""
        return self._wheel.due()

    def expire(self, now: float) -> list[EntryId]:
        """What is to be redelivered, in the order of the log."""
        return self._wheel.take(now)

    def clear(self) -> None:
        """Everything comes again by itself."""
        self._wheel.clear()

    def _rounded(self, seconds: float) -> float:
        return ceil(seconds / self._tick_s) * self._tick_s
