"""A tracker: what every index of a topic's delayed entries can do.

The rule: an index belongs to the topic, not to a subscription. It knows positions and times, never
entries; it neither hands out nor removes anything by itself, but answers "what comes due after this
key?" for each subscription. The name is Pulsar's (``DelayedDeliveryTracker``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey, TimedRun
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed

NEVER_MS: Final = 1 << 63

OnRead = Callable[[StoreFailed | None], None]
"""Called when it is worth asking again, or with the reason why it failed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What comes due after a key."""

    keys: Sequence[DueKey]
    """In order, without gaps."""
    next_ms: int
    """There is nothing more before this time; a time that has come means at once."""


class DelayedDeliveryTracker(Protocol):
    """The index of one topic's delayed entries."""

    @property
    def members(self) -> BitMap64:
        """The positions of all entries in the index; one object for as long as the index lives.
        Readers of the log pass over them."""
        ...

    @property
    def buckets(self) -> int:
        """How many sealed parts it has."""
        ...

    def add(self, keys: Sequence[DueKey], through: Position, *, rolled: bool) -> int:
        """Add entries that were committed just now; the log is covered up to ``through``. Keys due
        already are left out: they are as good as not delayed. ``rolled``: a ledger was closed.
        Return the earliest time added, :data:`NEVER_MS` if there is none."""
        ...

    def add_run(self, run: TimedRun, *, rolled: bool) -> int:
        """Add a run of which every entry is delayed; the log is covered up to its end."""
        ...

    def read(self, reached: DueKey, until_ms: int, limit: int, on_read: OnRead) -> Reading | None:
        """Return at most ``limit`` keys after ``reached`` that come due up to ``until_ms``; None
        while they are being read, and then ``on_read`` is called when it is worth asking again."""
        ...

    def look(self, reached: DueKey, limit: int, on_read: OnRead) -> Reading | None:
        """As :meth:`read`, whatever the time, for a caller that only looks: keys that come due
        before what it saw are still added."""
        ...

    def count_due(self, reached: DueKey, until_ms: int) -> int:
        """Count, roughly, the keys after ``reached`` that come due up to ``until_ms``."""
        ...

    def passed(self, reached: DueKey, after: Position) -> None:
        """Drop keys up to ``reached`` whose entries are at or before ``after``: nobody wants
        them."""
        ...

    def set_back(self) -> None:
        """The clock was set back, and every subscription reads from the beginning."""
        ...

    def log_trimmed(self, floor: Position) -> None:
        """Drop the keys of entries up to ``floor``, which the log no longer has."""
        ...
