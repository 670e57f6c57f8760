"""Negative acknowledgements: entries that wait until their redelivery is requested.

The rule: entries due at about the same time share a request: times are rounded up to ticks of
2**precision_bits ms, and all entries due at one tick are requested together (PIP-393). The waiting
entries are in memory, so they are bounded; applications that delay many messages for long should
use ``reconsume_later``, which keeps them in a topic.
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
"""The shortest delay; less would leave no time to merge requests."""

PRECISION_BITS: Final = 8
"""Ticks of 256 ms, as in Java's client."""

PRECISION_BITS_MAX: Final = 20
"""Ticks of 17 minutes; a larger number is surely a mistake."""

ENTRIES_MAX: Final = 100_000
"""Waiting entries: about 20 MB, and twice what a broker lets one consumer of a Shared subscription
have unacknowledged."""


class NegativeAcksTracker:
    """The entries of one consumer that wait for redelivery."""

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
        """Have ``entry`` redelivered after its delay; the messages of a batch share the delay.

        Return False if the bound is reached: it is then redelivered at the next tick.
        """
        if len(self._wheel) >= self._entries_max:
            self._warn()
            self._wheel.put(entry, now)
            return False
        delay_s = self._backoff.delay_s(redelivery_count) if self._backoff else self._delay_s
        self._wheel.put(entry, now + delay_s)
        return True

    def remove(self, entry: EntryId) -> None:
        """Forget ``entry``, which was acknowledged after all."""
        self._wheel.discard(entry)

    def due(self) -> float | None:
        """Return when :meth:`expire` next returns entries; None if there are none."""
        return self._wheel.due()

    def expire(self, now: float) -> list[EntryId]:
        """Remove and return the entries to be redelivered now, in the order of the log."""
        taken = self._wheel.take(now)
        if len(self._wheel) < self._entries_max // 2:
            self._has_warned = False
        return taken

    def clear(self) -> None:
        """Forget everything: it will be redelivered anyway, or is not wanted any more."""
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
    """Raise :class:`ConfigurationError` unless ``bits`` is in range."""
    if not 0 <= bits <= PRECISION_BITS_MAX:
        raise ConfigurationError(f"expected 0 to {PRECISION_BITS_MAX} precision bits, got {bits}")
