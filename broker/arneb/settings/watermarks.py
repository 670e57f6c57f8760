"""Watermarks: how much memory may be used and how much disk must be free before an alarm.

The rule: each means what RabbitMQ's setting of that name means, so an operator can keep the same
figures: a memory watermark of 0 always raises the alarm, a free minimum of 0 never does.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files with a container's memory limit, for both versions of control groups; "max" is no limit."""

UNSET: Final = -1

STATM_BYTES_MAX: Final = 256

BYTES_MAX: Final = 2**63 - 1
"""The largest watermark in bytes: no machine has more, and a larger one could not be shown."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """When AMQP connections that publish are blocked. The defaults are RabbitMQ's."""

    memory_high_watermark: float = 0.4
    """The fraction of the machine's or the container's memory that the broker may use before the
    memory alarm is raised, from 0 (always raised) to 1."""
    memory_high_watermark_bytes: int = UNSET
    """The same in bytes, instead of the fraction; -1 = use the fraction."""
    disk_free_min_bytes: int = 50_000_000
    """The free space, on the file system and inside the data file together, below which the disk
    alarm is raised; 0 = no disk alarm."""
    check_interval_s: float = 1.0
    """How often memory and disk are checked."""

    def __post_init__(self) -> None:
        if not 0 <= self.memory_high_watermark <= 1:
            raise ValueError(
                f"expected memory_high_watermark from 0 to 1, got {self.memory_high_watermark}"
            )
        for name in ("memory_high_watermark_bytes", "disk_free_min_bytes"):
            value = getattr(self, name)
            lowest = UNSET if name.startswith("memory") else 0
            if not lowest <= value <= BYTES_MAX:
                raise ValueError(f"expected {name} from {lowest} to {BYTES_MAX}, got {value}")
        if not 0.05 <= self.check_interval_s <= 3600:
            raise ValueError(
                f"expected check_interval_s from 0.05 to 3600, got {self.check_interval_s}"
            )

    def memory_bytes_max(self, available: int) -> int:
        """Return the bytes the process may use on a machine with ``available`` bytes of memory."""
        if self.memory_high_watermark_bytes != UNSET:
            return self.memory_high_watermark_bytes
        return int(self.memory_high_watermark * available)


DEFAULT_WATERMARKS: Final = Watermarks()


@dataclass(frozen=True, slots=True)
class Levels:
    """Memory used and disk free at one instant, in bytes."""

    memory_used_bytes: int
    disk_free_bytes: int


def read_levels(path: Path, room_inside: Callable[[], int] = int) -> Levels:
    """Read the levels of this process and of the disk that ``path`` is on. Blocks on the disk.

    ``room_inside`` returns the free bytes inside the data file of the store in ``path``. The file
    never shrinks, so without them an alarm would not end when messages are consumed. Memory that
    the kernel can reclaim at any time, such as pages of that file, is not counted.
    """
    disk = os.statvfs(path)
    return Levels(memory_bytes(), disk.f_bavail * disk.f_frsize + room_inside())


def memory_available_bytes() -> int:
    """Return the machine's memory, or the container's limit if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # no such group, or no limit in it
            found = min(found, int(file.read_text()))
    return found


@cache
def _statm() -> int:
    """Open the file for good: memory must be known even when no descriptor is left."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def memory_bytes() -> int:
    """Return the process's memory that the kernel cannot reclaim; 0 where it is unknown."""
    try:
        _, resident, shared, *_ = os.pread(_statm(), STATM_BYTES_MAX, 0).split()
    except OSError:
        return 0  # not Linux: unknown, so no alarm
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
