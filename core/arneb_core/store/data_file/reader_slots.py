"""Reader slots: places in LMDB's table of readers that this process keeps for itself.

The rule: whatever other processes take, this one can begin as many snapshots as it keeps slots. The
table has :data:`.opening.READERS_MAX` rows for all processes together, and one process that leaks
transactions can take all of them.

A transaction that has ended keeps its row as long as its object exists, and the next one to begin
takes the row when the object goes: so ended transactions are what is kept.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import lmdb

SLOTS_RESERVED: Final = 8
"""More snapshots than a broker ever has open at once."""


class ReaderSlots:
    """The slots of one environment. Calls must not overlap."""

    def __init__(self, env: lmdb.Environment) -> None:
        """Reserve the slots. Raises ``lmdb.Error`` when not enough are left."""
        self._env = env
        self._kept = deque([env.begin() for _ in range(SLOTS_RESERVED)])
        for txn in self._kept:
            txn.abort()

    def __repr__(self) -> str:
        return f"<ReaderSlots {len(self._kept)} kept>"

    def begin(self) -> "lmdb.Transaction[bytes]":
        """Begin a read transaction, for :meth:`end`. Raises ``lmdb.Error``."""
        while True:
            try:
                return self._env.begin()
            except lmdb.ReadersFullError:
                if not self._kept:
                    raise
                # The one that ended first: a snapshot may still refer to the others.
                self._kept.popleft()

    @contextmanager
    def reading(self) -> Iterator["lmdb.Transaction[bytes]"]:
        """Yield a read transaction for one block."""
        txn = self.begin()
        try:
            yield txn
        finally:
            self.end(txn)

    def end(self, txn: "lmdb.Transaction[bytes]") -> None:
        """End a transaction, and keep its slot if another one was given up for it."""
        txn.abort()
        if len(self._kept) < SLOTS_RESERVED:
            self._kept.append(txn)
