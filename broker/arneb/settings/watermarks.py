"""Watermarks: how much memory may be used and how much disk must be free before an alarm.

The rule: they mean what RabbitMQ's settings of these names mean, so an operator's figures can be
taken over: a watermark of 0 is an alarm at once, a free minimum of 0 is none ever.
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
"""Where a container's limit stands, in both versions of control groups; "max" is none."""

UNSET: Final = -1

STATM_BYTES_MAX: Final = 256

BYTES_MAX: Final = 2**63 - 1
"""No machine has more; a figure beyond it could not be shown."""


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
        """What the process may use on a machine with so much memory."""
        if self.memory_high_watermark_bytes != UNSET:
            return self.memory_high_watermark_bytes
        return int(self.memory_high_watermark * available)


DEFAULT_WATERMARKS: Final = Watermarks()


@dataclass(frozen=True, slots=True)
class Levels:
    """What is used and what is free at one instant, in bytes."""

    memory_used_bytes: int
    disk_free_bytes: int


def read_levels(path: Path, room_inside: Callable[[], int] = int) -> Levels:
    """The levels of this process and of the disk that ``path`` is on. Blocks as a disk does.

    ``room_inside``: what the store in ``path`` has taken from the disk and can use again. Its
    file never shrinks, so an alarm that did not count that would not end by consuming. Memory
    that the kernel may take back at any time, as pages of that file, is not counted.
    """
    disk = os.statvfs(path)
    return Levels(memory_bytes(), disk.f_bavail * disk.f_frsize + room_inside())


def memory_available_bytes() -> int:
    """What the machine has, or the container if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # no such group, or no limit in it
            found = min(found, int(file.read_text()))
    return found


@cache
def _statm() -> int:
    """Open for good: memory must be known when there is no descriptor left."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def memory_bytes() -> int:
    """What the process has that the kernel cannot take back; 0 where nobody says."""
    try:
        _, resident, shared, *_ = os.pread(_statm(), STATM_BYTES_MAX, 0).split()
    except OSError:
        return 0  # not Linux: nothing is known, and so nothing is short
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
