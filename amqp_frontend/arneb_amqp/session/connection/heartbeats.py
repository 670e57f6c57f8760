"""Heartbeats: when to send one and when to close the connection of a silent client, by the caller's
clock."""

from enum import Enum
from typing import Final

NEVER: Final = float("inf")

MISSED_MAX: Final = 2
"""4.2.7: a peer silent for two intervals is gone."""


class Beat(Enum):
    """What is due when a timer fires."""

    NOTHING = "nothing"
    SEND = "send"
    GIVE_UP = "give up"


class Heartbeats:
    """The heartbeat of one connection. Any traffic counts as a sign of life.

    ``interval_s`` 0 means no heartbeats.
    """

    __slots__ = ("_received", "_sent", "interval_s")

    def __init__(self, now: float) -> None:
        self.interval_s = 0
        self._received = now
        self._sent = now

    def __repr__(self) -> str:
        return f"<Heartbeats every {self.interval_s} s>"

    def received(self, now: float) -> None:
        """Note traffic from the peer."""
        self._received = now

    def sent(self, now: float) -> None:
        """Note traffic to the peer."""
        self._sent = now

    def next_timer(self) -> float:
        """The earliest time at which :meth:`check` may have something to do."""
        if not self.interval_s:
            return NEVER
        return min(self._sent + self.interval_s / 2, self._received + self._timeout_s)

    def check(self, now: float) -> Beat:
        """Return what is due."""
        if not self.interval_s:
            return Beat.NOTHING
        if now >= self._received + self._timeout_s:
            return Beat.GIVE_UP
        return Beat.SEND if now >= self._sent + self.interval_s / 2 else Beat.NOTHING

    @property
    def _timeout_s(self) -> float:
        return self.interval_s * MISSED_MAX
