"""The queues of each vhost, sorted by name, for lists.

The rule: the order is recomputed only when queues have come or gone, and then those that stayed
are not sorted again. An answer shows one point in time.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final
from weakref import WeakKeyDictionary

import trio

from arneb.http.management.lists.ordering import in_order
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.queues.queues import Queues

NAME: Final = attrgetter("name")


@dataclass(frozen=True, slots=True)
class _Sorted:
    changes: int
    """:attr:`Queues.changes` when this was computed."""
    queues: Sequence[Queue]


class QueuesByName:
    """Sorted queues by vhost."""

    def __init__(self, pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint) -> None:
        self._pause = pause
        self._kept: WeakKeyDictionary[Queues, _Sorted] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<QueuesByName of {len(self._kept)} vhosts>"

    async def of(self, queues: Queues) -> Sequence[Queue]:
        """Return the queues of one vhost; the list must not be changed."""
        kept = self._kept.get(queues)
        if kept is not None and kept.changes == queues.changes:
            return kept.queues
        changes, there = queues.changes, list(queues)
        stayed = [] if kept is None else list(kept.queues)
        known = set(stayed)
        came = [each for each in there if each not in known]
        if len(stayed) + len(came) > len(there):
            present = set(there)
            stayed = [each for each in stayed if each in present]
        await self._pause()
        both = stayed + await in_order(came, NAME, self._pause)
        both.sort(key=NAME)  # two runs, each sorted already
        self._kept[queues] = _Sorted(changes, both)
        return both
