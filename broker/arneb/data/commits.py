"""Commits: staged rows are published exactly once.

The rule: the rows of a batch, its mark and the removal of its stages are one commit. So after any
crash both the mark and all of the rows are there, or neither is; and a batch that is not above the
mark publishes nothing, however often it is sent.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

import trio

from arneb.data.errors import DataError, bad_request
from arneb.data.marks import PREFIX, Mark, Marks
from arneb.data.prepared import Prepared, stamped, unpack
from arneb.data.preparing import prepare
from arneb.data.publishing import Publishing
from arneb.data.rights import Rights, forbidden
from arneb.data.rows import Rows, parse_rows
from arneb.data.stages import PIECES_MAX, BatchId, Stage, Stages
from arneb.data.targets import Targets
from arneb.settings.data_limits import DataLimits
from arneb_core.api.core import Core, Unit
from arneb_core.api.encoding.checksum import crc32c
from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.errors import CoreError
from arneb_core.api.process.name_locks import NameLocks

CHECK_INTERVAL_S: Final = 60.0
"""The time between two searches for expired stages and marks."""

PREPARED_AT_ONCE: Final = 4
"""The most bodies that are made into entries at the same time: each is in memory a few times."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A stage as the committing client describes it."""

    name: str
    pieces: int
    rows: int


class Commits:
    """The writing side of the data API."""

    def __init__(
        self, core: Core, targets: Targets, limits: DataLimits, now_ms: Callable[[], int]
    ) -> None:
        self._core = core
        self._targets = targets
        self._limits = limits
        self._now_ms = now_ms
        self._publishing = Publishing(core, targets, now_ms)
        self.stages = Stages(core, limits, now_ms)
        self._marks = Marks(core.metadata(PREFIX), limits)
        self._locks = NameLocks()
        """Locks by query, and by query and batch for adding a piece."""
        self._preparing = trio.CapacityLimiter(PREPARED_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Commits: {self._marks!r}, {self.stages!r}>"

    def last_committed(self, query: str) -> int | None:
        """Return the last batch that a query has committed."""
        mark = self._marks.find(query)
        return None if mark is None else mark.batch

    def expect_own(self, query: str, rights: Rights) -> None:
        """Raise ``forbidden`` for a query that another user has begun: others may not see, remove
        or change its stages and its mark."""
        if not rights.may_continue(self._owner(query) or ""):
            raise forbidden("write for", f"query {query}, which is somebody else's")

    async def publish(self, body: bytes, rights: Rights, *, mandatory: bool) -> tuple[int, int]:
        """Publish rows at once; return how many there were, and how many no queue took."""
        async with self._preparing:
            made = await self._prepared(body, rights)
            stamp_ms = self._publishing.stamp_ms(made.rows)
            made = await trio.to_thread.run_sync(stamped, made, stamp_ms)
            unit = Unit()
            unrouted, admission = await self._publishing.fill(
                unit, [made], rights, mandatory=mandatory
            )
            try:
                async with self._core.written_ahead(unit):
                    await self._core.committed(unit)
            finally:
                admission.over()
        return made.rows, unrouted

    async def stage(
        self, batch: BatchId, name: str, number: int, body: bytes, rights: Rights
    ) -> Stage | None:
        """Store a piece of a stage; return None if the batch was already committed."""
        checksum = crc32c(body)
        async with self._locks.holding(batch, shared=[batch[0]]):
            self.expect_own(batch[0], rights)
            if self._is_committed(batch):
                return None
            if (known := self._known(batch, name, number, checksum)) is not None:
                return known
            self._expect_room(batch, name, len(body), rights)
            async with self._preparing:
                made = await self._prepared(body, rights)
                data = await trio.to_thread.run_sync(made.pack)
            self._expect_room(batch, name, len(data), rights)
            return await self.stages.add(batch, name, made.rows, data, checksum, rights.name)

    async def commit(
        self,
        batch: BatchId,
        wanted: Sequence[Wanted],
        rights: Rights,
        *,
        mandatory: bool,
        is_last: bool = False,
    ) -> dict[str, Any]:
        """Publish the ``wanted`` stages of a batch, once; ``is_last`` ends the query."""
        query, number = batch
        async with self._locks.holding(query):
            self.expect_own(query, rights)
            if self._is_committed(batch):
                return {"committed": True, "already": True, "rows": 0, "unrouted": 0}
            stages = [self._expected(batch, each) for each in wanted]
            if self._owner(query) is None:
                # A batch without rows. Storing a mark would let a user without any right to produce
                # fill the broker with marks, and repeating the batch changes nothing.
                return {"committed": True, "already": False, "rows": 0, "unrouted": 0}
            size = sum(each.size for each in stages)
            if size > self._limits.batch_bytes_max:
                raise self._batch_too_large(size)
            # An administrator who commits for the owner does not become the owner.
            mark = Mark(number, self._now_ms(), is_last, self._owner(query) or rights.name)
            self._marks.expect_room(query, mark.owner)
            rows, unrouted = await self._publish(batch, stages, mark, rights, mandatory)
        return {"committed": True, "already": False, "rows": rows, "unrouted": unrouted}

    async def _publish(
        self, batch: BatchId, stages: Sequence[Stage], mark: Mark, rights: Rights, mandatory: bool
    ) -> tuple[int, int]:
        """Publish stages of a batch; return the number of rows, and of rows that no queue took."""
        rows = sum(each.rows for each in stages)
        entries = await self.stages.read(stages)
        stamp_ms = self._publishing.stamp_ms(rows)
        made = [
            await trio.to_thread.run_sync(unpack, entry, HEADER_BYTES, stamp_ms)
            for entry in entries
        ]
        del entries
        unit = Unit(metadata=[(PREFIX + batch[0], mark.pack())])
        unrouted, admission = await self._publishing.fill(unit, made, rights, mandatory=mandatory)
        del made
        try:
            async with self._core.written_ahead(unit):
                with trio.CancelScope(shield=True), self._marks.changing(batch[0], mark):
                    await self.stages.drop(batch, unit)
        finally:
            admission.over()
        return rows, unrouted

    async def abort(self, batch: BatchId, name: str | None, rights: Rights) -> None:
        """Remove a stage, or all of a batch, if there are any."""
        async with self._locks.holding(batch[0]):
            self.expect_own(batch[0], rights)
            if name is None:
                await self.stages.drop(batch)
            elif (stage := self.stages.find(batch, name)) is not None:
                await self.stages.drop_one(stage)

    async def run(self) -> NoReturn:
        """Remove expired stages and marks, for ever."""
        while True:
            await self.sweep()
            await trio.sleep(CHECK_INTERVAL_S)

    async def sweep(self) -> None:
        """Remove the stages and marks that have expired."""
        now_ms = self._now_ms()
        try:
            limit_ms = now_ms - int(1000 * self._limits.stage_expiry_s)
            for batch in self.stages.forgotten(limit_ms):
                async with self._locks.holding(batch[0]):
                    if self.stages.is_forgotten(batch, limit_ms):
                        logger.warning(
                            "batch %d of query %s is removed: not committed", *batch[::-1]
                        )
                        await self.stages.drop(batch)
            for query in self._marks.old(now_ms):
                async with self._locks.holding(query):
                    if self._marks.is_old(query, now_ms):
                        await self._core.committed(Unit(metadata=[(PREFIX + query, None)]))
                        self._marks.forget(query)
        except CoreError as error:  # the next sweep tries again
            logger.warning("cannot remove old stages and marks: %s", error)

    # Inside

    def _owner(self, query: str) -> str | None:
        """Return the owner of a query, empty if it has none; None if the query has not begun."""
        mark = self._marks.find(query)
        if mark is not None:
            return mark.owner
        return self.stages.owner_of(query)

    def _is_committed(self, batch: BatchId) -> bool:
        last = self.last_committed(batch[0])
        return last is not None and batch[1] <= last

    def _known(self, batch: BatchId, name: str, number: int, checksum: int) -> Stage | None:
        """Return the stage if it has that piece. Raises ``stage_incomplete`` if earlier pieces are
        missing."""
        stage = self.stages.find(batch, name)
        pieces = [] if stage is None else stage.pieces
        if number > len(pieces):
            reason = f"expected piece {len(pieces)} of stage {name}, got {number}"
            raise DataError(409, "stage_incomplete", reason)
        if number == len(pieces):
            return None
        if pieces[number].checksum != checksum:
            reason = f"piece {number} of stage {name} is there and has other rows"
            raise DataError(409, "stage_differs", reason)
        return stage

    def _expect_room(self, batch: BatchId, name: str, size: int, rights: Rights) -> None:
        stage = self.stages.find(batch, name)
        own = size if stage is None else stage.size + size
        if own > self._limits.batch_bytes_max:
            raise self._batch_too_large(own)
        user = rights.name if stage is None else stage.owner
        self.stages.room.expect(user, int(stage is None), size)

    def _expected(self, batch: BatchId, wanted: Wanted) -> Stage:
        stage = self.stages.find(batch, wanted.name)
        if stage is None:
            if not wanted.pieces and not wanted.rows:
                return Stage(batch, wanted.name)
            reason = f"no stage {wanted.name} of batch {batch[1]}: it was aborted, or has expired"
            raise DataError(404, "stage_not_found", reason)
        if (len(stage.pieces), stage.rows) != (wanted.pieces, wanted.rows):
            raise DataError(
                409, "stage_incomplete",
                f"expected {wanted.pieces} pieces and {wanted.rows} rows in stage {wanted.name}, "
                f"got {len(stage.pieces)} and {stage.rows}",
            )  # fmt: skip
        return stage

    def _batch_too_large(self, size: int) -> DataError:
        most = self._limits.batch_bytes_max
        reason = (
            f"expected a batch of at most {most} bytes (data.batch_bytes_max), got {size}: "
            "have the query take fewer rows at a time (maxOffsetsPerTrigger)"
        )
        return DataError(413, "batch_too_large", reason)

    async def _prepared(self, body: bytes, rights: Rights) -> Prepared:
        rows: Rows = await trio.to_thread.run_sync(parse_rows, body)
        aims = [await self._targets.aim(each, rights) for each in rows.targets]
        made = partial(prepare, rows, aims, self._now_ms())
        return await trio.to_thread.run_sync(made)


def expect_piece(number: int) -> None:
    """Raise ``bad_request`` for an impossible piece number."""
    if number >= PIECES_MAX:
        raise bad_request(f"expected a piece below {PIECES_MAX}, got {number}")
