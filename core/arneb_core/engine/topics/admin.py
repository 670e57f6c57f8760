"""Admin: what a topic answers administrators.

The rule: a mixin, so that code no message passes stays apart from code that every message passes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ParamSpec

import trio

from arneb_core.api.entries.due_key import DueKey, end_of, position_of, time_of
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.topics.admin import LedgerStatistics
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.delayed.index import DelayedIndex
from arneb_core.delayed.tracker import NEVER_MS
from arneb_core.log.reading import TopicReading

P = ParamSpec("P")


class TopicAdmin(TopicReading):
    """Implements :class:`arneb_core.api.topics.admin.InspectedTopic`."""

    settings: TopicSettings
    delayed: DelayedIndex | None
    departed_messages_total = 0
    """See :attr:`.TopicStatistics.departed_messages_total`."""

    async def change_settings(self, settings: TopicSettings) -> None:
        """Replace the settings, now and across restarts."""
        raise NotImplementedError

    @property
    def properties(self) -> Mapping[str, str]:
        """See :attr:`InspectedTopic.properties`."""
        return self.settings.properties

    async def retain(self, ms: int, size: int, ledger_bytes_max: int | None = None) -> None:
        """See :meth:`InspectedTopic.retain`."""
        if ledger_bytes_max is None:
            ledger_bytes_max = self.settings.ledger_bytes_max
        settings = replace(
            self.settings,
            retention_ms=ms,
            retention_bytes=size,
            ledger_bytes_max=ledger_bytes_max,
        )
        if settings != self.settings:
            await self.change_settings(settings)

    @property
    def has_delays(self) -> bool:
        """See :attr:`InspectedTopic.has_delays`."""
        return self.delayed is not None

    async def soonest(self, limit: int, after_ms: int) -> Sequence[tuple[int, Position]]:
        """See :meth:`InspectedTopic.soonest`."""
        found: list[DueKey] = []
        reached, index = end_of(after_ms), self.delayed
        while index is not None and len(found) < limit:
            asking = _Asking()
            reading = index.tracker.look(reached, limit - len(found), asking.finished)
            if reading is None:
                await asking.wait()
                continue
            found += reading.keys
            if not reading.keys or reading.next_ms == NEVER_MS:
                break
            reached = found[-1]
            await trio.lowlevel.checkpoint()
        return [(time_of(each), position_of(each)) for each in found]

    def ledgers(self) -> Sequence[LedgerStatistics]:
        """See :meth:`InspectedTopic.ledgers`."""
        return [
            LedgerStatistics(
                info.id, info.entries, info.messages, info.bytes, info.created_ms, info.closed_ms
            )
            for info in self.log.ledgers
        ]

    async def entry_at(self, position: Position) -> bytes | None:
        """See :meth:`InspectedTopic.entry_at`."""
        if not self.log.ledgers.contains(position):
            return None
        runs = await self.read(position, 1)
        return runs[0][1][0] if runs and runs[0][0] == position else None


class _Asking:
    """Waits for what an index has to read before it can answer."""

    def __init__(self) -> None:
        self._came = trio.Event()
        self._error: StoreFailed | None = None

    def __repr__(self) -> str:
        return f"<_Asking {self._error or 'without an error'}>"

    def finished(self, error: StoreFailed | None) -> None:
        """End the wait: the read has finished or failed."""
        self._error = error
        self._came.set()

    async def wait(self) -> None:
        """Wait for the read. Raises :class:`StoreFailed`."""
        await self._came.wait()
        if self._error is not None:
            raise self._error
