"""Shared dispatch: round robin inside a priority level, higher levels first.

The rule: a lower level gets an entry only when no receiver of a higher level has room; inside a
level the turn passes on after ``turn`` entries. Exclusive subscriptions use this with one receiver.
Source: Pulsar ``AbstractDispatcherMultipleConsumers`` (priority levels), RabbitMQ consumer
priorities (same order, sign reversed at the edge).
"""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence

from arneb_core.dispatch.receiver import Receiver

Share = tuple[Receiver, int, int]
"""Entries ``[start, stop)`` of the run go to the receiver."""


class _Level:
    """The receivers of one priority: those in the round, the next one first, and those that had no
    room at their turn."""

    __slots__ = ("full", "priority", "round")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.round: deque[Receiver] = deque()
        self.full: list[Receiver] = []

    def rejoin(self) -> None:
        """Put receivers that have room again last in the round, as in RabbitMQ."""
        free: list[Receiver] = []
        full: list[Receiver] = []
        for receiver in self.full:
            (free if receiver.room > 0 else full).append(receiver)
        if free:
            self.full = full
            self.round += free


class SharedDispatcher:
    """Shares runs of entries out among receivers."""

    def __init__(self) -> None:
        self._levels: list[_Level] = []

    def __len__(self) -> int:
        return sum(len(level.round) + len(level.full) for level in self._levels)

    def __repr__(self) -> str:
        levels = ", ".join(
            f"{len(level.round)} and {len(level.full)} full at {level.priority}"
            for level in self._levels
        )
        return f"<SharedDispatcher {levels or 'empty'}>"

    def add(self, receiver: Receiver) -> None:
        """Let ``receiver`` take part, last in its level."""
        for level in self._levels:
            if level.priority == receiver.priority:
                break
        else:
            level = _Level(receiver.priority)
            insort(self._levels, level, key=lambda each: each.priority)
        level.round.append(receiver)

    def remove(self, receiver: Receiver) -> None:
        """Take ``receiver`` out; the others keep their order."""
        for level in self._levels:
            for part in (level.round, level.full):
                if receiver in part:
                    part.remove(receiver)
        self._levels = [level for level in self._levels if level.round or level.full]

    @property
    def has_room(self) -> bool:
        """Some receiver could be given a message now."""
        for level in self._levels:
            if level.full:
                level.rejoin()
            for receiver in level.round:
                if receiver.room > 0:
                    return True
        return False

    @property
    def receivers(self) -> Iterable[Receiver]:
        """The receivers that take part."""
        return (each for level in self._levels for each in (*level.round, *level.full))

    def share(self, entries: int, costs: Sequence[int] | None = None) -> list[Share]:
        """Share out a run of ``entries``, in order, and count what is given.

        ``costs[i]`` is the number of messages in entry *i*; None means one each. Entries at the end
        that no receiver has room for are left out.
        """
        shares: list[Share] = []
        start = 0
        for level in self._levels:
            if level.full:
                level.rejoin()
            waiting = level.round
            while start < entries and waiting:
                receiver = waiting[0]
                room = receiver.room
                if room <= 0:
                    level.full.append(waiting.popleft())
                    continue
                left = entries - start
                turn = left if len(waiting) == 1 else min(receiver.turn, left)
                stop, messages = fill(start, turn, room, costs)
                receiver.given(messages)
                shares.append((receiver, start, stop))
                start = stop
                waiting.rotate(-1)
            if start == entries:
                break
        return shares


def fill(start: int, turn: int, room: int, costs: Sequence[int] | None) -> tuple[int, int]:
    """Return where a share that begins at ``start`` ends, and the messages in it. Its last entry
    may overdraw the room: entries are not divided here."""
    if costs is None:
        taken = min(turn, room)
        return start + taken, taken
    stop, messages = start, 0
    while stop < start + turn and messages < room:
        messages += costs[stop]
        stop += 1
    return stop, messages
