"""Anomalies: what a history may show that a broker must not do, each with a name.

The rule: an anomaly says where it is (a subscription or queue), what it concerns (a position in the
log, a message, a consumer), and what was seen.
"""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds of anomalies; the command and the tables show the value."""

    LOST = "lost"
    """Confirmed, or passed by the cursor, but never delivered."""
    DUPLICATED = "duplicated"
    """Delivered again after it was done."""
    UNFLAGGED = "unflagged"
    """Delivered again without the redelivered flag."""
    SHARED = "shared"
    """In flight at two consumers at the same time."""
    REORDERED = "reordered"
    """New messages were delivered in another order than that of the log, or of sending."""
    INVENTED = "invented"
    """Delivered but never sent, or acknowledged but never delivered."""
    REFUSED = "refused"
    """Refused to its publisher but delivered."""
    INCOMPLETE = "incomplete"
    """The history itself has a gap, so nothing follows from missing lines."""
    UNREADABLE = "unreadable"
    """A line that is not valid in a history."""


@dataclass(frozen=True, slots=True, order=True)
class Anomaly:
    """One thing that should not be."""

    kind: str
    """The value of a :class:`Kind`."""
    where: str
    """Topic and subscription, or the queue."""
    what: str
    """The position, message or consumer that it concerns."""
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where} {self.what}: {self.detail}"


def anomaly(kind: Kind, where: str, what: str, detail: str) -> Anomaly:
    """One thing that should not be."""
    return Anomaly(kind.value, where, what, detail)
