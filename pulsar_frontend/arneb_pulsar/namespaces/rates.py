"""Rates: how much may come for a topic, or go out of it, and how long whoever sent more waits.

The rule: pure, and time is the caller's. No message is refused, as in Pulsar: what comes is taken,
and whoever sent too much is not heard until the rate has made up for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from arneb_pulsar.namespaces.fields import read_flag, read_number, read_table

UNLIMITED: Final = -1
RATE_MAX: Final = 1 << 53
"""Of what comes in a second; what is above counts as this."""
PERIOD_S_MAX: Final = 24 * 60 * 60
"""Of a rate: a day."""


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


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """What may go out in a period; not above 0 = unlimited."""

    messages: int = UNLIMITED
    bytes: int = UNLIMITED
    relative: bool = False
    """As much more as comes in."""
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
        """It bounds anything."""
        return self.messages > 0 or self.bytes > 0


class Budget:
    """A dispatch rate, at work: what may go out now. A period's worth may go out at once, and what
    was too much is made up for."""

    def __init__(self, rate: DispatchRate, now: float) -> None:
        self.rate = rate
        self._left = [float(rate.messages), float(rate.bytes)]
        self._earned_at = now

    def __repr__(self) -> str:
        return f"<Budget of {self.rate}, {self._left[0]:.1f} messages left>"

    def earn(self, now: float, incoming: tuple[float, float]) -> None:
        """Time has passed; so much comes in a second."""
        elapsed_s, self._earned_at = now - self._earned_at, now
        rates = self.rate.messages, self.rate.bytes
        for index, (rate, more) in enumerate(zip(rates, incoming, strict=True)):
            period_s = max(1, self.rate.period_s)  # none, if nobody said how long
            allowed = rate + more * period_s * self.rate.relative
            earned = self._left[index] + allowed * elapsed_s / period_s
            self._left[index] = min(allowed, earned)

    def spend(self, messages: int, size: int) -> None:
        """So much has gone out."""
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
        """How many messages of about that size may go out now."""
        room = RATE_MAX
        if self.rate.messages > 0:
            room = min(room, int(self._left[0]))
        if self.rate.bytes > 0 and room > 0:
            # One larger than a period's worth goes out all the same, and is made up for.
            room = min(
                room, max(1, int(self._left[1] // message_bytes)) if self._left[1] > 0 else 0
            )
        return max(0, room)


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """How often one consumer may subscribe in a period; not above 0 = unlimited."""

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
        """It bounds anything."""
        return self.subscribes > 0


def _period(table: Mapping[str, Any], default: int) -> int:
    period_s = read_number(table, "ratePeriodInSecond", default)
    if period_s > PERIOD_S_MAX:
        text = f"expected {PERIOD_S_MAX} seconds at the most, got {period_s}"
        raise ValueError(f"ratePeriodInSecond: {text}")
    return period_s


@dataclass(frozen=True, slots=True)
class PublishLimits:
    """What a message may be that comes to a topic; 0 = whatever it is."""

    body_bytes_max: int = 0
    delay_ms_max: int = 0
    delays: bool = True
    """Messages may be delivered later; otherwise they are at once, whatever they ask for."""


NO_LIMITS: Final = PublishLimits()


class Throttle:
    """The rate and the limits of one topic, at work. A second's worth may come at once."""

    def __init__(self, rate: PublishRate, now: float, limits: PublishLimits = NO_LIMITS) -> None:
        self.rate = rate
        self.limits = limits
        self.shared: Throttle | None = None
        """Which other topics keep to as well, if any."""
        self.exceeded_total = 0
        """How often more came than the rate allows."""
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
        free_at = max(now, *self._free_at)
        if self.shared is not None:
            free_at = max(free_at, self.shared.spend(messages, size, now))
        self.exceeded_total += free_at > now
        return free_at
