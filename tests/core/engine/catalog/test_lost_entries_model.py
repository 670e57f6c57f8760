"""Damaged journals among everything else that a log goes through: kills, seeks, delays, ledgers
that end, topics that go.

Each life of an engine plays some steps and ends: in order, or killed, with its journal damaged or
not. The rule: no position ever holds two things, what is there is delivered in its order to whoever
has not acknowledged it, what is missing between others is a gap, and the check agrees.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
import trio
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.log import retention
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.commit import inline_commits
from arneb_core.store.directory.compacting import compact
from arneb_core.store.environment import Store
from arneb_core.store.format.schema import Table, TopicId
from arneb_core.store.journal.record import BLOCK_BYTES
from arneb_core.store.journal.writing import JOURNAL_NAME
from arneb_core.store.salvage.salvaging import salvage
from arneb_core.testing.engine_kit import append, attach, publish, quiet

pytestmark = pytest.mark.real_time

ALLOWED = {FindingKind.GAP, FindingKind.JOURNAL_KEPT}
QUEUES = ("a", "b")

STEPS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(QUEUES), st.integers(1, 4)),
    st.tuples(st.just("delayed"), st.sampled_from(QUEUES), st.booleans()),
    st.tuples(st.just("acknowledge"), st.sampled_from(QUEUES), st.integers(0, 100)),
    st.tuples(st.just("seek"), st.sampled_from(QUEUES), st.integers(0, 100)),
    st.tuples(st.just("delete"), st.sampled_from(QUEUES), st.just(0)),
)
ENDS = st.one_of(
    st.just(("stop", 0)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("damage"), st.integers(0, 1 << 16)),
    st.tuples(st.just("damage"), st.integers(0, 1 << 16)),
    st.just(("remove", 0)),
)
BETWEEN = st.sampled_from(["", "", "compact", "salvage"])
LIVES = st.lists(st.tuples(st.lists(STEPS, max_size=12), ENDS, BETWEEN), min_size=2, max_size=4)


@contextmanager
def eager() -> Iterator[None]:
    """Everything small goes to the journal, and every ledger ends when it is acknowledged."""
    with (
        patch.object(inline_commits, "SMALL_COMMITS_MIN", 0),
        patch.object(inline_commits, "FAST_S", 60.0),
        patch.object(inline_commits, "STALL_S", 60.0),
        patch.object(retention, "ENDED_BYTES_MIN", 1),
    ):
        yield


DAMAGED_BLOCKS = 16
DAMAGED_BYTES = 300
"""Of each, most of a small record."""


class Lives:
    """One data directory after the other, and what ever stood where."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._names = (place / f"{number}" for number in count())
        self.data = next(self._names)
        self._given: dict[tuple[TopicId, Position], bytes] = {}
        self._acknowledged: set[bytes] = set()
        self._bodies = count()

    async def live(self, steps: list[tuple[str, str, int]], end: tuple[str, int]) -> None:
        kind, how = end
        left = next(self._names)
        async with open_engine(self.data) as engine:
            for queue in QUEUES:
                await self._declare(engine, queue)
            await self._look_at(engine)
            for name, queue, argument in steps:
                await getattr(self, "_" + name)(engine, queue, argument)
            if kind == "damage":  # something is in the journal, and something behind it
                for queue in "aababb":
                    await self._publish(engine, queue, 1)
            if kind != "stop":
                shutil.copytree(self.data, left)
        if kind == "stop":
            return
        self.data = left
        self._note()
        if kind == "damage":
            self._damage(how)
        elif kind == "remove":
            (self.data / JOURNAL_NAME).unlink(missing_ok=True)

    def between(self, what: str) -> None:
        if what == "compact":
            compact(self.data)
        elif what == "salvage":
            target = next(self._names)
            salvage(self.data, target)
            self.data = target

    async def _declare(self, engine: Engine, queue: str) -> None:
        if queue not in engine.topics:
            await engine.create_topic(queue)
        await engine.topic(queue).subscribe("s", initial=InitialPosition.EARLIEST)

    async def _publish(self, engine: Engine, queue: str, times: int) -> None:
        for _ in range(times):
            await publish(engine, queue, [b"%d" % next(self._bodies)])

    async def _delayed(self, engine: Engine, queue: str, is_due: bool) -> None:
        topic = engine.topic(queue)
        engine.expect_delays(topic)
        at_ms = 1 if is_due else 1 << 45
        header = EntryHeader(Origin.AMQP, deliver_at_ms=at_ms)
        body = b"late %d" % next(self._bodies)
        await append(engine, queue, [header.pack() + body])

    async def _acknowledge(self, engine: Engine, queue: str, percent: int) -> None:
        consumer, sink = attach(engine.topic(queue).subscriptions["s"], permits=1000)
        await quiet(engine)
        places = sink.positions[: max(1, len(sink.positions) * percent // 100)]
        self._acknowledged |= set(sink.bodies[: len(places)])
        done = trio.Event()
        consumer.acknowledge(places, lambda error, *_: done.set())  # type: ignore[attr-defined]
        await done.wait()
        consumer.detach()  # type: ignore[attr-defined]
        await quiet(engine)

    async def _seek(self, engine: Engine, queue: str, percent: int) -> None:
        topic = engine.topic(queue)
        first, last = topic.first, topic.last
        if first is None or last is None:
            return
        place = Position(first + (last - first) * percent // 100)
        await topic.subscriptions["s"].seek(place)
        for (topic_id, each), body in (self._given | self._stored(engine._store)).items():
            if topic_id == topic.id:
                change = self._acknowledged.add if each < place else self._acknowledged.discard
                change(body)

    async def _delete(self, engine: Engine, queue: str, _: int) -> None:
        await engine.delete_topic(queue)
        await self._declare(engine, queue)

    async def _look_at(self, engine: Engine) -> None:
        """Whoever comes gets what is there and not acknowledged, in order."""
        for queue in QUEUES:
            topic = engine.topic(queue)
            stored = self._stored(engine._store)
            expected = [
                body
                for (topic_id, _), body in sorted(stored.items())
                if topic_id == topic.id and body not in self._acknowledged
            ]
            held_back = [body for body in expected if body.startswith(b"late")]
            consumer, sink = attach(topic.subscriptions["s"], permits=1000)
            await quiet(engine)
            # A seek may have come to nothing with the kill: then less is acknowledged, never more.
            found = [body for body in sink.bodies if body not in self._acknowledged]
            prompt = [body for body in found if body not in held_back]
            assert prompt == [body for body in expected if body not in held_back]
            # What came due goes out before what is new, acknowledged before a damage or not.
            in_order = [
                place
                for place, body in zip(sink.positions, sink.bodies, strict=True)
                if not body.startswith(b"late")
            ]
            assert in_order == sorted(in_order)
            consumer.detach()  # type: ignore[attr-defined]
            await quiet(engine)

    def _stored(self, store: Store) -> dict[tuple[TopicId, Position], bytes]:
        with store.snapshot() as snapshot:
            return {
                (topic_id, Position(first + index)): entry[40:]
                for topic_id in map(TopicId, range(1, 40))
                if any(True for _ in snapshot.scan(Table.LEDGERS, topic_id.to_bytes(4, "big")))
                for first, run in snapshot.iter_blocks(topic_id)
                for index, entry in enumerate(run)
            }

    def _note(self) -> None:
        """What was ever on disk; no position holds something else later."""
        place = self.data.with_name(self.data.name + "-looked-at")
        shutil.copytree(self.data, place)
        with Store.open(place) as store:
            for key, body in self._stored(store).items():
                assert self._given.setdefault(key, body) == body, f"{key} was given out twice"
        shutil.rmtree(place)

    def _damage(self, how: int) -> None:
        journal = self.data / JOURNAL_NAME
        if not journal.exists():
            return
        content = bytearray(journal.read_bytes())
        if content:
            # Where a record may stand: each has a block of its own.
            at = how % DAMAGED_BLOCKS * BLOCK_BYTES + how // DAMAGED_BLOCKS % DAMAGED_BYTES
            content[at] ^= 1 + how % 255
            journal.write_bytes(content)

    def checked(self) -> None:
        kinds = {each.kind for each in check(self.data)}
        event(f"gaps {FindingKind.GAP in kinds}, reports {FindingKind.JOURNAL_KEPT in kinds}")
        assert kinds <= ALLOWED, kinds


AN_ACKNOWLEDGEMENT_OF_WHAT_CAME_DUE_IS_LOST: list[
    tuple[list[tuple[str, str, int]], tuple[str, int], str]
] = [
    (
        [
            ("publish", "a", 1),
            ("delayed", "a", True),
            ("publish", "a", 1),
            ("acknowledge", "a", 67),
        ],
        ("remove", 0),
        "",
    ),
    ([], ("stop", 0), ""),
]


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(LIVES)
@example(AN_ACKNOWLEDGEMENT_OF_WHAT_CAME_DUE_IS_LOST)
def test_nothing_is_lost_moved_or_invented_but_what_is_said(
    lives: list[tuple[list[tuple[str, str, int]], tuple[str, int], str]],
) -> None:
    with eager(), tempfile.TemporaryDirectory() as name:
        play = Lives(Path(name))
        for steps, end, what in lives:
            trio.run(play.live, steps, end)
            play.between(what)
        trio.run(play.live, [], ("kill", 0))
        play.checked()
