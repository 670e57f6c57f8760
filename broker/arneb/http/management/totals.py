"""Totals: the counters of all queues of a vhost together.

The rule: worked out when they are asked for, in turns; where that takes long they are kept for
some times as long, so that whoever polls cannot keep the broker busy with adding up.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import trio

from arneb.http.management.counters import counters_of
from arneb_amqp.topology.topology import Vhost

QUEUES_PER_TURN: Final = 50
REST: Final = 10
"""Totals that took a second are kept for ten: a tenth of the time at the most goes into them."""
SHORT_S: Final = 0.02
"""What takes no longer is done each time."""


@dataclass(frozen=True, slots=True)
class _Kept:
    counters: Mapping[str, int]
    until_s: float


class Totals:
    """The totals by vhost."""

    def __init__(self, pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint) -> None:
        self._pause = pause
        self._kept: dict[str, _Kept] = {}

    def __repr__(self) -> str:
        return f"<Totals, {len(self._kept)} kept>"

    async def of(self, vhost: Vhost) -> Mapping[str, int]:
        """Of one vhost."""
        kept = self._kept.get(vhost.name)
        began = trio.current_time()
        if kept is not None and began < kept.until_s:
            return kept.counters
        counters: Counter[str] = Counter()
        for number, queue in enumerate(vhost.queues, 1):
            if not queue.topic.fenced:
                counters.update(counters_of(queue))
            if number % QUEUES_PER_TURN == 0:
                await self._pause()
        took_s = trio.current_time() - began
        self._kept.pop(vhost.name, None)
        if took_s > SHORT_S:
            self._kept[vhost.name] = _Kept(counters, trio.current_time() + REST * took_s)
        return counters
