"""The two threads of the core: one that commits, one that reads what is not in memory.

The rule: a thread gets work through a queue, touches nothing but the store, and
hands its result to a callback that runs in the event loop. A result that comes after
the loop has ended is dropped; nobody is left to want it.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final, Protocol, TypeVar

import trio

from arneb_core.api.callbacks import call
from arneb_core.api.errors import CommitFailed, CommitInDoubt, StoreFailed
from arneb_core.api.position import Position, render
from arneb_core.log.log import Read, Runs
from arneb_core.store.block import BlockCorrupt
from arneb_core.store.changes import Changes, CommitReport
from arneb_core.store.environment import Store
from arneb_core.store.schema import TopicId
from arneb_core.store.snapshot import Snapshot

logger = logging.getLogger(__name__)

DOUBT_WAIT_S: Final = 0.05
DOUBT_WAIT_S_MAX: Final = 1.0
"""Between two looks at a disk on which nobody can tell what became of a commit."""

CommitResult = CommitReport | CommitFailed
Then = Callable[[CommitResult], None]
Submit = Callable[[Changes, Then], None]

T = TypeVar("T")
Job = Callable[[Snapshot], T]


class CommittingStore(Protocol):
    """What the writer needs of a store; the test kit's faulty store is one too."""

    def commit(self, changes: Changes) -> CommitReport: ...

    def commit_tiny(self, changes: Changes) -> CommitReport | None: ...

    def resolve(self) -> CommitReport | None: ...


class Writer:
    """Commits changes in the order in which they are submitted.

    Of a commit whose outcome is in doubt nobody is told before that is known, and nothing else is
    committed: until the disk can be used again nothing could be, and should the process end
    before, nobody was told a thing that is not so.
    """

    def __init__(self, store: CommittingStore, token: trio.lowlevel.TrioToken) -> None:
        self._store = store
        self._token = token
        self._queue: SimpleQueue[tuple[Changes, Then] | None] = SimpleQueue()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="arneb-writer", daemon=True)
        self._thread.start()

    def submit(self, changes: Changes, then: Then) -> None:
        """Commit ``changes`` in the thread; ``then`` gets the result in the event loop."""
        self._queue.put((changes, then))

    def commit_here(self, changes: Changes) -> CommitReport | None:
        """Commit a small run of entries in the calling thread, by one write; only while nothing
        is submitted to the other one. None: it is to be submitted, and before anything else.

        Raises :class:`OSError` when the write failed; then, too, it is to be submitted.
        """
        return self._store.commit_tiny(changes)

    def stop(self) -> None:
        """Finish what was submitted and end the thread; blocks meanwhile."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if not self._commit(*work):
                return
            del work  # or what was committed would stay in memory until there is more

    def _commit(self, changes: Changes, then: Then) -> bool:
        """Commit and tell; False when nothing more can be committed by this process."""
        result = self._result(changes)
        if result is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(then, result)
        return result is not None

    def _result(self, changes: Changes) -> CommitResult | None:
        """How the commit went; None if nobody will ever know in this process."""
        try:
            return self._store.commit(changes)
        except CommitFailed as error:
            return error
        except CommitInDoubt as doubt:
            return self._resolved(doubt)
        except Exception as error:
            # A bug, not a full disk: the publishers still must not wait for ever.
            logger.exception("unexpected error in a commit")
            return StoreFailed(f"unexpected {type(error).__name__} while committing: {error}")

    def _resolved(self, doubt: CommitInDoubt) -> CommitResult | None:
        logger.error("outcome of a commit unknown; commits are paused until the disk can be read")
        wait_s = DOUBT_WAIT_S
        while not self._stopping.wait(wait_s):
            try:
                report = self._store.resolve()
            except CommitFailed:
                wait_s = min(2 * wait_s, DOUBT_WAIT_S_MAX)
                continue
            state = "not on disk" if report is None else "on disk"
            logger.warning("outcome of the commit in doubt: %s", state)
            return report or StoreFailed(f"the commit could not be put on disk: {doubt}")
        return None


class Reader:
    """Reads ranges of entries out of snapshots of the store."""

    def __init__(self, store: Store, token: trio.lowlevel.TrioToken) -> None:
        self._store = store
        self._token = token
        self._queue: SimpleQueue[tuple[str, Job[Any], Callable[[Any], None]] | None]
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
        where = f"topic {topic_id} from {render(place)} on"
        self.ask(where, lambda snapshot: _blocks(snapshot, topic_id, place, last, bytes_max), then)

    def read_places(
        self, topic_id: TopicId, places: Sequence[Position], bytes_max: int, then: Read
    ) -> None:
        """Read single entries at ``places``, which ascend, about ``bytes_max`` bytes at most, at
        least the first; ``then`` is called as in :meth:`read`."""
        where = f"topic {topic_id} at {render(places[0])}"
        self.ask(where, lambda snapshot: snapshot.read_places(topic_id, places, bytes_max), then)

    def ask(self, what: str, job: Job[T], then: Callable[[T | StoreFailed], None]) -> None:
        """Do ``job`` with a snapshot; ``then`` gets what it returns in the event loop, or
        :class:`.StoreFailed`, which says that ``what`` cannot be read."""
        self.requests_open += 1
        self._queue.put((what, job, then))

    def stop(self) -> None:
        """Finish what was asked for and end the thread; blocks meanwhile."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            self._read(*work)
            del work  # or what was read, and who asked, would stay in memory until there is more

    def _read(self, what: str, job: Job[Any], then: Callable[[Any], None]) -> None:
        found: object
        try:
            with self._store.snapshot() as snapshot:
                found = job(snapshot)
        except StoreFailed as error:
            found = error
        except Exception as error:
            if not isinstance(error, ValueError):
                logger.exception("unexpected error while reading the store")
            found = StoreFailed(f"cannot read {what}: {error}")
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._answer, then, found)

    def _answer(self, then: Callable[[object], None], found: object) -> None:
        self.requests_open -= 1
        # Nothing on disk changes here. Who cannot make anything of what was read is told that it
        # was not, and does what is to be done then: nothing is skipped, and it is read again.
        if not call(then, found):
            call(then, StoreFailed("unexpected error while processing entries"))


def _blocks(
    snapshot: Snapshot, topic_id: TopicId, place: Position, last: Position, bytes_max: int
) -> Runs:
    try:
        return snapshot.read_blocks(topic_id, place, bytes_max=bytes_max, last=last)
    except BlockCorrupt:
        # Perhaps only a later one is damaged: what comes before it can be had.
        return snapshot.read_blocks(topic_id, place, bytes_max=1, last=last)
