"""Alarms: memory and disk are checked at intervals, and an alarm is raised when one is short.

The rule: an alarm depends only on a level and a watermark, so an operator raises and clears one by
moving the watermark, as with RabbitMQ; a restart begins with the file's watermarks.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trio

from arneb.settings.table import read_settings
from arneb.settings.watermarks import Levels, Watermarks, memory_available_bytes, read_levels
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.resource_alarms import Resource, ResourceAlarms, Short

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AlarmStatistics:
    """Levels, watermarks and alarms at one instant."""

    memory_alarm: bool
    memory_used_bytes: int
    memory_high_watermark_bytes: int
    disk_alarm: bool
    disk_free_bytes: int
    disk_free_min_bytes: int
    log_trim_alarm: str
    """Why a replicated log is no longer trimmed; empty if it is, or if there is none. This blocks
    nobody."""


class Alarms:
    """The alarms of one broker. Belongs to the event loop.

    ``read`` blocks and is called in a thread.
    """

    def __init__(
        self,
        watermarks: Watermarks,
        path: Path,
        *,
        available: Callable[[], int] = memory_available_bytes,
        read: Callable[[Path], Levels] = read_levels,
    ) -> None:
        self.resource_alarms = ResourceAlarms()
        self.watermarks = watermarks
        self._path = path
        self._available = available()
        self._read = read
        self._levels = Levels(0, 1 << 62)  # nothing is short before the first check
        self._log_answers = True
        self.log_trim_alarm: Callable[[], str] = str
        """Returns why a replicated log is no longer trimmed; empty if nothing is wrong."""

    def __repr__(self) -> str:
        return f"<Alarms {self.resource_alarms!r} {self._levels}>"

    @property
    def statistics(self) -> AlarmStatistics:
        short = self.resource_alarms.short
        return AlarmStatistics(
            memory_alarm=Resource.MEMORY in short,
            memory_used_bytes=self._levels.memory_used_bytes,
            memory_high_watermark_bytes=self.watermarks.memory_bytes_max(self._available),
            disk_alarm=Resource.DISK in short,
            disk_free_bytes=self._levels.disk_free_bytes,
            disk_free_min_bytes=self.watermarks.disk_free_min_bytes,
            log_trim_alarm=self.log_trim_alarm(),
        )

    async def watch(self) -> None:
        """Check until cancelled."""
        while True:
            await self.look()
            await trio.sleep(self.watermarks.check_interval_s)

    async def look(self) -> None:
        """Read the levels, and raise or clear alarms."""
        try:
            self._levels = await trio.to_thread.run_sync(self._read, self._path)
        except (OSError, StoreFailed) as error:
            # Keep the last known levels and alarms.
            logger.warning("cannot read free disk space of %s: %s", self._path, error)
            return
        self._declare()

    def log_answers(self, *, answers: bool) -> None:
        """Note whether the commit log answers; while it does not, nobody can publish."""
        if answers != self._log_answers:
            self._log_answers = answers
            self._declare()

    async def move(self, changes: Mapping[str, Any]) -> None:
        """Change watermarks by name, and keep the others. Raises :class:`ConfigInvalid`."""
        given = dict(changes)
        if "memory_high_watermark" in given:
            given.setdefault("memory_high_watermark_bytes", -1)
        self.watermarks = read_settings(Watermarks, asdict(self.watermarks) | given, {})
        await self.look()

    def _declare(self) -> None:
        before, short = self.resource_alarms.short, self._short()
        for resource in short - before:
            logger.warning(
                "%s alarm raised, AMQP publishers are blocked: %s", resource.value, self._levels
            )
        for resource in before - short:
            logger.warning("%s alarm cleared: %s", resource.value, self._levels)
        self.resource_alarms.declare(short)

    def _short(self) -> Short:
        marks, levels = self.watermarks, self._levels
        short = set()
        if levels.memory_used_bytes >= marks.memory_bytes_max(self._available):
            short.add(Resource.MEMORY)
        if levels.disk_free_bytes < marks.disk_free_min_bytes:
            short.add(Resource.DISK)
        if not self._log_answers:
            short.add(Resource.LOG)
        return frozenset(short)
