"""Writing ahead: storing the runs of a large unit before the commit that makes them count.

The rule: a commit of a hundred megabytes delays others by no more than a slice of it takes. Runs
written ahead are at positions that no ledger has yet (:mod:`arneb_core.log.written_ahead`), so
nobody sees them; the store knows where they are and removes them if the commit does not come.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from arneb_core.api.core import CountedRun, Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, TopicFenced
from arneb_core.api.process.waiting import durable
from arneb_core.engine.group_commit.gathering import COMMIT_BYTES_MAX
from arneb_core.engine.group_commit.request import Request, topic_of
from arneb_core.engine.group_commit.units import is_refused
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log.durable_log import DurableLog
from arneb_core.log.written_ahead import Ahead, AheadState
from arneb_core.store.format.changes import Block, Trim
from arneb_core.store.format.records import pack_trims
from arneb_core.store.format.schema import META_AHEAD, Table

UNIT_BYTES_MIN: Final = COMMIT_BYTES_MAX
"""Bytes of the smallest unit written ahead: smaller ones make no longer commits than others do."""

TOPIC_BYTES_MIN: Final = 64 * 1024
"""Fewer bytes for one topic go with the unit's commit: they are not worth a ledger of their own."""

SLICE_BYTES: Final = 1024 * 1024
"""Bytes written in one commit, together with other requests: some 5 ms."""


class WriteAhead:
    """Writes ahead for one unit at a time: more would only wait for the same disk."""

    def __init__(self, submit: Callable[[Request], None]) -> None:
        self._submit = submit
        self._lock = trio.Lock()
        self._left: list[Trim] = []
        """Runs that could not be removed, to be removed with the next slice."""

    def __repr__(self) -> str:
        return f"<WriteAhead {'at work' if self._lock.locked() else 'idle'}>"

    @asynccontextmanager
    async def of(self, unit: Unit) -> AsyncIterator[None]:
        """See :meth:`arneb_core.api.core.Core.written_ahead`."""
        if sum(run.bytes for run in unit.runs) < UNIT_BYTES_MIN:
            yield
            return
        async with self._lock:
            if is_refused(unit):
                raise TopicFenced("a topic of the unit is being deleted, or has gone")
            held = _place(unit)
            try:
                await self._write(unit.runs, held)
                yield
            finally:
                with trio.CancelScope(shield=True):
                    await self._end(held)

    async def _write(self, runs: Iterable[CountedRun], held: dict[LogTopic, Ahead]) -> None:
        where = [ahead.trim(topic.id) for topic, ahead in held.items()]
        for blocks in _slices(runs):

            def submit(
                done: Callable[[CommitFailed | None], None],
                blocks: list[tuple[LogTopic, Block]] = blocks,
            ) -> None:
                entries = [each for _, (_, _, run) in blocks for each in run]
                self._submit(
                    Request(
                        lambda error, _: done(error),
                        ahead=blocks,
                        # With every slice: a commit without rows might go to the journal.
                        puts=[(Table.META, META_AHEAD, pack_trims(where))],
                        trims=self._left,
                        entries=len(entries),
                        size=sum(map(len, entries)),
                    )
                )

            await durable(submit)
            self._left = []

    async def _end(self, held: dict[LogTopic, Ahead]) -> None:
        """Remove what did not become part of its log."""
        if all(ahead.state is AheadState.STORED for ahead in held.values()):
            return

        def submit(done: Callable[[CommitFailed | None], None]) -> None:
            rest = pack_trims(self._left) if self._left else None
            self._submit(
                Request(
                    lambda error, _: done(error),
                    gives_up=list(held.items()),
                    puts=[(Table.META, META_AHEAD, rest)],
                )
            )

        try:
            # This is after the unit's commit: when it has ended, the fate of that one is known.
            await durable(submit)
        except CommitFailed:
            self._left += [
                ahead.trim(topic.id)
                for topic, ahead in held.items()
                if ahead.state is not AheadState.STORED and not topic.gone
            ]
        for topic, ahead in held.items():
            if ahead.state is AheadState.HELD:
                _log_of(topic).ahead_ends(AheadState.OVERTAKEN)


def _place(unit: Unit) -> dict[LogTopic, Ahead]:
    """Give the runs of ``unit`` that are large enough positions ahead of their logs."""
    by_topic: dict[LogTopic, list[CountedRun]] = {}
    for run in unit.runs:
        by_topic.setdefault(topic_of(run), []).append(run)
    held: dict[LogTopic, Ahead] = {}
    unit.runs = []
    for topic, runs in by_topic.items():
        if sum(run.bytes for run in runs) >= TOPIC_BYTES_MIN:
            runs, held[topic] = _log_of(topic).place_ahead(runs)
        unit.runs += runs
    return held


def _log_of(topic: LogTopic) -> DurableLog:
    assert isinstance(topic.log, DurableLog), f"{topic!r} keeps nothing on disk"
    return topic.log


def _slices(runs: Iterable[CountedRun]) -> Iterator[list[tuple[LogTopic, Block]]]:
    """Yield the blocks that are written together."""
    blocks: list[tuple[LogTopic, Block]] = []
    size = 0
    for run in runs:
        if run.first is None:
            continue
        topic, start = topic_of(run), 0
        for index, entry in enumerate(run.entries, 1):
            size += len(entry)
            if size >= SLICE_BYTES or index == len(run.entries):
                entries = run.entries[start:index]
                blocks.append((topic, (topic.id, Position(run.first + start), entries)))
                start = index
            if size >= SLICE_BYTES:
                yield blocks
                blocks, size = [], 0
    if blocks:
        yield blocks
