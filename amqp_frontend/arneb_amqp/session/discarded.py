"""What was discarded: deliveries that nobody answers any more, because their channels have ended.

The rule: to forget millions costs as much as to make them, so it is done by the piece.
"""

from typing import Final, Protocol

SHED_PER_TURN: Final = 20_000
"""Deliveries that are forgotten in one turn: some 2 ms."""


class Shedding(Protocol):
    """The deliveries of one channel."""

    def __len__(self) -> int: ...

    def shed(self, count: int) -> bool:
        """Forget so many of them, for good; True when none is left."""
        ...


class Discarded:
    """Those of a connection that are still to be forgotten."""

    def __init__(self) -> None:
        self._left: list[Shedding] = []

    def __repr__(self) -> str:
        return f"<Discarded {sum(map(len, self._left))} deliveries>"

    def __len__(self) -> int:
        return len(self._left)

    def add(self, unacked: Shedding) -> None:
        """Forget these: now if they are few, else whenever :meth:`shed` is called."""
        if len(unacked) > SHED_PER_TURN:
            self._left.append(unacked)

    def shed(self) -> None:
        """Forget as many as a turn may."""
        if self._left[-1].shed(SHED_PER_TURN):
            self._left.pop()
