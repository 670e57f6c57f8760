"""Watchers: the answers that pages get each second, made once for all pages that see the same.

The rule: no answer is made for a page that has not read the previous one. An answer is kept only
while other pages may ask for the same.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from arneb.http.management.requests.calls import Refused

STREAMS_MAX: Final = 200
"""Pages that watch at the same time; each costs a connection and the memory of one answer."""

FRESH_S: Final = 0.9
"""How old a shared answer may be: less than the second between two rounds."""


class _Answer:
    """The newest answer to one call."""

    __slots__ = ("lock", "made_s", "text")

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.made_s = float("-inf")
        self.text = ""


class Watchers:
    """The pages that watch, and their answers."""

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._answers: dict[tuple[str, ...], _Answer] = {}
        self.streams = 0
        self.made_total = 0
        """Answers made; each may have been sent to several pages."""

    def __repr__(self) -> str:
        return f"<Watchers, {self.streams} streams, {len(self._answers)} answers>"

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one more watching page in the block. Raises :class:`Refused` if too many watch."""
        if self.streams >= STREAMS_MAX:
            raise Refused(503, "unavailable", "too many pages are open")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
            if not self.streams:
                self._answers.clear()

    async def current(self, key: tuple[str, ...], make: Callable[[], Awaitable[str]]) -> str:
        """Return this second's answer, shared by all callers with the same key."""
        answer = self._answers.get(key)
        if answer is None:
            self._forget_old()
            answer = self._answers[key] = _Answer()
        async with answer.lock:
            if self._clock() - answer.made_s >= FRESH_S:
                answer.text = await make()
                answer.made_s = self._clock()
                self.made_total += 1
        return answer.text

    def _forget_old(self) -> None:
        """Forget answers that were not requested lately."""
        now = self._clock()
        for key, answer in list(self._answers.items()):
            if now - answer.made_s > 2 and not answer.lock.locked():
                del self._answers[key]
