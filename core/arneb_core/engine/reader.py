"""The reader: the thread that reads what is not in memory.

The rule: it gets work through a queue, touches nothing but the store, and hands its result to a
callback that runs in the event loop. A result that comes after the loop has ended is dropped;
nobody is left to want it.
"""

import logging
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from arneb_core.api.callbacks import call
from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import Position, render
from arneb_core.log.durable_log import Read, Runs
from arneb_core.store.block import BlockCorrupt
from arneb_core.store.commit.local import InLoop
from arneb_core.store.environment import Store
from arneb_core.store.schema import TopicId
from arneb_core.store.snapshot import Snapshot

logger = logging.getLogger(__name__)

T = TypeVar("T")
Job = Callable[[Snapshot], T]


class Reader:
    """Reads ranges of entries out of snapshots of the store."""

    def __init__(self, store: Store, call_soon: InLoop) -> None:
        self._store = store
        self._in_loop = call_soon
        self._queue: SimpleQueue[tuple[str, Job[Any], Callable[[Any], None]] | None]
        self._queue = SimpleQueue()
        self.requests_open = 0
        """Reads asked for and not answered yet."""
        self.reads_total = self.entries_total = 0
        self._thread = Thread(target=self._run, name="arneb-reader", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Reader, {self.requests_open} requests open>"

    def read(
        self, topic_id: TopicId, place: Position, last: Position, bytes_max: int, then: Read
    ) -> None:
        """Read from ``place`` to ``last``, about ``bytes_max`` bytes at most, at least one
        block; ``then`` gets the runs in the event loop, or :class:`.StoreFailed`."""
        where = f"topic {topic_id} from {render(place)} on"

        def job(snapshot: Snapshot) -> Runs:
            return self._counted(_blocks(snapshot, topic_id, place, last, bytes_max))

        self.ask(where, job, then)

    def read_places(
        self, topic_id: TopicId, places: Sequence[Position], bytes_max: int, then: Read
    ) -> None:
        """Read single entries at ``places``, which ascend, about ``bytes_max`` bytes at most, at
        least the first; ``then`` is called as in :meth:`read`."""
        where = f"topic {topic_id} at {render(places[0])}"

        def job(snapshot: Snapshot) -> Runs:
            return self._counted(snapshot.read_places(topic_id, places, bytes_max))

        self.ask(where, job, then)

    def ask(self, what: str, job: Job[T], then: Callable[[T | StoreFailed], None]) -> None:
        """Do ``job`` with a snapshot; ``then`` gets what it returns in the event loop, or
        :class:`.StoreFailed`, which says that ``what`` cannot be read."""
        self.requests_open += 1
        self._queue.put((what, job, then))

    def stop(self) -> None:
        """Finish what was asked for and end the thread; blocks meanwhile."""
        self._queue.put(None)
        self._thread.join()

    def _counted(self, runs: Runs) -> Runs:
        self.reads_total += 1
        self.entries_total += sum(len(entries) for _, entries in runs)
        return runs

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
        self._in_loop(self._answer, then, found)

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
