"""The trim guard: what keeps a log's ledgers until they are in the sealed tier.

The rule: a broker keeps what a durable subscription has not acknowledged, so the tier has one on
every topic that it takes, from the first run on, and acknowledges a ledger when it is committed,
on disk and looked at. A directory without its broker has nobody who could keep anything back.
"""

from collections.abc import Collection
from typing import Protocol

from arneb_core.api.position import Position
from pyspark_arneb.lake.table import LogId


class TrimGuard(Protocol):
    """Who may be asked to keep ledgers and to let them go. Raises :class:`.LakeError`."""

    def hold(self, log: LogId, start: Position, table_id: str) -> None:
        """Keep what stands at and behind ``start``. Repeated, it changes nothing. What another
        table keeps is refused."""
        ...

    def let_go(self, log: LogId, before: Position) -> None:
        """What stands before the position may go."""
        ...

    def trim(self, log: LogId, before: Position) -> None:
        """Remove closed ledgers before the position now, as far as no other subscription wants
        them, though a retention would keep them."""
        ...

    def roll(self, logs: Collection[LogId]) -> None:
        """End the growing ledgers of the logs."""
        ...


class NoGuard:
    """Of a directory: nothing is kept back, and nothing is let go."""

    def hold(self, log: LogId, start: Position, table_id: str) -> None:
        """Nobody keeps it."""

    def let_go(self, log: LogId, before: Position) -> None:
        """Nobody kept it."""

    def trim(self, log: LogId, before: Position) -> None:
        raise AssertionError("a directory is only read; see OffloadOptions")

    def roll(self, logs: Collection[LogId]) -> None:
        raise AssertionError("a directory is only read; see OffloadOptions")
