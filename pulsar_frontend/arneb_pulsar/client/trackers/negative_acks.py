"""Negative acknowledgements: what the application could not handle, until it is asked for again.

The rule: a request is never sent for one entry alone while others are about to be due: times are
rounded up to ticks of 2**precision_bits ms, and everything that is due at one tick is one request
(PIP-393). What waits is held in memory, so it has a bound; who has many messages wait for long
uses ``reconsume_later``, which keeps them in a topic.
"""

from logging import getLogger
from typing import Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff
from arneb_pulsar.client.trackers.timer_wheel import TimerWheel

_log: Final = getLogger(__name__)

DELAY_S: Final = 60.0
"""The official clients' default."""

DELAY_S_MIN: Final = 0.1
"""Less would not leave time to merge requests."""

PRECISION_BITS: Final = 8
"""Ticks of 256 ms, as in Java's client."""

PRECISION_BITS_MAX: Final = 20
"""Ticks of 17 minutes; whoever wants longer ones means something else."""

ENTRIES_MAX: Final = 100_000
"""About 20 MB, and twice what a broker lets one consumer of a shared subscription have."""


class NegativeAcksTracker:
    """The entries of one consumer that wait for their redelivery."""

    def __init__(
        self,
        *,
        delay_s: float = DELAY_S,
        backoff: RedeliveryBackoff | None = None,
        precision_bits: int = PRECISION_BITS,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        check_precision(precision_bits)
        if delay_s < 0 or entries_max < 1:
            raise ConfigurationError(
                f"expected a delay and a bound, got {delay_s} s and {entries_max} entries"
            )
        self._delay_s = max(delay_s, DELAY_S_MIN)
        self._backoff = backoff
        self._entries_max = entries_max
        self._wheel = TimerWheel((1 << precision_bits) / 1000)
        self._has_warned = False

    def __repr__(self) -> str:
        return f"<NegativeAcksTracker {len(self)} waiting, {self._entries_max} at most>"

    def __len__(self) -> int:
        return len(self._wheel)

    def add(self, entry: EntryId, now: float, redelivery_count: int = 0) -> bool:
        """Have ``entry`` redelivered when its delay is over; messages of one batch share it.

        False when the bound is reached: it is redelivered with the next tick.
        """
        if len(self._wheel) >= self._entries_max:
            self._warn()
            self._wheel.put(entry, now)
            return False
        delay_s = self._backoff.delay_s(redelivery_count) if self._backoff else self._delay_s
        self._wheel.put(entry, now + delay_s)
        return True

    def remove(self, entry: EntryId) -> None:
        """``entry`` was acknowledged after all."""
        self._wheel.discard(entry)

    def due(self) -> float | None:
        """When :meth:`expire` has something to give."""
        return self._wheel.due()

    def expire(self, now: float) -> list[EntryId]:
        """What is to be redelivered now, in one request, in the order of the log."""
        taken = self._wheel.take(now)
        if len(self._wheel) < self._entries_max // 2:
            self._has_warned = False
        return taken

    def clear(self) -> None:
        """Everything comes again by itself, or nothing is wanted any more."""
        self._wheel.clear()
        self._has_warned = False

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%d negative acknowledgements are waiting, which is the bound: more are redelivered"
                " without their delay; use reconsume_later for many messages that wait for long",
                self._entries_max,
            )


def check_precision(bits: int) -> None:
    """Raises :class:`ConfigurationError`."""
    if not 0 <= bits <= PRECISION_BITS_MAX:
        raise ConfigurationError(f"expected 0 to {PRECISION_BITS_MAX} precision bits, got {bits}")
