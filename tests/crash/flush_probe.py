"""A flush probe: measures how long the disk takes to flush while the broker uses it.

The rule: the broker promises that an acknowledgement is durable soon, and cannot be quicker than
the disk below it. So the time of the slowest flush in a life is subtracted before a test calls that
promise broken.
"""

import os
import time
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

EVERY_S: Final = 0.02


class FlushProbe:
    """Flushes a byte repeatedly, in a thread of its own, while it is entered."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "flush-probe"
        self._slowest_s = 0.0
        self._begun_s = 0.0
        self._over = Event()
        self._thread = Thread(target=self._flush, name="flush probe", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def __repr__(self) -> str:
        return f"<FlushProbe {self._file}, {self._slowest_s:.3f} s>"

    @property
    def slowest_s(self) -> float:
        """The longest flush so far, including one that is still under way."""
        begun_s = self._begun_s
        return max(self._slowest_s, time.monotonic() - begun_s if begun_s else 0.0)

    def _flush(self) -> None:
        fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not self._over.wait(EVERY_S):
                self._begun_s = time.monotonic()
                os.pwrite(fd, b"x", 0)
                os.fdatasync(fd)
                self._slowest_s = max(self._slowest_s, time.monotonic() - self._begun_s)
                self._begun_s = 0.0
        finally:
            os.close(fd)
