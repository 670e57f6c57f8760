"""A fetch: one read of the store at a time, of which only the latest answer counts.

The rule: an answer is believed only if it begins where the log says that it must. What cannot be
read is never skipped: the fetch keeps the reason and asks no more until it is told to try again.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from arneb_core.api.entries.position import Position, before, render
from arneb_core.api.errors import StoreFailed
from arneb_core.log.durable_log import Read, Runs

logger = logging.getLogger(__name__)


class Readable(Protocol):
    """A log, or the wanted entries of one."""

    def after(self, position: Position) -> Position | None: ...


AskRead = Callable[[Position, int, Read], None]
"""Reads entries from a position on: about so many bytes, and at least one entry."""


class Fetch:
    """Reads for one reader of a log."""

    __slots__ = (
        "_failed",
        "_finished",
        "_generation",
        "_log",
        "_read",
        "failed_at",
        "failure",
        "is_under_way",
    )

    def __init__(
        self,
        log: Readable,
        read: AskRead,
        finished: Callable[[], None],
        failed: Callable[["Fetch"], None],
    ) -> None:
        self._log = log
        self._read = read
        self._finished = finished
        self._failed = failed
        self._generation = 0
        self.is_under_way = False
        self.failure: StoreFailed | None = None
        """Why the last read failed, until :meth:`retry` or :meth:`forget`."""
        self.failed_at: Position | None = None

    def __repr__(self) -> str:
        state = "under way" if self.is_under_way else "free"
        return f"<Fetch {self.failure or state}>"

    @property
    def is_free(self) -> bool:
        """A read may be asked for."""
        return not self.is_under_way and self.failure is None

    def ask(self, position: Position, bytes_max: int, then: Callable[[Runs], None]) -> None:
        """Read entries from ``position`` on; ``then`` gets them, and then ``finished`` is
        called."""
        self._ask(position, bytes_max, then, again=False)

    def forget(self) -> None:
        """Drop the read under way, and any failure."""
        self._generation += 1
        self.is_under_way = False
        self.retry()

    def retry(self) -> None:
        """Let a failed read be tried again."""
        self.failure = self.failed_at = None

    def _ask(
        self, position: Position, bytes_max: int, then: Callable[[Runs], None], *, again: bool
    ) -> None:
        self.is_under_way = True
        generation = self._generation

        def answered(found: Runs | StoreFailed) -> None:
            if generation != self._generation:
                return
            self.is_under_way = False
            if isinstance(found, StoreFailed):
                self._fail(position, found)
                return
            runs = self._believable(position, found)
            if runs is not None:
                try:
                    then(runs)
                except Exception as error:
                    # A defect of ours, perhaps with one entry only. Even so, nothing is skipped.
                    logger.exception(
                        "unexpected error while processing entries read at %s", render(position)
                    )
                    self._fail(position, StoreFailed(f"cannot take in what was read: {error!r}"))
                    return
                self._finished()
            elif not again:
                # A trim can be on disk an instant before the log is told of it.
                self._ask(position, bytes_max, then, again=True)
            else:
                self._fail(
                    position, StoreFailed(f"expected an entry at {render(position)}, got none")
                )

        self._read(position, bytes_max, answered)

    def _fail(self, position: Position, error: StoreFailed) -> None:
        self.failure, self.failed_at = error, position
        self._failed(self)
        self._finished()

    def _believable(self, position: Position, found: Runs) -> Runs | None:
        """Return ``found`` up to the first entry that is missing; None when that is the first
        one."""
        expected = self._log.after(before(position))
        if expected is None:
            return []
        for index, (first, entries) in enumerate(found):
            if expected is None or first > expected:
                return found[:index] or None
            expected = self._log.after(Position(first + len(entries) - 1))
        return found or None
