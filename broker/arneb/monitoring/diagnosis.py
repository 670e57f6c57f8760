"""A diagnosis: why a queue grows, or does not, in one sentence.

The rule: figures in, a sentence out. Unknown figures are not mentioned. The first cause in the
order below that applies is named: a cause that stops everything precedes one that slows it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

NOTICED_PER_S: Final = 0.5
"""Growth below this counts as none: half a message a second."""

HELD_SHARE: Final = 0.9
"""A consumer that holds at least this share of the unacknowledged messages is named."""

HELD_MIN: Final = 10
"""With fewer unacknowledged messages, no consumer's share is reported."""

REPEATED_SHARE: Final = 0.5
"""With a larger share of redeliveries, these are what keeps consumers busy."""

MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S


class Cause(Enum):
    """Why a queue grows, or does not."""

    UNREADABLE = "unreadable"
    EMPTY = "empty"
    DELAYED = "delayed"
    NO_CONSUMERS = "no consumers"
    BLOCKED = "blocked"
    ONE_HOLDS = "one consumer holds most"
    REPEATED = "redelivered"
    EXPIRING = "expiring"
    AT_PREFETCH = "at prefetch"
    TOO_SLOW = "too slow"
    DRAINING = "draining"
    STEADY = "steady"

    @property
    def asks_for_attention(self) -> bool:
        """Whether somebody should look at it."""
        return self not in _CALM


_CALM: Final = frozenset({Cause.EMPTY, Cause.DELAYED, Cause.DRAINING, Cause.STEADY})


@dataclass(frozen=True, slots=True)
class Figures:
    """The known figures of a queue. Rates are messages a second."""

    ready: int
    unacknowledged: int = 0
    delayed: int = 0
    """Messages that are not due yet, not counted in ``ready``."""
    consumers: int = 0
    full: int = 0
    """Consumers whose window is full."""
    largest_holder: str = ""
    largest_held: int = 0
    """The consumer with the most unacknowledged messages, and how many it has."""
    incoming: float = 0.0
    delivered: float = 0.0
    acknowledged: float = 0.0
    redelivered: float = 0.0
    expired: float = 0.0
    messages_max: int | None = None
    blocked_by: str = ""
    """The alarm that blocks publishers: ``memory`` or ``disk``."""
    unreadable: bool = False
    """Whether deliveries have stopped at a message that cannot be read."""

    @property
    def messages(self) -> int:
        """All messages, ready or unacknowledged."""
        return self.ready + self.unacknowledged

    @property
    def growth(self) -> float:
        """By how many messages the queue grows in a second."""
        return self.incoming - self.acknowledged - self.expired


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A cause, and a sentence that explains it."""

    cause: Cause
    sentence: str


def diagnose(of: Figures) -> Diagnosis:
    """Say why a queue grows, or does not."""
    for look in _LOOKS:
        if (found := look(of)) is not None:
            return found
    return _steady(of)


def _unreadable(of: Figures) -> Diagnosis | None:
    if not of.unreadable:
        return None
    return Diagnosis(
        Cause.UNREADABLE,
        "Deliveries stand still in front of a message that cannot be read from disk; "
        "run `arneb check`.",
    )


def _empty(of: Figures) -> Diagnosis | None:
    if of.messages or of.delayed:
        return None
    flowing = of.incoming >= NOTICED_PER_S
    sentence = f"Empty: consumers keep up with {_rate(of.incoming)}." if flowing else "Empty."
    return Diagnosis(Cause.EMPTY, sentence)


def _delayed(of: Figures) -> Diagnosis | None:
    if not of.delayed or of.messages:
        return None
    return Diagnosis(Cause.DELAYED, f"Waits for its time: {_messages(of.delayed)} not due yet.")


def _no_consumers(of: Figures) -> Diagnosis | None:
    if of.consumers:
        return None
    sentence = f"Nobody consumes: {_messages(of.messages)} waiting"
    if of.incoming >= NOTICED_PER_S:
        sentence += f", {_rate(of.incoming)} coming in{_full_in(of)}"
    elif of.blocked_by:
        sentence += f", and publishers wait for the {of.blocked_by} alarm"
    return Diagnosis(Cause.NO_CONSUMERS, f"{sentence}.")


def _blocked(of: Figures) -> Diagnosis | None:
    if not of.blocked_by or of.incoming >= NOTICED_PER_S:
        return None
    return Diagnosis(
        Cause.BLOCKED,
        f"Publishers wait for the {of.blocked_by} alarm; {_messages(of.messages)} left to consume.",
    )


def _one_holds(of: Figures) -> Diagnosis | None:
    held, everything = of.largest_held, of.unacknowledged
    # The two were counted one after the other: messages counted for a consumer may already be
    # acknowledged in the sum.
    if of.consumers < 2 or everything < HELD_MIN or held < HELD_SHARE * everything:
        return None
    share = min(100, round(100 * held / everything))
    return Diagnosis(
        Cause.ONE_HOLDS,
        f"One consumer of {of.consumers} ({of.largest_holder}) holds {share} % of "
        f"{_messages(everything)} unacknowledged.",
    )


def _repeated(of: Figures) -> Diagnosis | None:
    busy = of.delivered >= NOTICED_PER_S
    if not busy or of.redelivered < REPEATED_SHARE * of.delivered:
        return None
    return Diagnosis(
        Cause.REPEATED,
        f"Consumers give messages back: {_rate(of.redelivered)} of {_rate(of.delivered)} "
        "delivered were there before.",
    )


def _expiring(of: Figures) -> Diagnosis | None:
    if of.expired < NOTICED_PER_S or of.expired <= of.acknowledged:
        return None
    return Diagnosis(
        Cause.EXPIRING,
        f"More expires ({_rate(of.expired)}) than is consumed ({_rate(of.acknowledged)}).",
    )


def _growing(of: Figures) -> Diagnosis | None:
    if of.growth < NOTICED_PER_S:
        return None
    acknowledging = f"acknowledging {_rate(of.acknowledged)} for {_rate(of.incoming)} coming in"
    who = "The consumer is" if of.consumers == 1 else f"All {of.consumers} consumers are"
    if of.full >= of.consumers:
        its = "its" if of.consumers == 1 else "their"
        return Diagnosis(
            Cause.AT_PREFETCH, f"{who} at {its} prefetch and {acknowledging}{_full_in(of)}."
        )
    return Diagnosis(Cause.TOO_SLOW, f"{who} {acknowledging}{_full_in(of)}.")


def _stuck(of: Figures) -> Diagnosis | None:
    if of.acknowledged >= NOTICED_PER_S or of.full < of.consumers or not of.unacknowledged:
        return None
    who = "The consumer has" if of.consumers == 1 else f"All {of.consumers} consumers have"
    return Diagnosis(
        Cause.AT_PREFETCH,
        f"{who} as many messages as allowed ({_messages(of.unacknowledged)}) and "
        "acknowledge nothing." if of.consumers > 1 else
        f"{who} as many messages as allowed ({_messages(of.unacknowledged)}) and "
        "acknowledges nothing.",
    )  # fmt: skip


def _draining(of: Figures) -> Diagnosis | None:
    if of.growth > -NOTICED_PER_S:
        return None
    left_s = of.messages / -of.growth
    return Diagnosis(
        Cause.DRAINING, f"Shrinks by {_rate(-of.growth)}: empty in about {time_in_words(left_s)}."
    )


def _steady(of: Figures) -> Diagnosis:
    if max(of.acknowledged, of.incoming) >= NOTICED_PER_S:
        rates = f"{_rate(of.acknowledged)} acknowledged for {_rate(of.incoming)} in"
        return Diagnosis(Cause.STEADY, f"Steady: {rates}.")
    where = f"{_messages(of.unacknowledged)} at consumers"
    if of.ready:
        where = f"{_messages(of.ready)} waiting, {of.unacknowledged:,} at consumers"
    return Diagnosis(Cause.STEADY, f"Nothing moves: {where}.")


_LOOKS: Final = (
    _unreadable, _empty, _delayed, _no_consumers, _blocked, _one_holds, _repeated, _expiring,
    _growing, _stuck, _draining,
)  # fmt: skip
"""The checks in order of precedence."""


def _full_in(of: Figures) -> str:
    if of.messages_max is None or of.growth <= 0 or of.messages >= of.messages_max:
        return ""
    return f", full in about {time_in_words((of.messages_max - of.messages) / of.growth)}"


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def time_in_words(seconds: float) -> str:
    """Return a duration in words, such as ``3 h``."""
    for unit_s, name in ((DAY_S, "days"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= 1.5 * unit_s:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{max(1, seconds):.0f} s"
