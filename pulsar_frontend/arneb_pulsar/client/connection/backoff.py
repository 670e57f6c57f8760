"""Back-off: how long to wait before the next attempt.

The rule: it doubles up to its cap, and a part of it is chance, so that the thousand clients of a
broker that comes back do not all come at once.
"""

from random import Random
from typing import Final

INITIAL_S: Final = 0.1
"""As the official clients begin."""

CAP_S: Final = 1.0
"""The official clients' cap is a minute: one was seen to be away for 18 s after its topic was
served again. A lookup a second from each client is little."""

JITTER: Final = 0.2
"""The part of a delay that chance may take away."""


class Backoff:
    """The delays of one row of attempts."""

    def __init__(self, random: Random, initial_s: float = INITIAL_S, cap_s: float = CAP_S) -> None:
        self._random = random
        self._initial_s = initial_s
        self._cap_s = cap_s
        self._next_s = initial_s

    def __repr__(self) -> str:
        return f"<Backoff, next {self._next_s:.3f} s of at most {self._cap_s} s>"

    def next_s(self) -> float:
        """Seconds to wait now."""
        delay = min(self._next_s, self._cap_s)
        self._next_s = min(self._next_s * 2, self._cap_s)
        return delay * (1 - JITTER * self._random.random())

    def reset(self) -> None:
        """It worked."""
        self._next_s = self._initial_s
