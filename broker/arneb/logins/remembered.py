"""Remembered answers: a cache of another server's answers.

The rule: an answer counts until its time is up and not a moment longer, and their number is
bounded; the oldest goes first.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import trio

Answer = TypeVar("Answer")

ANSWERS_MAX: Final = 20_000
"""The most answers of one backend, of some 300 bytes each."""


class Remembered(Generic[Answer]):
    """Answers by question, each for ``seconds`` unless it came with a time of its own."""

    def __init__(self, seconds: float, now: Callable[[], float] = trio.current_time) -> None:
        self._seconds = seconds
        self._now = now
        self._answers: dict[Hashable, tuple[float, Answer]] = {}

    def __repr__(self) -> str:
        return f"<Remembered {len(self._answers)} answers for {self._seconds} s each>"

    def get(self, asked: Hashable) -> Answer | None:
        """Return the answer; None if it has expired or is unknown."""
        found = self._answers.get(asked)
        if found is None:
            return None
        until, answer = found
        if self._now() >= until:
            del self._answers[asked]
            return None
        return answer

    def put(self, asked: Hashable, answer: Answer, seconds: float | None = None) -> None:
        """Store an answer for ``seconds``, or for the usual time."""
        if asked not in self._answers and len(self._answers) >= ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[asked] = self._now() + (seconds or self._seconds), answer
