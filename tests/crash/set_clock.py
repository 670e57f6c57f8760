"""A wall clock that a test sets for one process: a preloaded shim controlled by a file."""

import mmap
import struct
from pathlib import Path

from tests.crash.failing_disk import compiled

SOURCE = Path(__file__).with_name("setclock.c")
OFFSET_NS = struct.Struct("=q")


def compile_clock(directory: Path) -> Path | None:
    """The compiled shim; None if there is no compiler."""
    return compiled(SOURCE, directory / "setclock.so")


class SetClock:
    """Controls the shim through its control file."""

    def __init__(self, shim: Path, control: Path) -> None:
        control.write_bytes(bytes(OFFSET_NS.size))
        self.environment = {"LD_PRELOAD": str(shim), "SETCLOCK_CONTROL": str(control)}
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), OFFSET_NS.size)

    def set(self, offset_s: float) -> None:
        """From now on the process's clock is ahead of ours by that many seconds, or behind if
        negative."""
        OFFSET_NS.pack_into(self._mapped, 0, round(offset_s * 1e9))

    def close(self) -> None:
        self._mapped.close()
