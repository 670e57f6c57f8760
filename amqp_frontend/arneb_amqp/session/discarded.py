"""Discarded deliveries: those nobody will answer, because their channels have ended.

The rule: forgetting millions of deliveries costs as much as making them, so it is done in pieces.
"""

from typing import Final, Protocol

SHED_PER_TURN: Final = 20_000
"""Deliveries forgotten in one turn: some 2 ms."""


class Shedding(Protocol):
    """The deliveries of one channel."""

    def __len__(self) -> int: ...

    def shed(self, count: int) -> bool:
        """Forget ``count`` of them for good; True when none is left."""
        ...


class Discarded:
    """The discarded deliveries of a connection that are not forgotten yet."""

    def __init__(self) -> None:
        self._left: list[Shedding] = []

    def __repr__(self) -> str:
        return f"<Discarded {sum(map(len, self._left))} deliveries>"

    def __len__(self) -> int:
        return len(self._left)

    def add(self, unacked: Shedding) -> None:
        """Forget these: at once if they are few, else in calls of :meth:`shed`."""
        if len(unacked) > SHED_PER_TURN:
            self._left.append(unacked)

    def shed(self) -> None:
        """Forget as many as a turn may."""
        if self._left[-1].shed(SHED_PER_TURN):
            self._left.pop()
