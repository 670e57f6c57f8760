"""Admission: how much of the backlog a micro-batch takes; pure.

The rule: a limit is shared in proportion to the backlogs, so that all topics reach their ends
together, and the shares never exceed the limit. Every topic with a backlog gets at least one entry,
though, so that large topics cannot starve it. Spark has no limit of rows *and* bytes, so both are
combined here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arneb_core.api.entries.position import Position
from pyspark_arneb.stream.backlog import NO_BOUND, Backlog, total


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one micro-batch may take, all topics together."""

    messages_max: int | None = None
    bytes_max: int | None = None


NO_LIMITS: Final = Limits()


def admit(backlogs: Sequence[Backlog], limits: Limits) -> list[Position]:
    """Return where the micro-batch ends in each topic."""
    messages, bytes_total = total(backlogs)
    by_messages = _bounds([backlog.messages for backlog in backlogs], messages, limits.messages_max)
    by_bytes = _bounds([backlog.bytes_total for backlog in backlogs], bytes_total, limits.bytes_max)
    return [
        backlog.take(messages_max, bytes_max)
        for backlog, messages_max, bytes_max in zip(backlogs, by_messages, by_bytes, strict=True)
    ]


def _bounds(sizes: Sequence[int], together: int, limit: int | None) -> Sequence[int]:
    if limit is None or together <= limit:
        return [NO_BOUND] * len(sizes)
    return shares(sizes, limit)


def shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Divide ``limit`` in proportion to ``sizes``, whose sum is larger, into whole numbers that add
    up to ``limit``, none larger than its size (the method of largest remainders)."""
    together = sum(sizes)
    assert together > limit, "there is nothing to share out when all of it fits"
    quotas = [divmod(limit * size, together) for size in sizes]
    found = [whole for whole, _ in quotas]
    left = limit - sum(found)
    largest = sorted(range(len(sizes)), key=lambda index: -quotas[index][1])
    for index in largest[:left]:
        found[index] += 1
    return found
