"""Disk interrupts: which processor they reach, and how the event loop gets there.

A disk tells one processor that a write has ended. If the thread that waits for it last ran on
another one, two processors must wake up in turn before it runs again: 18 of 100 us of a small write
on a virtual machine with two processors, which is a sixth of the time of a client that waits for
each confirm. The loop makes such writes itself, so it is taken to that processor.

The rule: it is only taken there, and not kept. It may run on any processor that it was allowed
before, and it is not taken anywhere while no processor is idle. What counts is where the interrupts
went since the last look: a disk with a queue for each processor interrupts the one that wrote, and
nothing is done. Nor is there where the system does not tell, as for network file systems.
docs/decisions/0025-the-loop-goes-where-the-disk-interrupts.md.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, Self

logger = logging.getLogger(__name__)

LOOK_WRITES: Final = 256
"""Writes between two looks. A look takes 30 to 80 us, so it costs 0.2 us a write."""

INTERRUPTS_MIN: Final = LOOK_WRITES // 2
"""Fewer since the last look do not come from these writes, or the driver polls its disk."""

MOST: Final = 0.9
"""If one processor has this share of the interrupts, it has them all: a few may be from before the
system moved them to it."""


class Threads(Protocol):
    """What the system knows of the calling thread, and does with it."""

    def processor(self) -> int:
        """Return the processor that runs it."""
        ...

    def is_any_idle(self) -> bool:
        """Whether some processor has nothing to run."""
        ...

    def move(self, processor: int) -> None:
        """Move it there, if it may run there; from then on it may run wherever it might before."""
        ...


class Linux:
    """The threads of Linux. Raises :class:`OSError` and :class:`ValueError` where ``/proc`` is not
    what it should be."""

    def processor(self) -> int:
        """See :class:`Threads`."""
        fields = Path("/proc/thread-self/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[36])  # 39 in proc(5), which counts from 1; two are before the bracket

    def is_any_idle(self) -> bool:
        """See :class:`Threads`."""
        running = Path("/proc/loadavg").read_bytes().split()[3].partition(b"/")[0]
        return int(running) < (os.cpu_count() or 1)

    def move(self, processor: int) -> None:
        """See :class:`Threads`."""
        allowed = os.sched_getaffinity(0)
        if processor in allowed and len(allowed) > 1:
            try:
                os.sched_setaffinity(0, {processor})
            finally:
                os.sched_setaffinity(0, allowed)


class DiskInterrupts:
    """The interrupts of the disk of one store."""

    __slots__ = ("_counts", "_files", "_threads", "_until_look", "moves_total")

    def __init__(self, files: Sequence[Path], threads: Threads) -> None:
        """``files``: for each interrupt of the disk, how often it reached each processor
        (``/sys/kernel/irq/*/per_cpu_count``)."""
        self._files = files
        self._threads = threads
        self._counts: list[int] = []
        """For each processor, the sum of all files at the last look."""
        self._until_look = LOOK_WRITES
        self.moves_total = 0

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Return the interrupts of the disk that holds ``directory``; none where they are unknown,
        or where threads cannot be moved."""
        files: list[Path] = []
        if hasattr(os, "sched_setaffinity"):
            try:
                files = count_files(os.stat(directory).st_dev, Path("/sys"))
            except OSError as error:
                logger.debug("cannot tell which interrupts %s causes: %s", directory, error)
        return cls(files, Linux())

    def __repr__(self) -> str:
        return f"<DiskInterrupts {len(self._files)} of the disk, {self.moves_total} moves>"

    def written(self) -> None:
        """Note that the calling thread has written; it may be moved."""
        self._until_look -= 1
        if not self._until_look:
            self._until_look = LOOK_WRITES
            if self._files:
                try:
                    self._look()
                except (OSError, ValueError, IndexError) as error:
                    logger.debug("the loop stays where it is: %s", error)
                    self._files = ()

    def _look(self) -> None:
        threads, before = self._threads, self._counts
        self._counts = counts = _sums(self._files)
        since = [now - then for now, then in zip(counts, before, strict=False)]
        total = sum(since)
        if total < INTERRUPTS_MIN:
            return
        most = max(since)
        processor = since.index(most)
        if most >= MOST * total and threads.processor() != processor and threads.is_any_idle():
            threads.move(processor)
            self.moves_total += 1


def count_files(device: int, sys: Path) -> list[Path]:
    """Return the files that count the interrupts of a block device; of all disks below it, if it is
    made of others. ``sys``: where sysfs is mounted. Raises :class:`OSError`."""
    numbers: set[str] = set()
    for disk in _disks(sys / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"):
        # The controller has the interrupts: a directory above the disk's and its partitions'.
        for above in disk.parents:
            if (interrupts := above / "msi_irqs").is_dir():
                numbers.update(each.name for each in interrupts.iterdir())
                break
    found = [
        sys / "kernel" / "irq" / number / "per_cpu_count" for number in sorted(numbers, key=int)
    ]
    return [each for each in found if each.is_file()]


def _disks(device: Path) -> list[Path]:
    """Return the directories of the disks of which ``device`` is made; itself if it is one."""
    disks, left = [], [device.resolve()]
    while left:
        each = left.pop()
        below = each / "slaves"
        parts = [part.resolve() for part in below.iterdir()] if below.is_dir() else []
        left += parts
        if not parts:
            disks.append(each)
    return disks


def _sums(files: Sequence[Path]) -> list[int]:
    rows = [[int(count) for count in each.read_bytes().split(b",")] for each in files]
    return [sum(column) for column in zip(*rows, strict=True)]
