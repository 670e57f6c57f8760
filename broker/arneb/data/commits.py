"""Commits: staged rows published, once.

The rule: the rows of a batch, the mark that says so and the removal of its stages are one commit.
So after any crash the mark is there with all of the rows, or neither is; and a batch that is not
above the mark publishes nothing, however often it comes.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

import trio
from crc32c import crc32c

from arneb.data.errors import DataError, bad_request
from arneb.data.limits import DataLimits
from arneb.data.prepared import Prepared, stamped, unpack
from arneb.data.preparing import prepare
from arneb.data.publishing import Publishing
from arneb.data.rights import Rights, forbidden
from arneb.data.rows import Rows, parse_rows
from arneb.data.stages import PIECES_IN_ALL_MAX, PIECES_MAX, STAGES_MAX, BatchId, Stage, Stages
from arneb.data.targets import Targets
from arneb_core.api.core import Core, Unit
from arneb_core.api.entry import HEADER_BYTES
from arneb_core.api.errors import CoreError
from arneb_core.api.name_locks import NameLocks

PREFIX: Final = "data/mark/"
"""Of the keys under which marks are kept; the query's name follows."""

MARKS_MAX: Final = 10_000
"""Queries of which the last batch is known."""

ENDED_MARK_S: Final = 600.0
"""For which the last batch of a query is known that has said it was its last: as long as somebody
may ask again because the answer was lost."""

LOOK_S: Final = 60.0
"""How often it is looked for stages and marks that nobody needs any more."""

PREPARED_AT_ONCE: Final = 4
"""Bodies of rows that are made entries at the same time: each is in memory a few times."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """The last batch that a query has committed."""

    batch: int
    at_ms: int
    is_last: bool = False
    """The query has ended with it."""
    owner: str = ""
    """Who has committed; empty where nobody was asked."""

    @classmethod
    def unpack(cls, value: bytes) -> "Mark":
        """The mark as it is kept."""
        return cls(**json.loads(value))

    def pack(self) -> bytes:
        """The mark as it is kept."""
        said = {"batch": self.batch, "at_ms": self.at_ms, "owner": self.owner}
        return json.dumps(said | ({"is_last": True} if self.is_last else {})).encode()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A stage as whoever commits knows it."""

    name: str
    pieces: int
    rows: int


class Commits:
    """What is written by the data API."""

    def __init__(
        self, core: Core, targets: Targets, limits: DataLimits, now_ms: Callable[[], int]
    ) -> None:
        self._core = core
        self._targets = targets
        self._limits = limits
        self._now_ms = now_ms
        self._publishing = Publishing(core, targets, now_ms)
        self.stages = Stages(core, now_ms)
        self._marks: dict[str, Mark] = {}
        self._locks = NameLocks()
        """By query; by query and batch, for who adds a piece."""
        self._preparing = trio.CapacityLimiter(PREPARED_AT_ONCE)
        for key, value in core.metadata(PREFIX).items():
            self._marks[key.removeprefix(PREFIX)] = Mark.unpack(value)

    def __repr__(self) -> str:
        return f"<Commits of {len(self._marks)} queries, {self.stages!r}>"

    def last_committed(self, query: str) -> int | None:
        """The last batch that a query has committed."""
        mark = self._marks.get(query)
        return None if mark is None else mark.batch

    def expect_own(self, query: str, rights: Rights) -> None:
        """Raise ``forbidden`` for a query that somebody else has begun: its stages and its mark are
        not for others to look at, to remove or to move."""
        mark = self._marks.get(query)
        staged = [] if mark is not None else self.stages.of_query(query)
        owner = mark.owner if mark is not None else next((each.owner for each in staged), "")
        if not rights.may_continue(owner):
            raise forbidden("write for", f"query {query}, which is somebody else's")

    async def publish(self, body: bytes, rights: Rights, *, mandatory: bool) -> tuple[int, int]:
        """Publish rows at once; how many there were, and how many no queue takes."""
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
        """Keep a piece of a stage; None if the batch was committed before."""
        checksum = crc32c(body)
        async with self._locks.holding(batch, shared=[batch[0]]):
            self.expect_own(batch[0], rights)
            if self._is_committed(batch):
                return None
            if (known := self._known(batch, name, number, checksum)) is not None:
                return known
            self._expect_room(batch, name, len(body))
            async with self._preparing:
                made = await self._prepared(body, rights)
                data = await trio.to_thread.run_sync(made.pack)
            self._expect_room(batch, name, len(data))
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
        """Publish the stages ``wanted`` of a batch, once. ``is_last``: the query ends with it."""
        query, number = batch
        async with self._locks.holding(query):
            self.expect_own(query, rights)
            if self._is_committed(batch):
                return {"committed": True, "already": True, "rows": 0, "unrouted": 0}
            if query not in self._marks and len(self._marks) >= MARKS_MAX:
                raise DataError(503, "busy", f"expected at most {MARKS_MAX} queries that commit")
            stages = [self._expected(batch, each) for each in wanted]
            size = sum(each.size for each in stages)
            if size > self._limits.batch_bytes_max:
                raise self._batch_too_large(size)
            rows = sum(each.rows for each in stages)
            entries = await self.stages.read(stages)
            stamp_ms = self._publishing.stamp_ms(rows)
            made = [
                await trio.to_thread.run_sync(unpack, entry, HEADER_BYTES, stamp_ms)
                for entry in entries
            ]
            del entries
            mark = Mark(number, self._now_ms(), is_last, self._owner_after(query, rights))
            unit = Unit(metadata=[(PREFIX + query, mark.pack())])
            unrouted, admission = await self._publishing.fill(
                unit, made, rights, mandatory=mandatory
            )
            del made
            try:
                async with self._core.written_ahead(unit):
                    with trio.CancelScope(shield=True):
                        await self.stages.drop(batch, unit)
                        self._marks[query] = mark
            finally:
                admission.over()
        return {"committed": True, "already": False, "rows": rows, "unrouted": unrouted}

    async def abort(self, batch: BatchId, name: str | None, rights: Rights) -> None:
        """Remove a stage, or all of a batch; whether there are any or not."""
        async with self._locks.holding(batch[0]):
            self.expect_own(batch[0], rights)
            if name is None:
                await self.stages.drop(batch)
            elif (stage := self.stages.find(batch, name)) is not None:
                await self.stages.drop_one(stage)

    async def run(self) -> NoReturn:
        """Remove what nobody needs any more, for ever."""
        while True:
            await self.sweep()
            await trio.sleep(LOOK_S)

    async def sweep(self) -> None:
        """Remove stages and marks that have not been touched for long."""
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
            for query in [each for each, mark in self._marks.items() if self._is_old(mark, now_ms)]:
                async with self._locks.holding(query):
                    if self._is_old(self._marks[query], now_ms):
                        await self._core.committed(Unit(metadata=[(PREFIX + query, None)]))
                        del self._marks[query]
        except CoreError as error:  # it is tried again
            logger.warning("cannot remove old stages and marks: %s", error)

    # Inside

    def _owner_after(self, query: str, rights: Rights) -> str:
        """Whose the query is now: an administrator who helps out does not take it over."""
        mark = self._marks.get(query)
        return (mark.owner if mark is not None else "") or rights.name

    def _is_committed(self, batch: BatchId) -> bool:
        last = self.last_committed(batch[0])
        return last is not None and batch[1] <= last

    def _is_old(self, mark: Mark, now_ms: int) -> bool:
        kept_s = ENDED_MARK_S if mark.is_last else self._limits.mark_expiry_s
        return mark.at_ms <= now_ms - int(1000 * kept_s)

    def _known(self, batch: BatchId, name: str, number: int, checksum: int) -> Stage | None:
        """The stage, if it has that piece. Raises ``stage_incomplete`` before its turn."""
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

    def _expect_room(self, batch: BatchId, name: str, size: int) -> None:
        limits = self._limits
        stage = self.stages.find(batch, name)
        own = size if stage is None else stage.size + size
        if own > limits.batch_bytes_max:
            raise self._batch_too_large(own)
        if self.stages.bytes + size > limits.staged_bytes_max:
            raise DataError(
                413, "staged_too_much",
                f"expected at most {limits.staged_bytes_max} bytes staged in all "
                "(data.staged_bytes_max)",
            )  # fmt: skip
        if stage is None and self.stages.count >= STAGES_MAX:
            raise DataError(413, "staged_too_much", f"expected at most {STAGES_MAX} stages")
        if self.stages.pieces >= PIECES_IN_ALL_MAX:
            reason = f"expected at most {PIECES_IN_ALL_MAX} pieces of stages in all"
            raise DataError(413, "staged_too_much", reason)

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
    """Raise ``bad_request`` for a number that no piece has."""
    if number >= PIECES_MAX:
        raise bad_request(f"expected a piece below {PIECES_MAX}, got {number}")
