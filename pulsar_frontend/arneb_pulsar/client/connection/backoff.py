"""Back-off: how long to wait before the next attempt.

The rule: the delay doubles up to its cap, with random jitter, so that a thousand clients do not
reconnect to a restarted broker at the same moment.
"""

from random import Random
from typing import Final

INITIAL_S: Final = 0.1
"""The first delay, as in the official clients."""

CAP_S: Final = 1.0
"""The longest delay. The official clients' is a minute: one of them was seen to stay away for 18 s
after its topic was served again. A lookup a second from each client is little load."""

JITTER: Final = 0.2
"""The largest part of a delay that is randomly taken away."""


class Backoff:
    """The delays of one series of attempts."""

    def __init__(self, random: Random, initial_s: float = INITIAL_S, cap_s: float = CAP_S) -> None:
        self._random = random
        self._initial_s = initial_s
        self._cap_s = cap_s
        self._next_s = initial_s

    def __repr__(self) -> str:
        return f"<Backoff, next {self._next_s:.3f} s of at most {self._cap_s} s>"

    def next_s(self) -> float:
        """Return the seconds to wait before the next attempt."""
        delay = min(self._next_s, self._cap_s)
        self._next_s = min(self._next_s * 2, self._cap_s)
        return delay * (1 - JITTER * self._random.random())

    def reset(self) -> None:
        """Begin again with the first delay, after a success."""
        self._next_s = self._initial_s
