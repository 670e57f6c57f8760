"""Shared dispatch: round robin inside a priority level, higher levels first.

The rule: a lower level gets an entry only when no receiver of a higher level has
room; inside a level the turn passes on after ``turn`` entries. Exclusive
subscriptions use the same decision with one receiver.
Source: Pulsar ``AbstractDispatcherMultipleConsumers`` (priority levels),
RabbitMQ consumer priorities (same order, sign reversed at the edge).
"""

from bisect import insort
from collections.abc import Sequence

from arneb_core.dispatch.receiver import Receiver

Share = tuple[Receiver, int, int]
"""Entries ``[start, stop)`` of the run go to the receiver."""


class _Level:
    """The receivers of one priority, and whose turn it is."""

    __slots__ = ("next", "priority", "receivers")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.receivers: list[Receiver] = []
        self.next = 0


class SharedDispatcher:
    """Shares runs of entries out among receivers."""

    def __init__(self) -> None:
        self._levels: list[_Level] = []

    def __len__(self) -> int:
        return sum(len(level.receivers) for level in self._levels)

    def __repr__(self) -> str:
        levels = ", ".join(f"{len(level.receivers)} at {level.priority}" for level in self._levels)
        return f"<SharedDispatcher {levels or 'empty'}>"

    def add(self, receiver: Receiver) -> None:
        """Let ``receiver`` take part, last in its level."""
        for level in self._levels:
            if level.priority == receiver.priority:
                break
        else:
            level = _Level(receiver.priority)
            insort(self._levels, level, key=lambda each: each.priority)
        level.receivers.append(receiver)

    def remove(self, receiver: Receiver) -> None:
        """Take ``receiver`` out; whose turn it is does not change for the others."""
        for level in self._levels:
            if receiver in level.receivers:
                index = level.receivers.index(receiver)
                level.receivers.pop(index)
                if index < level.next:
                    level.next -= 1
                if level.next >= len(level.receivers):
                    level.next = 0
                break
        self._levels = [level for level in self._levels if level.receivers]

    @property
    def has_room(self) -> bool:
        """Somebody could be given a message now."""
        return any(receiver.room > 0 for level in self._levels for receiver in level.receivers)

    def share(self, entries: int, costs: Sequence[int] | None = None) -> list[Share]:
        """Share out a run of ``entries``, in order; counts what is given.

        ``costs[i]`` is the number of messages in entry *i*; None means one each. What no
        receiver has room for is left out at the end of the run.
        """
        shares: list[Share] = []
        start = 0
        for level in self._levels:
            receivers = level.receivers
            alone = len(receivers) == 1
            without_room = 0
            while start < entries and without_room < len(receivers):
                receiver = receivers[level.next]
                level.next = 0 if alone else (level.next + 1) % len(receivers)
                room = receiver.room
                if room <= 0:
                    without_room += 1
                    continue
                without_room = 0
                turn = entries - start if alone else min(receiver.turn, entries - start)
                stop, messages = fill(start, turn, room, costs)
                receiver.given(messages)
                shares.append((receiver, start, stop))
                start = stop
            if start == entries:
                break
        return shares


def fill(start: int, turn: int, room: int, costs: Sequence[int] | None) -> tuple[int, int]:
    """Where a share that begins at ``start`` ends, and the messages in it. The last entry may
    overdraw the room: entries are not divided here."""
    if costs is None:
        taken = min(turn, room)
        return start + taken, taken
    stop, messages = start, 0
    while stop < start + turn and messages < room:
        messages += costs[stop]
        stop += 1
    return stop, messages
