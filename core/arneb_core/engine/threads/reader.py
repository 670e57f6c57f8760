"""The reader: the thread that reads what is not in memory.

The rule: it gets work through a queue, touches only the store, and hands its result to a callback
that runs in the event loop. A result that comes after the loop has ended is dropped.

Blocks are decoded into entries where it disturbs others less. For a lone read that is the loop:
thread and loop would only take the interpreter from each other, and a core that has just made
entries sends them sooner (a drain takes a tenth less). With several reads open it is the thread, so
that the loop's turns do not grow with their number.
"""

import logging
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from arneb_core.api.entries.position import Position, render
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.callbacks import call
from arneb_core.log.durable_log import Read, Runs
from arneb_core.store.commit.local import InLoop
from arneb_core.store.environment import Store
from arneb_core.store.format.block import BlockCorrupt, cut_run
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.stored_blocks import StoredBlock, read_stored_blocks

logger = logging.getLogger(__name__)

T = TypeVar("T")
Job = Callable[[Snapshot], T]
Make = Callable[[Any], object]
Then = Callable[[Any], None]


class Reader:
    """Reads ranges of entries out of snapshots of the store."""

    def __init__(self, store: Store, call_soon: InLoop) -> None:
        self._store = store
        self._in_loop = call_soon
        self._queue: SimpleQueue[tuple[str, Job[Any], Make | None, Then] | None] = SimpleQueue()
        self.requests_open = 0
        """Reads asked for and not answered yet."""
        self.reads_total = self.entries_total = 0
        self._thread = Thread(target=self._run, name="arneb-reader", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Reader, {self.requests_open} requests open>"

    def read(
        self, topic_id: TopicId, position: Position, last: Position, bytes_max: int, then: Read
    ) -> None:
        """Read from ``position`` to ``last``: at most about ``bytes_max`` bytes, but at least one
        block. ``then`` gets the runs, or :class:`.StoreFailed`, in the event loop."""
        where = f"topic {topic_id} from {render(position)} on"

        def job(snapshot: Snapshot) -> list[StoredBlock]:
            return read_stored_blocks(snapshot, topic_id, position, last, bytes_max)

        def make(blocks: list[StoredBlock]) -> Runs:
            return runs_of(blocks, position, last)

        self._ask(where, job, make, self._counted(then))

    def read_positions(
        self, topic_id: TopicId, positions: Sequence[Position], bytes_max: int, then: Read
    ) -> None:
        """Read single entries at ``positions``, which ascend: at most about ``bytes_max`` bytes,
        but at least the first. ``then`` is called as in :meth:`read`."""
        where = f"topic {topic_id} at {render(positions[0])}"

        def job(snapshot: Snapshot) -> Runs:
            return snapshot.read_positions(topic_id, positions, bytes_max)

        self._ask(where, job, None, self._counted(then))

    def ask(self, what: str, job: Job[T], then: Callable[[T | StoreFailed], None]) -> None:
        """Run ``job`` with a snapshot. ``then`` gets its result, or :class:`.StoreFailed` saying
        that ``what`` cannot be read, in the event loop."""
        self._ask(what, job, None, then)

    def stop(self) -> None:
        """Finish the reads asked for and end the thread; blocks meanwhile."""
        self._queue.put(None)
        self._thread.join()

    def _ask(self, what: str, job: Job[Any], make: Make | None, then: Then) -> None:
        """Do as :meth:`ask`, but ``then`` gets ``make`` of what was read."""
        self.requests_open += 1
        self._queue.put((what, job, make, then))

    def _counted(self, then: Read) -> Read:
        def answered(found: Runs | StoreFailed) -> None:
            if not isinstance(found, StoreFailed):
                self.reads_total += 1
                self.entries_total += sum(len(entries) for _, entries in found)
            then(found)

        return answered

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            self._read(*work)
            del work  # or the result and its callback would stay in memory until the next read

    def _read(self, what: str, job: Job[Any], make: Make | None, then: Then) -> None:
        found: object
        try:
            with self._store.snapshot() as snapshot:
                found = job(snapshot)
        except Exception as error:
            found, make = _failed(what, error), None
        # The loop may ask for more at this moment; then one more answer is made there.
        if make is not None and self.requests_open > 1:
            found, make = _made(what, make, found), None
        self._in_loop(self._answer, what, make, then, found)

    def _answer(self, what: str, make: Make | None, then: Then, found: object) -> None:
        self.requests_open -= 1
        if make is not None:
            found = _made(what, make, found)
        # Nothing on disk changes here. A callback that fails on the result is told that the read
        # failed, and acts accordingly: nothing is skipped, and it is read again.
        if not call(then, found):
            call(then, StoreFailed("unexpected error while processing entries"))


def runs_of(blocks: Sequence[StoredBlock], first: Position, last: Position) -> Runs:
    """Return the runs of [first, last] in ``blocks``, up to the first damaged block. Raises
    :class:`.BlockCorrupt` when nothing comes before that."""
    runs: list[tuple[Position, list[bytes]]] = []
    for block in blocks:
        try:
            position, entries = cut_run(*block.decode(), first, last)
        except BlockCorrupt:
            if not runs:
                raise
            break
        if entries:
            runs.append((position, entries))
    return runs


def _made(what: str, make: Make, found: object) -> object:
    try:
        return make(found)
    except Exception as error:
        return _failed(what, error)


def _failed(what: str, error: Exception) -> StoreFailed:
    if isinstance(error, StoreFailed):
        return error
    if not isinstance(error, ValueError):
        logger.error("unexpected error while reading the store", exc_info=error)
    return StoreFailed(f"cannot read {what}: {error}")
