"""Rates: how much may be published to a topic or dispatched from it, and how long an excess waits.

The rule: pure, and time is an argument. No message is refused, as in Pulsar: everything is
accepted, and a client that sent too much is not read until the rate has made up for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from arneb_pulsar.namespaces.fields import read_flag, read_number, read_table

UNLIMITED: Final = -1
RATE_MAX: Final = 1 << 53
"""Messages or bytes per second or period; higher rates count as this."""
PERIOD_S_MAX: Final = 24 * 60 * 60
"""Seconds of a rate's period: a day."""


@dataclass(frozen=True, slots=True)
class PublishRate:
    """Messages and bytes per second; 0 or less = unlimited."""

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
        """Whether it bounds anything."""
        return self.messages > 0 or self.bytes > 0


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """What may go out in a period; 0 or less = unlimited."""

    messages: int = UNLIMITED
    bytes: int = UNLIMITED
    relative: bool = False
    """What comes in may go out on top of it."""
    period_s: int = 1

    @classmethod
    def parse(cls, document: Any) -> Self:
        table = read_table(document)
        names = "dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte"
        messages, size = (min(read_number(table, name, 0), RATE_MAX) for name in names)
        relative = read_flag(table.get("relativeToPublishRate"))
        return cls(messages, size, relative, _period(table, 0))

    @property
    def document(self) -> Any:
        return {
            "dispatchThrottlingRateInMsg": self.messages,
            "dispatchThrottlingRateInByte": self.bytes,
            "relativeToPublishRate": self.relative,
            "ratePeriodInSecond": self.period_s,
        }

    @property
    def limits(self) -> bool:
        """Whether it bounds anything."""
        return self.messages > 0 or self.bytes > 0


class Budget:
    """A dispatch rate at work: what may go out now. A period's worth may go out at once, and an
    excess is made up for."""

    def __init__(self, rate: DispatchRate, now: float) -> None:
        self.rate = rate
        self._left = [float(rate.messages), float(rate.bytes)]
        self._earned_at = now

    def __repr__(self) -> str:
        return f"<Budget of {self.rate}, {self._left[0]:.1f} messages left>"

    def earn(self, now: float, incoming: tuple[float, float]) -> None:
        """Add what was earned since the last call; ``incoming`` is what comes per second."""
        elapsed_s, self._earned_at = now - self._earned_at, now
        rates = self.rate.messages, self.rate.bytes
        for index, (rate, more) in enumerate(zip(rates, incoming, strict=True)):
            period_s = max(1, self.rate.period_s)  # 0 if unset
            allowed = rate + more * period_s * self.rate.relative
            earned = self._left[index] + allowed * elapsed_s / period_s
            self._left[index] = min(allowed, earned)

    def spend(self, messages: int, size: int) -> None:
        """Count what has gone out."""
        self._left[0] -= messages
        self._left[1] -= size

    @property
    def is_out_of_messages(self) -> bool:
        """No message may go out now."""
        return self.rate.messages > 0 and self._left[0] < 1

    @property
    def is_out_of_bytes(self) -> bool:
        """No byte may go out now."""
        return self.rate.bytes > 0 and self._left[1] <= 0

    def messages(self, message_bytes: int) -> int:
        """Return how many messages of about that size may go out now."""
        room = RATE_MAX
        if self.rate.messages > 0:
            room = min(room, int(self._left[0]))
        if self.rate.bytes > 0 and room > 0:
            # A message larger than a period's worth still goes out, and is made up for.
            room = min(
                room, max(1, int(self._left[1] // message_bytes)) if self._left[1] > 0 else 0
            )
        return max(0, room)


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """How often one consumer may subscribe in a period; 0 or less = unlimited."""

    subscribes: int = UNLIMITED
    period_s: int = 30

    @classmethod
    def parse(cls, document: Any) -> Self:
        table = read_table(document)
        subscribes = read_number(table, "subscribeThrottlingRatePerConsumer", UNLIMITED)
        return cls(min(subscribes, RATE_MAX), _period(table, 30))

    @property
    def document(self) -> Any:
        return {
            "subscribeThrottlingRatePerConsumer": self.subscribes,
            "ratePeriodInSecond": self.period_s,
        }

    @property
    def limits(self) -> bool:
        """Whether it bounds anything."""
        return self.subscribes > 0


def _period(table: Mapping[str, Any], default: int) -> int:
    period_s = read_number(table, "ratePeriodInSecond", default)
    if period_s > PERIOD_S_MAX:
        text = f"expected {PERIOD_S_MAX} seconds at the most, got {period_s}"
        raise ValueError(f"ratePeriodInSecond: {text}")
    return period_s


@dataclass(frozen=True, slots=True)
class PublishLimits:
    """The limits on messages of a topic; 0 = no limit."""

    body_bytes_max: int = 0
    delay_ms_max: int = 0
    delays: bool = True
    """Messages may be delayed; if not, they are delivered at once whatever they ask for."""


NO_LIMITS: Final = PublishLimits()


class Throttle:
    """The rate and the limits of one topic at work. A second's worth may come at once."""

    def __init__(self, rate: PublishRate, now: float, limits: PublishLimits = NO_LIMITS) -> None:
        self.rate = rate
        self.limits = limits
        self.shared: Throttle | None = None
        """The throttle shared with other topics, if any."""
        self.exceeded_total = 0
        """How often more came than the rate allows."""
        self._free_at = [now - 1.0, now - 1.0]
        """When what has come is made up for, in messages and in bytes."""

    def __repr__(self) -> str:
        return f"<Throttle to {self.rate}, free at {max(self._free_at):.3f}>"

    def spend(self, messages: int, size: int, now: float) -> float:
        """Count what has come; return the time from which on more may."""
        for index, (rate, came) in enumerate(
            ((self.rate.messages, messages), (self.rate.bytes, size))
        ):
            if rate > 0:
                begin = max(self._free_at[index], now - 1.0)
                self._free_at[index] = begin + came / rate
        free_at = max(now, *self._free_at)
        if self.shared is not None:
            free_at = max(free_at, self.shared.spend(messages, size, now))
        self.exceeded_total += free_at > now
        return free_at
