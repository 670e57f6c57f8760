"""Stages: rows that wait for a commit, each piece durable when its sender gets the answer.

The rule: a piece is one entry of an internal log, one log for each batch of each query; the stage's
record becomes durable in the same commit. So a start finds all stages without reading their rows,
and committing or aborting a batch removes all of it at once.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from arneb.data.room import Room
from arneb.settings.data_limits import DataLimits
from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position, ledger_of, position_at
from arneb_core.api.errors import CommitFailed, StoreFailed, TopicNotFound
from arneb_core.api.process.waiting import durable
from arneb_core.api.topics.settings import WITHOUT_END, TopicSettings
from arneb_core.api.topics.topic import Topic

SCHEME: Final = "data-staged://"
"""A scheme that Pulsar does not have, so that no client can reach these topics."""

PREFIX: Final = "data/stage/"
"""The prefix of the stages' keys; query, batch and name follow."""

READ_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of stages read at a time."""

PIECES_MAX: Final = 4_096
"""The most pieces of one stage: each piece rewrites the stage's record."""

BatchId = tuple[str, int]
"""A query, and the number of one of its batches."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One stored body of rows."""

    number: int
    """Its index in its batch's log, from 0."""
    rows: int
    size: int
    """Bytes as stored."""
    checksum: int
    """The checksum of the body as sent."""


@dataclass(slots=True)
class Stage:
    """The rows that one attempt of one task has staged."""

    batch: BatchId
    name: str
    pieces: list[Piece] = field(default_factory=list)
    at_ms: int = 0
    """When the last piece was added."""
    owner: str = ""
    """Who has staged it; empty without authentication."""

    @property
    def key(self) -> str:
        """The stage's key in the store."""
        query, number = self.batch
        return f"{PREFIX}{query}/{number}/{self.name}"

    @property
    def rows(self) -> int:
        """Rows in all pieces."""
        return sum(each.rows for each in self.pieces)

    @property
    def size(self) -> int:
        """Bytes as stored, in all pieces."""
        return sum(each.size for each in self.pieces)

    def pack(self, last: Piece, at_ms: int) -> bytes:
        """Return the stage's record with one more piece."""
        pieces = [
            (each.number, each.rows, each.size, each.checksum) for each in (*self.pieces, last)
        ]
        return json.dumps({"pieces": pieces, "at_ms": at_ms, "owner": self.owner}).encode()


def restored(key: str, value: bytes) -> Stage:
    """Return a stored stage."""
    query, number, name = key.removeprefix(PREFIX).split("/")
    fields = json.loads(value)
    pieces = [Piece(*each) for each in fields["pieces"]]
    return Stage((query, int(number)), name, pieces, fields["at_ms"], fields.get("owner", ""))


def topic_of(batch: BatchId) -> str:
    """Return the topic of a batch's stages."""
    query, number = batch
    return f"{SCHEME}{query}/{number}"


def batch_of(topic: str) -> BatchId:
    """Return the batch whose stages a topic holds."""
    query, _, number = topic.removeprefix(SCHEME).rpartition("/")
    return query, int(number)


class Stages:
    """The stages of one broker.

    Invariant: ``room`` counts all stages, including those being written; each batch in ``_batches``
    has stages, ``_numbers`` are the numbers of these batches by query, and ``_logs`` are the
    batches that have a log.
    """

    def __init__(self, core: Core, limits: DataLimits, now_ms: Callable[[], int]) -> None:
        self._core = core
        self._now_ms = now_ms
        self.room = Room(limits)
        self._batches: dict[BatchId, dict[str, Stage]] = {}
        self._numbers: dict[str, set[int]] = {}
        self._logs = {batch_of(name) for name in core.topics if name.startswith(SCHEME)}
        for key, value in core.metadata(PREFIX).items():
            stage = restored(key, value)
            self._keep(stage)
            self._count(stage, 1)

    def __repr__(self) -> str:
        return f"<Stages of {len(self._batches)} batches, {self.room!r}>"

    def of_query(self, query: str) -> list[Stage]:
        """Return the stages of all batches of a query, in order."""
        numbers = sorted(self._numbers.get(query, ()))
        return [each for number in numbers for each in self._batches[query, number].values()]

    def owner_of(self, query: str) -> str | None:
        """Return who staged the first stage of a query; None if it has none. Called for every
        piece, so it does not visit other queries."""
        number = min(self._numbers.get(query, ()), default=None)
        return None if number is None else next(iter(self._batches[query, number].values())).owner

    def find(self, batch: BatchId, name: str) -> Stage | None:
        """Return a stage; None if it does not exist."""
        return self._batches.get(batch, {}).get(name)

    # Changes; the caller holds the batch's lock

    async def add(
        self, batch: BatchId, name: str, rows: int, data: bytes, checksum: int, owner: str = ""
    ) -> Stage:
        """Store ``data`` as one more piece of a stage that has room for it; it is on disk when this
        returns. Raises :class:`.CommitFailed`."""
        stage = self.find(batch, name) or Stage(batch, name, owner=owner)
        with (
            self.room.taken(stage.owner, int(not stage.pieces), len(data)),
            trio.CancelScope(shield=True),
        ):
            await self._add(stage, rows, data, checksum)
        return stage

    async def _add(self, stage: Stage, rows: int, data: bytes, checksum: int) -> None:
        topic = await self._topic(stage.batch)
        piece = Piece(topic.messages, rows, len(data), checksum)
        at_ms = self._now_ms()
        entry = EntryHeader(Origin.BROKER, publish_time_ms=at_ms).pack() + data
        record = stage.key, stage.pack(piece, at_ms)

        def submit(done: Callable[[CommitFailed | None], None]) -> None:
            self._core.append(topic, [entry], lambda error, _: done(error), 1, [record])

        await durable(submit)
        self._keep(stage)
        stage.pieces.append(piece)
        stage.at_ms = at_ms

    async def read(self, stages: Sequence[Stage]) -> list[bytes]:
        """Return the pieces of stages of one batch, in the order of ``stages``, as entries of
        :data:`HEADER_BYTES` and the stored piece. Raises :class:`.StoreFailed`."""
        wanted = {piece.number for stage in stages for piece in stage.pieces}
        if not wanted:
            return []
        topic = self._core.topic(topic_of(stages[0].batch))
        found: dict[int, bytes] = {}
        number = 0
        for ledger in topic.ledgers():
            position = position_at(ledger.id, 0)
            while ledger_of(position) == ledger.id and position < position_at(
                ledger.id, ledger.entries
            ):
                for _, entries in await topic.read(position, READ_BYTES):
                    for entry in entries:
                        if number in wanted:
                            found[number] = entry
                        number += 1
                    position = Position(position + len(entries))
        if found.keys() != wanted:
            missing = min(wanted - found.keys())
            raise StoreFailed(f"piece {missing} of {topic.name} cannot be read")
        return [found[piece.number] for stage in stages for piece in stage.pieces]

    async def drop(self, batch: BatchId, unit: Unit | None = None) -> None:
        """Remove all stages of a batch, in one commit with ``unit``. Raises
        :class:`.CommitFailed`."""
        unit = unit or Unit()
        stages = self._batches.get(batch, {})
        unit.metadata += [(each.key, None) for each in stages.values()]
        try:
            await self._core.delete_topic(topic_of(batch), unit=unit, as_owner=True)
        except TopicNotFound:
            if not unit.metadata and not unit.appends and not unit.runs:
                return
            await self._core.committed(unit)
        for each in stages.values():
            self._count(each, -1)
        self._forget(batch)
        self._logs.discard(batch)

    async def drop_one(self, stage: Stage) -> None:
        """Remove one stage; its rows go with its batch. Raises :class:`.CommitFailed`."""
        if len(self._batches[stage.batch]) == 1:
            await self.drop(stage.batch)
            return
        await self._core.committed(Unit(metadata=[(stage.key, None)]))
        del self._batches[stage.batch][stage.name]
        self._count(stage, -1)

    def forgotten(self, older_than_ms: int) -> list[BatchId]:
        """Return the batches to which nothing was added since then, and logs without stages."""
        known = self._batches.keys() | self._logs
        return [each for each in known if self.is_forgotten(each, older_than_ms)]

    def is_forgotten(self, batch: BatchId, older_than_ms: int) -> bool:
        """Whether a batch exists, and nothing was added to it since then."""
        stages = self._batches.get(batch)
        if stages is None:
            return batch in self._logs
        return all(each.at_ms <= older_than_ms for each in stages.values())

    def _keep(self, stage: Stage) -> None:
        query, number = stage.batch
        self._batches.setdefault(stage.batch, {})[stage.name] = stage
        self._numbers.setdefault(query, set()).add(number)

    def _forget(self, batch: BatchId) -> None:
        query, number = batch
        if self._batches.pop(batch, None) is not None:
            self._numbers[query].remove(number)
            if not self._numbers[query]:
                del self._numbers[query]

    def _count(self, stage: Stage, sign: int) -> None:
        self.room.count(stage.owner, sign, sign * len(stage.pieces), sign * stage.size)

    async def _topic(self, batch: BatchId) -> Topic:
        name = topic_of(batch)
        if (found := self._core.topics.get(name)) is not None:
            return found
        kept = TopicSettings(retention_ms=WITHOUT_END, retention_bytes=WITHOUT_END)
        self._logs.add(batch)
        return await self._core.create_topic(name, kept)
