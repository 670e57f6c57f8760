"""The two threads of the core: one that commits, one that reads what is not in memory.

The rule: a thread gets work through a queue, touches nothing but the store, and
hands its result to a callback that runs in the event loop. A result that comes after
the loop has ended is dropped; nobody is left to want it.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Protocol

import trio

from arneb_core.errors import CommitFailed, StoreFailed
from arneb_core.log import Read, Runs
from arneb_core.position import Position, render
from arneb_core.store.block import BlockCorrupt
from arneb_core.store.changes import Changes, CommitReport
from arneb_core.store.environment import Store
from arneb_core.store.schema import TopicId

logger = logging.getLogger(__name__)

CommitResult = CommitReport | CommitFailed
Then = Callable[[CommitResult], None]
Submit = Callable[[Changes, Then, float], CommitResult | None]


class CommittingStore(Protocol):
    """What the writer needs of a store; the test kit's faulty store is one too."""

    def commit(self, changes: Changes) -> CommitReport: ...


class _Job:
    """One commit that was submitted: its result, and who comes for it."""

    __slots__ = ("_mutex", "changes", "finished", "left", "result", "then")

    def __init__(self, changes: Changes, then: Then) -> None:
        self.changes = changes
        self.then = then
        self.result: CommitResult | None = None
        self.left = False
        """Nobody waits in :meth:`wait`; the result must be brought to the loop."""
        self.finished = Lock()
        self.finished.acquire()
        self._mutex = Lock()

    def wait(self, seconds: float) -> CommitResult | None:
        """The result if it comes within ``seconds``; else it will be brought."""
        if seconds and self.finished.acquire(timeout=seconds):
            return self.result
        with self._mutex:
            self.left = self.result is None
            return self.result

    def end(self, result: CommitResult) -> bool:
        """The commit is over; True when the result must be brought to the loop."""
        with self._mutex:
            self.result = result
            self.finished.release()
            return self.left


class Writer:
    """Commits changes in the order in which they are submitted."""

    def __init__(self, store: CommittingStore, token: trio.lowlevel.TrioToken) -> None:
        self._store = store
        self._token = token
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="arneb-writer", daemon=True)
        self._thread.start()

    def submit(self, changes: Changes, then: Then, patience_s: float) -> CommitResult | None:
        """Commit ``changes``, and wait here for ``patience_s`` at the most.

        The result if it comes in that time; else None, and ``then`` gets it in the event loop.
        """
        job = _Job(changes, then)
        self._queue.put(job)
        return job.wait(patience_s)

    def stop(self) -> None:
        """Finish what was submitted and end the thread; blocks meanwhile."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            result = self._commit(job.changes)
            if job.end(result):
                with suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(job.then, result)

    def _commit(self, changes: Changes) -> CommitResult:
        try:
            return self._store.commit(changes)
        except CommitFailed as error:
            return error
        except Exception as error:
            # A bug, not a full disk: the publishers still must not wait for ever.
            logger.exception("commit failed unexpectedly")
            return StoreFailed(f"unexpected {type(error).__name__} while committing: {error}")


class Reader:
    """Reads ranges of entries out of snapshots of the store."""

    def __init__(self, store: Store, token: trio.lowlevel.TrioToken) -> None:
        self._store = store
        self._token = token
        self._queue: SimpleQueue[tuple[TopicId, Position, Position, int, Read] | None]
        self._queue = SimpleQueue()
        self.requests_open = 0
        """Reads asked for and not answered yet."""
        self._thread = Thread(target=self._run, name="arneb-reader", daemon=True)
        self._thread.start()

    def read(
        self, topic_id: TopicId, place: Position, last: Position, bytes_max: int, then: Read
    ) -> None:
        """Read from ``place`` to ``last``, about ``bytes_max`` bytes at most, at least one
        block; ``then`` gets the runs in the event loop, or :class:`.StoreFailed`."""
        self.requests_open += 1
        self._queue.put((topic_id, place, last, bytes_max, then))

    def stop(self) -> None:
        """Finish what was asked for and end the thread; blocks meanwhile."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            topic_id, place, last, bytes_max, then = work
            found: Runs | StoreFailed
            try:
                found = self._read_blocks(topic_id, place, last, bytes_max)
            except StoreFailed as error:
                found = error
            except Exception as error:
                if not isinstance(error, BlockCorrupt):
                    logger.exception("reading failed unexpectedly")
                where = f"topic {topic_id} from {render(place)} on"
                found = StoreFailed(f"cannot read {where}: {error}")
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._answer, then, found)

    def _read_blocks(
        self, topic_id: TopicId, place: Position, last: Position, bytes_max: int
    ) -> Runs:
        with self._store.snapshot() as snapshot:
            try:
                return snapshot.read_blocks(topic_id, place, bytes_max=bytes_max, last=last)
            except BlockCorrupt:
                # Perhaps only a later one is damaged: what comes before it can be had.
                return snapshot.read_blocks(topic_id, place, bytes_max=1, last=last)

    def _answer(self, then: Read, found: Runs | StoreFailed) -> None:
        self.requests_open -= 1
        then(found)
