"""Anomalies: what a history may show that a broker should not do, each by a name.

The rule: an anomaly says where it is (a subscription or queue), what it is about (a place in the
log, a message, a consumer), and what was seen.
"""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The names; the value is what the command and the tables show."""

    LOST = "lost"
    """Confirmed, or passed by the cursor, and given to nobody."""
    DUPLICATED = "duplicated"
    """Given out again after it was done with."""
    UNFLAGGED = "unflagged"
    """Given out again without the redelivered flag."""
    SHARED = "shared"
    """In flight at two consumers at once."""
    REORDERED = "reordered"
    """New messages came in another order than that in which they stand, or were sent."""
    INVENTED = "invented"
    """Given out, and nobody sent it; or acknowledged, and nobody had it."""
    REFUSED = "refused"
    """Refused to its publisher, and given out all the same."""
    INCOMPLETE = "incomplete"
    """The history itself has a gap, so what follows from silence cannot be said."""
    UNREADABLE = "unreadable"
    """A line that is no line of a history."""


@dataclass(frozen=True, slots=True, order=True)
class Anomaly:
    """One thing that should not be."""

    kind: str
    """The value of a :class:`Kind`."""
    where: str
    """Topic and subscription, or the queue."""
    what: str
    """The place, message or consumer that it is about."""
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where} {self.what}: {self.detail}"


def anomaly(kind: Kind, where: str, what: str, detail: str) -> Anomaly:
    """One thing that should not be."""
    return Anomaly(kind.value, where, what, detail)
