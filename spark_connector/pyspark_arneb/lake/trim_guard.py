"""The trim guard: keeps a log's ledgers until they are in the sealed tier.

The rule: a broker keeps what a durable subscription has not acknowledged, so the tier has one on
every topic that it offloads, from the first run on, and acknowledges a ledger once it is committed,
on disk and verified. With a directory and no broker, nothing can be kept back.
"""

from collections.abc import Collection
from typing import Protocol

from arneb_core.api.entries.position import Position
from pyspark_arneb.lake.table import LogId


class TrimGuard(Protocol):
    """Keeps ledgers and releases them. Raises :class:`.LakeError`."""

    def hold(self, log: LogId, start: Position, table_id: str) -> None:
        """Keep everything from ``start`` on. Idempotent. Refused if another table holds the log."""
        ...

    def release(self, log: LogId, before: Position) -> None:
        """Allow everything before the position to be removed."""
        ...

    def trim(self, log: LogId, before: Position) -> None:
        """Remove closed ledgers before the position now, unless another subscription needs them,
        though a retention would keep them."""
        ...

    def roll(self, logs: Collection[LogId]) -> None:
        """Close the growing ledgers of the logs."""
        ...


class NoGuard:
    """The guard of a directory: it neither keeps nor releases anything."""

    def hold(self, log: LogId, start: Position, table_id: str) -> None:
        """Do nothing: nothing can be kept."""

    def release(self, log: LogId, before: Position) -> None:
        """Do nothing: nothing was kept."""

    def trim(self, log: LogId, before: Position) -> None:
        raise AssertionError("a directory is only read; see OffloadOptions")

    def roll(self, logs: Collection[LogId]) -> None:
        raise AssertionError("a directory is only read; see OffloadOptions")
