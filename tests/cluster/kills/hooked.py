"""``arneb``, with points at which a leader can be killed: ``python -m tests.cluster.kills.hooked``.

The rule: a point is armed by a file that is named after it in the directory ``ARNEB_POINTS``, and
the process ends with SIGKILL when it comes there, once; the file says how often it goes by first.

============= =====================================================================
receipted     a commit of this leader's has its receipt, and nobody finds it here
applied       it is in the directory, and whoever waits for it was told nothing
confirmed     whoever waits for it was told, and it is held in memory alone
taking        this node takes a copy, and has written some of it
giving        this node gives one, and has read some of it
============= =====================================================================

Whoever has nothing takes a copy of those who have little already, and in small pieces.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from arneb.cli import main
from arneb_cluster import applying, shard
from arneb_cluster.copies import need, source, taker
from arneb_cluster.protocol import copying
from arneb_cluster.protocol.node import Apply

POINTS: Final = "ARNEB_POINTS"
RECEIPTED: Final = "receipted"
APPLIED: Final = "applied"
CONFIRMED: Final = "confirmed"
TAKING: Final = "taking"
GIVING: Final = "giving"
READ_RATHER_MAX: Final = 100
CHUNK_BYTES: Final = 64 << 10


def arm(points: Path, point: str, passes: int = 0) -> None:
    """Have whoever comes to a point die there, after it has gone by so often."""
    new = points / f"{point}.new"
    new.write_text(str(passes))
    new.rename(points / point)


def come_to(point: str) -> None:
    """Die here if the point is armed."""
    armed = Path(os.environ[POINTS]) / point
    if not armed.exists():
        return
    passes = int(armed.read_text())
    if passes:
        armed.write_text(str(passes - 1))
        return
    armed.unlink()
    os.kill(os.getpid(), signal.SIGKILL)


class HookedApplying(applying.Applying):
    """The directory of a shard, with these points."""

    def hold(self, effect: Apply) -> bool:
        """As ever, or to the point."""
        if not isinstance(effect.ended, applying.Own):
            return super().hold(effect)
        come_to(RECEIPTED)
        if (Path(os.environ[POINTS]) / APPLIED).exists() or not super().hold(effect):
            return False
        come_to(CONFIRMED)
        return True

    async def apply(self, batch: Sequence[Apply]) -> None:
        """As ever, or to the point."""
        is_own = any(isinstance(each.ended, applying.Own) for each in batch)
        if is_own and (Path(os.environ[POINTS]) / APPLIED).exists():
            steps = [applying._step_of(each) for each in batch]
            async with self._one:
                await trio.to_thread.run_sync(self._replica.apply, steps)
            come_to(APPLIED)
        await super().apply(batch)


def write_and_die(path: Path, at: int, chunk: bytes) -> None:
    """A piece of a copy that is taken, and then the point."""
    _write(path, at, chunk)
    come_to(TAKING)


async def read_and_die(giver: source.CopySource, *asked: Any) -> bytes:
    """A piece of a copy that is given, and then the point."""
    chunk = await _chunk(giver, *asked)
    come_to(GIVING)
    return chunk


if __name__ == "__main__":
    shard.Applying = HookedApplying  # type: ignore[misc]
    need.READ_RATHER_MAX = READ_RATHER_MAX  # type: ignore[misc]
    copying.CHUNK_BYTES = source.CHUNK_BYTES = CHUNK_BYTES  # type: ignore[misc]
    _write, taker._write = taker._write, write_and_die
    _chunk, source.CopySource._chunk = source.CopySource._chunk, read_and_die  # type: ignore
    main()
