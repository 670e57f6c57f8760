"""Held commits: durable elsewhere already, and kept in memory until LMDB has them.

The rule: readers of the store in this process find held commits as if LMDB had them, and once: each
commit knows the transaction that takes it over, and snapshots from that transaction on leave it
out. One thread holds; another may take over meanwhile, the oldest first.
"""

from collections.abc import Sequence
from typing import Final

from arneb_core.store.format.changes import Changes
from arneb_core.store.journal.overlay import can_be_laid_over

HELD_BYTES_MAX: Final = 4 << 20
"""Bytes of entries and rows: snapshots lay them over LMDB, and a takeover writes them at once."""

HELD_RUNS_MAX: Final = 1024
HELD_ROWS_MAX: Final = 256
"""Each row costs a takeover some pages, a run only part of one."""


class HeldCommit:
    """A held commit."""

    __slots__ = ("changes", "rows", "size", "taken_in")

    def __init__(self, changes: Changes, size: int) -> None:
        self.changes = changes
        self.size = size
        self.rows = len(changes.puts) + len(changes.deletes)
        self.taken_in: int | None = None
        """The number of the transaction that takes it over, or has tried to; None: not yet."""

    def __repr__(self) -> str:
        return f"<HeldCommit of {self.size} bytes, taken over in {self.taken_in}>"

    def is_in(self, transaction: int) -> bool:
        """Whether a reader of that transaction finds it there."""
        return self.taken_in is not None and self.taken_in <= transaction


class HeldCommits:
    """The held commits of one store."""

    def __init__(self) -> None:
        self._commits: list[HeldCommit] = []
        # One thread counts what was ever held, the other what was taken over.
        self._held = self._taken = (0, 0, 0)

    def __repr__(self) -> str:
        return f"<HeldCommits, {len(self._commits)} of {self.size} bytes>"

    def __len__(self) -> int:
        return len(self._commits)

    @property
    def size(self) -> int:
        """Bytes that are held."""
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
        """Keep this after what is held."""
        commit = HeldCommit(changes, size)
        self._held = _plus(self._held, [commit])
        self._commits.append(commit)

    def copy(self) -> list[HeldCommit]:
        """Return the commits held at this moment, oldest first."""
        return self._commits.copy()

    def begin(self, commits: Sequence[HeldCommit], transaction: int) -> None:
        """Note that ``transaction``, about to be made durable, takes these over."""
        for each in commits:
            each.taken_in = transaction

    def failed(self, commits: Sequence[HeldCommit]) -> None:
        """Note that it was not made; another transaction may get its number."""
        for each in commits:
            each.taken_in = None

    def took(self, commits: Sequence[HeldCommit]) -> None:
        """Drop these, the oldest, since LMDB has them."""
        self._taken = _plus(self._taken, commits)
        del self._commits[: len(commits)]


def left_of(commits: Sequence[HeldCommit], transaction: int) -> list[Changes]:
    """Return those that a reader of that transaction does not find there, oldest first."""
    return [each.changes for each in commits if not each.is_in(transaction)]


def _plus(sums: tuple[int, int, int], commits: Sequence[HeldCommit]) -> tuple[int, int, int]:
    size, runs, rows = sums
    for each in commits:
        size += each.size
        runs += len(each.changes.blocks)
        rows += each.rows
    return size, runs, rows
