"""The offload: moves closed ledgers that are not in the sealed tier yet.

The rule: a log's ledgers go in their order, each by one commit, and only then may the log remove
it. So a run may end anywhere and the next one continues, and a second run beside it costs only
work.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING, Final

from arneb_core.api.entries.position import Position, ledger_of, position_at
from pyspark_arneb.lake.data_file import COMPRESSIONS
from pyspark_arneb.lake.merging import merge
from pyspark_arneb.lake.sealing import Sealed, Sealer
from pyspark_arneb.lake.table import LogId, SealedTable
from pyspark_arneb.lake.trim_guard import TrimGuard
from pyspark_arneb.lake.view import missing
from pyspark_arneb.log.topics import TopicSelection, short_name
from pyspark_arneb.options import ColumnStyle, OnCorrupt, ReadOptions
from pyspark_arneb.plan.planning import selected_topics
from pyspark_arneb.schema import STYLES, arrow_schema
from pyspark_arneb.target import LakeError, Target

if TYPE_CHECKING:
    from arneb_core.store.reading.extents import Extent
    from pyspark_arneb.log.block_source import BlockSource, Location

logger = logging.getLogger(__name__)

KEPT_H: Final = 7 * 24
"""Hours for which merged files are kept: as long as a query may run."""

COLUMNS: Final = STYLES[ColumnStyle.ARNEB]
"""All columns: what is not in the table is lost when the log removes it."""


@dataclass(frozen=True, slots=True)
class OffloadOptions:
    """The options of an offload."""

    trim: bool = False
    """Remove ledgers from the log as soon as they are in the tier, though a retention would keep
    them."""
    roll: bool = False
    """Close growing ledgers first, so that everything is moved."""
    roll_after_s: float | None = None
    """Close ledgers that have been growing for this long."""
    merge: bool = True
    compression: str = COMPRESSIONS[0]
    skip_lost: bool = False
    """Continue without entries that are lost."""
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    kept_h: int = KEPT_H


@dataclass(frozen=True, slots=True)
class Done:
    """What a run, or one round of it, did."""

    ledgers: int = 0
    rows: int = 0
    bytes: int = 0
    merged: int = 0
    """Files that were merged with others."""

    def __add__(self, other: "Done") -> "Done":
        return Done(
            self.ledgers + other.ledgers,
            self.rows + other.rows,
            self.bytes + other.bytes,
            self.merged + other.merged,
        )


Sees = Callable[[Sealed], None]


class Offload:
    """Moves ledgers from one log's location to one target, again and again."""

    def __init__(
        self,
        location: "Location",
        target: Target,
        topics: TopicSelection,
        guard: TrimGuard,
        options: OffloadOptions | None = None,
        sees: Sees = lambda sealed: None,
        expects: Callable[[int], None] = lambda rows: None,
    ) -> None:
        """``sees`` is called with everything that was moved, ``expects`` before that with how many
        rows there are to move, log by log."""
        self._target = target
        self._guard = guard
        self._options = options = options or OffloadOptions()
        self._reading = ReadOptions(
            location,
            topics,
            fail_on_data_loss=not options.skip_lost,
            on_corrupt=options.on_corrupt,
        )
        self._sees = sees
        self._expects = expects
        self._stopped = False

    def __repr__(self) -> str:
        return f"<Offload of {self._reading.location} to {self._target}>"

    def stop(self) -> None:
        """Stop after the ledger that is being sealed; for use in a signal handler."""
        self._stopped = True

    def round(self) -> Done:
        """Move everything that is closed by now.

        Raises :class:`.LakeError`, :class:`.OptionError`, :class:`OSError` and
        :class:`arneb_core.api.errors.StoreUnusable`, whose texts are for users; what was done until
        then counts.
        """
        source = self._reading.location.open()
        names = selected_topics(source, self._reading.topics)
        done = Done()
        for extent in self._extents(source, names):
            if self._stopped:
                break
            done += self._take(source, extent)
        return done

    def _extents(self, source: "BlockSource", names: Sequence[str]) -> "list[Extent]":
        extents = source.extents(names)
        growing = [LogId(each.topic, each.topic_id) for each in extents if self._rolls(each)]
        if not growing:
            return extents
        self._guard.roll(growing)
        return source.extents(names)

    def _rolls(self, extent: "Extent") -> bool:
        options = self._options
        if not extent.ledgers or extent.ledgers[-1].closed_ms:
            return False
        if options.roll_after_s is None:
            return options.roll
        age_s = time_ns() / 1e9 - extent.ledgers[-1].created_ms / 1e3
        return options.roll or age_s >= options.roll_after_s

    def _take(self, source: "BlockSource", extent: "Extent") -> Done:
        this = LogId(extent.topic, extent.topic_id)
        table = SealedTable.open_or_create(self._target, extent.topic, arrow_schema(COLUMNS))
        table.adopt(this)
        through = table.through(this)
        start = position_at(0 if through is None else through + 1, 0)
        self._guard.hold(this, start, table.id)
        self._look_for_loss(extent, table, start)
        sealer = Sealer(
            source,
            table,
            this,
            COLUMNS,
            self._reading,
            self._options.compression,
        )
        closed = [each for each in extent.ledgers if each.closed_ms and each.first >= start]
        self._expects(sum(each.messages for each in closed))
        done = Done()
        while closed and not self._stopped:
            result = sealer.seal(closed)
            if result is not None:
                done += Done(result.ledgers, result.rows, result.bytes)
                self._sees(result)
            out = table.through(this)
            assert out is not None, "a ledger is in the table now"
            gone = [each for each in closed if ledger_of(each.first) <= out]
            self._release(this, gone[-1].last)
            closed = closed[len(gone) :]
        if done.ledgers and self._options.merge:
            done += Done(merged=merge(table, self._options.compression).before)
            table.vacuum(self._options.kept_h)
        return done

    def _release(self, this: LogId, last: Position) -> None:
        """Let the log remove everything up to ``last``, the last entry of a ledger."""
        self._guard.release(this, Position(last + 1))
        if self._options.trim:
            self._guard.trim(this, position_at(ledger_of(last) + 1, 0))

    def _look_for_loss(self, extent: "Extent", table: SealedTable, start: Position) -> None:
        """Check that the log still has what follows the sealed ledgers."""
        lost = missing(table, extent, start)
        if not lost:
            return
        what = f"{short_name(extent.topic)}: {lost:,} messages after what is in the table"
        if not self._options.skip_lost:
            raise LakeError(
                f"{what} are no longer in the log; to continue without them, pass --skip-lost"
            )
        logger.warning("%s are lost", what)
