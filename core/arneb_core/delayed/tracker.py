"""A tracker: what every index of a topic's delayed entries can do.

The rule: an index belongs to the topic, not to a subscription. It knows positions and times, never
entries; it hands nothing out and takes nothing away by itself, but answers "what comes due behind
this place?" for each subscription anew. The name is Pulsar's (``DelayedDeliveryTracker``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyroaring import BitMap64

from arneb_core.api.due_key import DueKey, TimedRun
from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import Position

NEVER_MS: Final = 1 << 63

Told = Callable[[StoreFailed | None], None]
"""Called when an answer can be had, or why it cannot."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What comes due behind a place."""

    keys: Sequence[DueKey]
    """In order, without gaps from the place on."""
    next_ms: int
    """Not before this is there anything more; a time that has come = at once."""


class DelayedDeliveryTracker(Protocol):
    """The index of one topic's delayed entries."""

    @property
    def members(self) -> BitMap64:
        """The positions of all entries in the index; one object for as long as the index lives.
        Whoever reads the log passes over them."""
        ...

    @property
    def buckets(self) -> int:
        """How many sealed parts it has."""
        ...

    def add(self, keys: Sequence[DueKey], through: Position, *, rolled: bool) -> int:
        """Take in entries that were committed just now, the log being looked through up to
        ``through``. What is due already is left out: it is as good as not delayed. ``rolled``: a
        ledger was closed. Returns the first time of those taken in, :data:`NEVER_MS` if none
        was."""
        ...

    def add_run(self, run: TimedRun, *, rolled: bool) -> int:
        """The same of a run each of which is delayed; the log is looked through up to its end."""
        ...

    def read(self, place: DueKey, until_ms: int, limit: int, told: Told) -> Reading | None:
        """At most ``limit`` keys behind ``place`` that come due up to ``until_ms``; None while that
        is being read, and then ``told`` is called when it is worth asking again."""
        ...

    def look(self, place: DueKey, limit: int, told: Told) -> Reading | None:
        """The same of whatever time, for somebody who only looks: what comes due before what was
        looked at is still taken in."""
        ...

    def count_due(self, place: DueKey, until_ms: int) -> int:
        """About how many keys lie behind ``place`` and come due up to ``until_ms``."""
        ...

    def passed(self, place: DueKey, after: Position) -> None:
        """No subscription wants a key up to ``place`` whose entry stands up to ``after``."""
        ...

    def set_back(self) -> None:
        """The clock was set back, and every subscription reads from the beginning."""
        ...

    def log_trimmed(self, floor: Position) -> None:
        """The log has nothing up to ``floor`` any more."""
        ...
