"""Publish rates: how much may come for a topic in a second, and how long its producers wait.

The rule: pure, and time is the caller's. Nothing is refused, as in Pulsar: what comes is taken,
and whoever sent too much is not heard until the rate has made up for it.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

from arneb_pulsar.namespaces.fields import read_number, read_table

UNLIMITED: Final = -1
RATE_MAX: Final = 1 << 53
"""Of what comes in a second; what is above counts as this."""


@dataclass(frozen=True, slots=True)
class PublishRate:
    """Messages and bytes a second; not above 0 = unlimited."""

    messages: int = UNLIMITED
    bytes: int = UNLIMITED

    @classmethod
    def parse(cls, document: Any) -> Self:
        table = read_table(document)
        names = "publishThrottlingRateInMsg", "publishThrottlingRateInByte"
        return cls(*(min(read_number(table, name, UNLIMITED), RATE_MAX) for name in names))

    @property
    def document(self) -> Any:
        return {
            "publishThrottlingRateInMsg": self.messages,
            "publishThrottlingRateInByte": self.bytes,
        }

    @property
    def limits(self) -> bool:
        """It bounds anything."""
        return self.messages > 0 or self.bytes > 0


class Throttle:
    """The rate of one topic, at work. A second's worth may come at once."""

    def __init__(self, rate: PublishRate, now: float) -> None:
        self.rate = rate
        self._free_at = [now - 1.0, now - 1.0]
        """When what has come will be made up for, in messages and in bytes."""

    def __repr__(self) -> str:
        return f"<Throttle to {self.rate}, free at {max(self._free_at):.3f}>"

    def spend(self, messages: int, size: int, now: float) -> float:
        """So much has come; the time from which on more may."""
        for index, (rate, came) in enumerate(
            ((self.rate.messages, messages), (self.rate.bytes, size))
        ):
            if rate > 0:
                begin = max(self._free_at[index], now - 1.0)
                self._free_at[index] = begin + came / rate
        return max(now, *self._free_at)
