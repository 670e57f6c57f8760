"""Totals: the messages in all queues of a vhost, and its traffic.

The rule: traffic is read from counters. The messages in all queues are added up on request, in
turns; a slow sum is kept for a multiple of the time it took, so that polling clients cannot keep
the broker busy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import trio

from arneb.http.management.figures.counters import of_vhost
from arneb.http.management.figures.freshness import Pause, Work, fresh_for_s
from arneb_amqp.topology.topology import Vhost

QUEUES_PER_TURN: Final = 200
SPARING_S: Final = 2.0
"""People watch totals change."""


@dataclass(frozen=True, slots=True)
class _Kept:
    lengths: Mapping[str, int]
    until_s: float


class Totals:
    """Totals by vhost."""

    def __init__(self, pause: Pause = trio.lowlevel.checkpoint) -> None:
        self._pause = pause
        self._kept: dict[str, _Kept] = {}

    def __repr__(self) -> str:
        return f"<Totals, {len(self._kept)} kept>"

    async def of(self, vhost: Vhost) -> Mapping[str, int]:
        """Return the totals of a vhost."""
        return {**await self._lengths(vhost), **of_vhost(vhost.router.traffic)}

    async def _lengths(self, vhost: Vhost) -> Mapping[str, int]:
        kept = self._kept.get(vhost.name)
        work = Work(self._pause, trio.current_time)
        if kept is not None and trio.current_time() < kept.until_s:
            return kept.lengths
        waiting = away = 0
        for number, queue in enumerate(vhost.queues, 1):
            if not queue.topic.fenced:
                here, there = queue.lengths
                waiting += here
                away += there
            if number % QUEUES_PER_TURN == 0:
                await work.pause()
        lengths = {
            "messages": waiting + away,
            "messages_ready": waiting,
            "messages_unacknowledged": away,
        }
        self._kept.pop(vhost.name, None)
        if fresh_s := fresh_for_s(work.took_s, SPARING_S):
            self._kept[vhost.name] = _Kept(lengths, trio.current_time() + fresh_s)
        return lengths
