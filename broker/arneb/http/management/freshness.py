"""Freshness: for how long what took long to find out is told again.

The rule: what is asked for each second by many who look takes a small part of the broker's time,
however much there is; and nobody is told for longer than that needs what is not so any more. (As
RabbitMQ's management page, which gives a list again for five times as long as it took.)
"""

from typing import Final

SHORT_S: Final = 0.002
"""What takes no longer is found out each time."""

REST: Final = 50
"""What took a second to find out is told for fifty, a fiftieth of the time."""

SPARING_REST: Final = 200
"""A two-hundredth of the time, as long as that is not too old."""

SPARING_S: Final = 5.0
"""Too old to be told only to spare more than :data:`REST` does: who has made something happen looks
whether it has."""


def fresh_for_s(took_s: float, sparing_s: float = SPARING_S) -> float:
    """For how long it is told again, in seconds; no longer than ``sparing_s`` only to spare."""
    if took_s <= SHORT_S:
        return 0.0
    return max(REST * took_s, min(SPARING_REST * took_s, sparing_s))
