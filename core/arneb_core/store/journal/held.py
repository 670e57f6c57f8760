"""Held commits: what counts elsewhere already, and stays in memory until LMDB has it.

The rule: whoever reads the store in this process finds what is held as if LMDB had it, and once:
each commit knows the transaction that takes it over, and a snapshot of that or a later one leaves
it out. One thread holds; another may take over meanwhile, the oldest first.
"""

from collections.abc import Sequence
from typing import Final

from arneb_core.store.format.changes import Changes
from arneb_core.store.journal.overlay import can_be_laid_over

HELD_BYTES_MAX: Final = 4 << 20
"""Of entries and rows: what a snapshot lays over LMDB, and a takeover writes in one transaction."""

HELD_RUNS_MAX: Final = 1024
HELD_ROWS_MAX: Final = 256
"""Each is some pages for the takeover, where a run is a part of one."""


class HeldCommit:
    """One of them."""

    __slots__ = ("changes", "rows", "size", "taken_in")

    def __init__(self, changes: Changes, size: int) -> None:
        self.changes = changes
        self.size = size
        self.rows = len(changes.puts) + len(changes.deletes)
        self.taken_in: int | None = None
        """The number of the transaction that takes it over, or has tried to; None: there is
        none."""

    def __repr__(self) -> str:
        return f"<HeldCommit of {self.size} bytes, taken over in {self.taken_in}>"

    def is_in(self, transaction: int) -> bool:
        """Whether who reads that transaction finds it there."""
        return self.taken_in is not None and self.taken_in <= transaction


class HeldCommits:
    """Those of one store."""

    def __init__(self) -> None:
        self._commits: list[HeldCommit] = []
        # What was ever held is counted by one thread, and what was taken over by the other.
        self._held = self._taken = (0, 0, 0)

    def __repr__(self) -> str:
        return f"<HeldCommits, {len(self._commits)} of {self.size} bytes>"

    def __len__(self) -> int:
        return len(self._commits)

    @property
    def size(self) -> int:
        """In bytes."""
        return self._held[0] - self._taken[0]

    def takes(self, changes: Changes, size: int) -> bool:
        """Whether there is room for this, and readers can lay it over LMDB."""
        held, taken = self._held, self._taken
        rows = len(changes.puts) + len(changes.deletes)
        return (
            held[0] - taken[0] + size <= HELD_BYTES_MAX
            and held[1] - taken[1] + len(changes.blocks) <= HELD_RUNS_MAX
            and held[2] - taken[2] + rows <= HELD_ROWS_MAX
            and not changes.shared
            and can_be_laid_over(changes)
        )

    def hold(self, changes: Changes, size: int) -> None:
        """Keep this behind what is held."""
        commit = HeldCommit(changes, size)
        self._held = _plus(self._held, [commit])
        self._commits.append(commit)

    def copy(self) -> list[HeldCommit]:
        """Those of this moment, oldest first."""
        return self._commits.copy()

    def begin(self, commits: Sequence[HeldCommit], transaction: int) -> None:
        """That transaction, which is about to be made durable, takes these over."""
        for each in commits:
            each.taken_in = transaction

    def failed(self, commits: Sequence[HeldCommit]) -> None:
        """It was not made, and another may get its number."""
        for each in commits:
            each.taken_in = None

    def took(self, commits: Sequence[HeldCommit]) -> None:
        """LMDB has these, which are the oldest."""
        self._taken = _plus(self._taken, commits)
        del self._commits[: len(commits)]


def left_of(commits: Sequence[HeldCommit], transaction: int) -> list[Changes]:
    """Of those what who reads that transaction does not find there, oldest first."""
    return [each.changes for each in commits if not each.is_in(transaction)]


def _plus(sums: tuple[int, int, int], commits: Sequence[HeldCommit]) -> tuple[int, int, int]:
    size, runs, rows = sums
    for each in commits:
        size += each.size
        runs += len(each.changes.blocks)
        rows += each.rows
    return size, runs, rows
