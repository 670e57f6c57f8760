"""What is ready: the entries that a subscription could deliver, and which of them go next.

The rule: replays go first, then entries that came due, then new ones. An answer reaches every
source that might still hand the entry out; the replay set holds only entries that the backlog
reader is past.
"""

from collections.abc import Sequence

from arneb_core.api.entries.position import Position, before
from arneb_core.subscription.entries.delayed_entries import DelayedEntries
from arneb_core.subscription.entries.no_delayed_entries import NO_DELAYED_ENTRIES, NoDelayedEntries
from arneb_core.subscription.sources.backlog import BacklogReader
from arneb_core.subscription.sources.due import DueSource
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state.state import SubscriptionState

Source = ReplaySet | PrioritySource | DueSource | BacklogReader


class Ready:
    """The sources of one subscription."""

    __slots__ = (
        "_reader",
        "_state",
        "delayed",
    )

    def __init__(self, state: SubscriptionState) -> None:
        self._state = state
        self._reader = state.reader
        self.delayed: DelayedEntries | NoDelayedEntries = NO_DELAYED_ENTRIES

    def __repr__(self) -> str:
        return f"<Ready {self._state.replay!r}, {self.delayed!r}, {self._reader!r}>"

    @property
    def is_prioritised(self) -> bool:
        """Higher priorities go first."""
        return isinstance(self._state.replay, PrioritySource)

    @property
    def read_after(self) -> Position:
        """Everything up to here was handed out once, or needs no handing out."""
        replay, after = self._state.replay, self._reader.after
        waiting = replay.first if isinstance(replay, PrioritySource) else None
        return after if waiting is None else min(after, before(waiting))

    @property
    def unreadable(self) -> Position | None:
        """Where the log could not be read on when that was last tried."""
        found = self._state.replay.fetch.failed_at or self.delayed.unreadable
        return found or self._reader.fetch.failed_at

    # Which goes next

    def first(self) -> Source:
        """Return what goes next: replays, then entries that came due, then new ones."""
        replay, delayed = self._state.replay, self.delayed
        if not replay or delayed.goes_first:
            due = delayed.source()
            if due is not None:
                return due
        return replay or self._reader

    def after_replays(self) -> Source:
        """Return what goes next when the replays cannot go."""
        due = self.delayed.source()
        return self._reader if due is None else due

    # What became of entries

    def answered(self, positions: Sequence[Position]) -> None:
        """Deliver these no more."""
        self._state.replay.discard(positions)
        self.delayed.discard(positions)
        self._reader.reread(positions)

    def answered_through(self, position: Position) -> None:
        """As :meth:`answered`, for everything up to ``position``."""
        self._state.replay.discard_through(position)
        self.delayed.discard_through(position)
        if position > self._reader.after:
            self._reader.rewind(position)

    def returned(self, positions: Sequence[Position]) -> None:
        """Make these ready again, in their places."""
        # An entry that the reader is not past is a batch handed out in part; it still has that.
        self._state.replay.add(self.delayed.returning(positions, self._reader.after))

    def clear(self, after: Position) -> None:
        """Nothing up to ``after`` is ready."""
        self._state.replay.clear()
        self.delayed.clear(after)
        self._reader.rewind(after)

    def reset(self) -> None:
        """A seek: begin again at what is acknowledged."""
        self._state.replay.clear()
        self._reader.rewind(self._state.acks.mark_delete)
        self.delayed.reset()

    def start_over(self) -> None:
        """A turn failed half-way: trust nothing in memory."""
        self._state.replay.clear()
        self.delayed.start_over()
        self._reader.rewind(self._reader.after)

    def drop_cached(self) -> None:
        """Drop the entries held: nobody is attached."""
        self._reader.rewind(self._reader.after)
        self._state.replay.drop_cached()
        self.delayed.drop_cached()

    def retry(self) -> None:
        """Try again to read what could not be read."""
        self._state.replay.fetch.retry()
        self._reader.fetch.retry()
        self.delayed.retry()

    def prioritise(self, highest: int) -> None:
        """Let higher priorities go first from now on."""
        state, replay = self._state, self._state.replay
        if isinstance(replay, ReplaySet):
            state.replay = PrioritySource(replay, self._reader, highest, state.replays, state.wake)
