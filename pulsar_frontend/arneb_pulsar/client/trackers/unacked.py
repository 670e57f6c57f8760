"""Unacknowledged messages: those that the application holds, and when their timeout passes.

The rule: the timeout begins when the application gets a message. Messages that wait in the receiver
queue have none, and go to other consumers only when this one closes.
"""

from math import ceil
from typing import Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff
from arneb_pulsar.client.trackers.timer_wheel import TimerWheel

ACK_TIMEOUT_S_MIN: Final = 1.0
"""Java's bound. With less, a busy machine alone would cause redeliveries."""

TICK_S: Final = 1.0
"""Java's default; never longer than the timeout itself."""


class UnackedMessageTracker:
    """The entries of one consumer that its application holds unacknowledged.

    An entry expires between its timeout, rounded up to ticks, and one tick later. With a
    ``backoff`` an entry gets more time with each redelivery.

    A batch is one entry, and redelivered as one: its timeout restarts with each of its messages
    that the application gets, so that a batch processed slowly does not expire.
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
        """Start the timeout of ``entry``, or restart it for one more of its messages."""
        timeout_s = self._timeout_s
        if self._backoff is not None:
            timeout_s = max(timeout_s, self._rounded(self._backoff.delay_s(redelivery_count)))
        self._wheel.put(entry, now + timeout_s)

    def remove(self, entry: EntryId) -> None:
        """Forget ``entry``, which was acknowledged, positively or negatively."""
        self._wheel.discard(entry)

    def remove_up_to(self, entry: EntryId) -> int:
        """Forget ``entry`` and all before it; return how many entries were forgotten."""
        return self._wheel.discard_up_to(entry)

    def due(self) -> float | None:
        """Return when :meth:`expire` next returns entries; None if there are none."""
        return self._wheel.due()

    def expire(self, now: float) -> list[EntryId]:
        """Remove and return the entries to be redelivered, in the order of the log."""
        return self._wheel.take(now)

    def clear(self) -> None:
        """Forget everything: it will be redelivered anyway."""
        self._wheel.clear()

    def _rounded(self, seconds: float) -> float:
        return ceil(seconds / self._tick_s) * self._tick_s
