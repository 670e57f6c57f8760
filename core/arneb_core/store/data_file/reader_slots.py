"""Reader slots: places in LMDB's table of readers that this process keeps for itself.

The rule: whatever other processes take, this one can begin as many snapshots as it keeps slots.
The table has :data:`.opening.READERS_MAX` rows for all processes together, and one that leaks
transactions can have all of them.

A transaction that has ended keeps its row for as long as its object is there, and gives it to the
next one that begins when the object goes: so ended transactions are what is kept.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import lmdb

SLOTS_RESERVED: Final = 8
"""More than the snapshots that a broker ever has open at once."""


class ReaderSlots:
    """The slots of one environment. Calls must not overlap."""

    def __init__(self, env: lmdb.Environment) -> None:
        """Raises ``lmdb.Error`` when there are not so many left."""
        self._env = env
        self._kept = deque([env.begin() for _ in range(SLOTS_RESERVED)])
        for txn in self._kept:
            txn.abort()

    def __repr__(self) -> str:
        return f"<ReaderSlots {len(self._kept)} kept>"

    def begin(self) -> "lmdb.Transaction[bytes]":
        """A read transaction, for :meth:`end`. Raises ``lmdb.Error``."""
        while True:
            try:
                return self._env.begin()
            except lmdb.ReadersFullError:
                if not self._kept:
                    raise
                # The one that ended first: somebody may still hold the others by a snapshot.
                self._kept.popleft()

    @contextmanager
    def reading(self) -> Iterator["lmdb.Transaction[bytes]"]:
        """A read transaction for one block."""
        txn = self.begin()
        try:
            yield txn
        finally:
            self.end(txn)

    def end(self, txn: "lmdb.Transaction[bytes]") -> None:
        """End a transaction; its slot stays ours if another one was given up for it."""
        txn.abort()
        if len(self._kept) < SLOTS_RESERVED:
            self._kept.append(txn)
