"""``arneb``, with points at which a leader can be killed: ``python -m tests.cluster.kills.hooked``.

The rule: a file named after a point, in the directory ``ARNEB_POINTS``, arms that point. The
process ends with SIGKILL when it reaches the point, once; the file says how often it passes first.

============= =====================================================================
receipted     a commit of this leader has its receipt, but is not in its directory
applied       it is in the directory, but its caller has not been told
confirmed     its caller was told, and it is only held in memory
taking        this node takes a copy, and has written a part of it
giving        this node gives one, and has read a part of it
============= =====================================================================

A node that has nothing already takes a copy if the others have little, and in small pieces.
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
    """Make a process that reaches the point die there, after it has passed it so often."""
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
        """As always, or up to the point."""
        if not isinstance(effect.ended, applying.Own):
            return super().hold(effect)
        come_to(RECEIPTED)
        if (Path(os.environ[POINTS]) / APPLIED).exists() or not super().hold(effect):
            return False
        come_to(CONFIRMED)
        return True

    async def apply(self, batch: Sequence[Apply]) -> None:
        """As always, or up to the point."""
        is_own = any(isinstance(each.ended, applying.Own) for each in batch)
        if is_own and (Path(os.environ[POINTS]) / APPLIED).exists():
            steps = [applying._step_of(each) for each in batch]
            async with self._one:
                await trio.to_thread.run_sync(self._replica.apply, steps)
            come_to(APPLIED)
        await super().apply(batch)


def write_and_die(path: Path, at: int, chunk: bytes) -> None:
    """Take a piece of a copy; then comes the point."""
    _write(path, at, chunk)
    come_to(TAKING)


async def read_and_die(giver: source.CopySource, *asked: Any) -> bytes:
    """Give a piece of a copy; then comes the point."""
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
