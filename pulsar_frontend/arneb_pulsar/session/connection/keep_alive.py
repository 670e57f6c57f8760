"""Keep-alive: when to ping a silent client, and when to give it up.

The rule: a PING is sent after one interval without a byte from the client, and a second silent
interval ends the connection. Any byte counts as an answer. The handshake has one deadline; after it
there is none for a client that does not know PING. Time in which this process did not run does not
count as silence: a timer that comes late looks again.
"""

import math
from enum import Enum, auto
from typing import Final

LATE_S: Final = 1.0
"""Beyond this, a timer is late because the whole process did not run: the machine slept, a debugger
or SIGSTOP stopped it, or a disk held up a flush."""

GRACE_S: Final = 2.0
"""After that, how long a client that slept on the same machine may take to send something."""


class Tick(Enum):
    """What the timer asks for."""

    NOTHING = auto()
    PING = auto()
    GIVE_UP = auto()


class KeepAlive:
    """The timer of one connection; ``deadline`` is when :meth:`tick` wants to be called."""

    def __init__(self, now: float, handshake_s: float, interval_s: float) -> None:
        self._interval_s = interval_s
        self._connecting = True
        self._pinged = False
        self.heard_at = now
        self.deadline = now + handshake_s

    def __repr__(self) -> str:
        state = "connecting" if self._connecting else "pinged" if self._pinged else "heard"
        return f"<KeepAlive {state}, last heard at {self.heard_at}, deadline {self.deadline}>"

    def connected(self, now: float, *, answered: bool = True) -> None:
        """Begin the first interval: the handshake is over. Without ``answered``, the client does
        not know PING, and there is no deadline any more."""
        self._connecting = False
        if not answered:
            self._interval_s = math.inf
        self.deadline = now + self._interval_s

    def heard(self, now: float) -> None:
        """Note that bytes came from the client. This does not move the deadline: :meth:`tick` looks
        again."""
        self.heard_at = now
        self._pinged = False

    def resumed(self, now: float) -> None:
        """Restart the interval: the broker did not read for a while, so silence proves nothing."""
        self.heard(now)
        if not self._connecting:
            self.deadline = now + self._interval_s

    def tick(self, now: float) -> Tick:
        """Return what to do now, and move the deadline."""
        if now < self.deadline:
            return Tick.NOTHING
        if now - self.deadline > LATE_S:
            self.deadline = now + GRACE_S
            return Tick.NOTHING
        if self._connecting or self._pinged:
            return Tick.GIVE_UP
        silent_until = self.heard_at + self._interval_s
        if now < silent_until:
            self.deadline = silent_until
            return Tick.NOTHING
        self._pinged = True
        self.deadline = now + self._interval_s
        return Tick.PING
