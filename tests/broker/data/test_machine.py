"""Staged batches and cursors by lease, with any operations in any order, failing commits and
restarts: a small model predicts what exists."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.data.kit import body_of, values

from arneb.data.commits import Commits, Wanted
from arneb.data.cursors import Cursors, Holder
from arneb.data.errors import DataError
from arneb.data.rights import Everything
from arneb.data.targets import Targets
from arneb.settings.data_limits import DataLimits
from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.errors import CoreError
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import publish
from arneb_core.testing.faults import FaultyStore
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.context import make_context

A, B = "persistent://public/default/a", "persistent://public/default/b"
RIGHTS: Final = Everything()
START_MS: Final = 1_000_000_000_000
EXPIRY_S: Final = 1000
EARLIEST: Final = InitialPosition.EARLIEST


class Here:
    """A broker's store that is opened again and again, and its clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ms = START_MS
        self.faulty: FaultyStore | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Engine]:
        with Store.open(self.path) as store:
            self.faulty = FaultyStore(store)
            async with open_engine(
                self.path, store=store, committing=self.faulty, now_ms=lambda: self.now_ms
            ) as engine:
                yield engine

    @contextmanager
    def failing(self, fails: bool) -> Iterator[list[bool]]:
        """Whether the operations inside had no effect because a commit failed."""
        assert self.faulty is not None, "the store must be open"
        failed: list[bool] = []
        if fails:
            self.faulty.fail_until_healed()
        try:
            yield failed
        except CoreError:
            assert fails, "nothing was told to fail"
            failed.append(True)
        finally:
            self.faulty.heal()


# Staged batches

BATCHES = st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 2))
STAGES = st.sampled_from(["s", "t"])
FAILS = st.sampled_from([False, False, False, True])
WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("stage"), BATCHES, STAGES, st.integers(0, 2), st.integers(0, 3), FAILS),
        st.tuples(st.just("commit"), BATCHES, st.lists(STAGES, unique=True), FAILS),
        st.tuples(st.just("abort"), BATCHES, st.none() | STAGES, FAILS),
        st.tuples(st.just("restart")),
        st.tuples(st.just("pass"), st.integers(1, 2000)),
    ),
    min_size=3,
    max_size=25,
)


@dataclass
class Batches:
    """The staged batches that exist, in a few dictionaries."""

    stages: dict[tuple[str, int], dict[str, list[list[bytes]]]] = field(default_factory=dict)
    touched_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    published: list[bytes] = field(default_factory=list)

    def drop(self, batch: tuple[str, int]) -> None:
        self.stages.pop(batch, None)
        self.touched_ms.pop(batch, None)


@given(steps=WRITES)
@settings(max_examples=60, deadline=None)
def test_batches_are_published_once_with_exactly_what_was_staged(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    here, model = Here(tmp_path_factory.mktemp("batches")), Batches()

    async def play() -> None:
        left = list(steps)
        while left:
            async with here.opened() as engine:
                pulsar = make_context(engine, PulsarConfig())
                limits = DataLimits(stage_expiry_s=EXPIRY_S)
                targets = Targets(engine, None, pulsar)
                commits = Commits(engine, targets, limits, lambda: here.now_ms)
                while left and (step := left.pop(0))[0] != "restart":
                    await _write(here, engine, commits, model, step)
                    await _expect(engine, commits, model)

    trio.run(play)
    assert not check(here.path)


async def _write(
    here: Here, engine: Engine, commits: Commits, model: Batches, step: tuple[Any, ...]
) -> None:
    kind, *rest = step
    if kind == "pass":
        here.now_ms += 1000 * rest[0]
        await commits.sweep()
        for batch, at_ms in list(model.touched_ms.items()):
            if at_ms + 1000 * EXPIRY_S <= here.now_ms:
                model.drop(batch)
        return
    batch, fails = rest[0], rest[-1]
    stages = model.stages.get(batch, {})
    is_done = batch[1] <= model.marks.get(batch[0], -1)
    with here.failing(fails) as failed:
        if kind == "abort":
            await commits.abort(batch, rest[1], RIGHTS)
        elif kind == "stage":
            name, piece, count = rest[1:4]
            rows = [b"%s-%d-%d-%d" % (name.encode(), batch[1], piece, n) for n in range(count)]
            body = body_of(rows, [{"topic": A}])
            pieces = stages.get(name, [])
            if not is_done and piece > len(pieces):
                with pytest.raises(DataError, match="expected piece"):
                    await commits.stage(batch, name, piece, body, RIGHTS)
                return
            if not is_done and piece < len(pieces) and pieces[piece] != rows:
                with pytest.raises(DataError, match="other rows"):
                    await commits.stage(batch, name, piece, body, RIGHTS)
                return
            found = await commits.stage(batch, name, piece, body, RIGHTS)
            assert (found is None) == is_done
            if not is_done and piece == len(pieces):
                model.stages.setdefault(batch, {}).setdefault(name, []).append(rows)
                model.touched_ms[batch] = here.now_ms
            return
        else:
            wanted = [
                Wanted(name, len(stages[name]), sum(map(len, stages[name])))
                if name in stages
                else Wanted(name, 1, 1)
                for name in rest[1]
            ]
            if not is_done and any(name not in stages for name in rest[1]):
                with pytest.raises(DataError, match="no stage"):
                    await commits.commit(batch, wanted, RIGHTS, mandatory=False)
                return
            answer = await commits.commit(batch, wanted, RIGHTS, mandatory=False)
            assert answer["already"] == is_done
    if failed:
        return
    if kind == "abort":
        model.stages.get(batch, {}).pop(rest[1], None)
        if rest[1] is None or not model.stages.get(batch):
            model.drop(batch)
    elif not is_done:
        model.published += [row for name in rest[1] for rows in stages[name] for row in rows]
        if batch[0] in model.marks or any(query == batch[0] for query, _ in model.stages):
            model.marks[batch[0]] = batch[1]
        model.drop(batch)


async def _expect(engine: Engine, commits: Commits, model: Batches) -> None:
    found = await values(engine, A) if A in engine.topics else []
    assert found == model.published
    for query in ("p", "q"):
        assert commits.last_committed(query) == model.marks.get(query)
        staged = {
            (each.batch, each.name): (len(each.pieces), each.rows)
            for each in commits.stages.of_query(query)
        }
        assert staged == {
            (batch, name): (len(pieces), sum(map(len, pieces)))
            for batch, stages in model.stages.items()
            if batch[0] == query
            for name, pieces in stages.items()
        }
        assert commits.stages.owner_of(query) == (RIGHTS.name if staged else None)
    kept = sum(each.size for query in ("p", "q") for each in commits.stages.of_query(query))
    assert commits.stages.room.used.bytes == kept


# Cursors

OWNERS = st.sampled_from(["me", "you"])
TOPICS = st.sets(st.sampled_from([A, B]), min_size=1)
MOVES = st.lists(
    st.one_of(
        st.tuples(
            st.just("open"), OWNERS, TOPICS, st.sampled_from([100, 1000, None]), st.booleans(),
            FAILS,
        ),
        st.tuples(st.just("ack"), OWNERS, TOPICS, st.integers(0, 10), FAILS),
        st.tuples(st.just("release"), OWNERS, TOPICS, FAILS),
        st.tuples(st.just("pass"), st.sampled_from([1, 99, 100, 700, 1000])),
        st.tuples(st.just("restart")),
    ),
    min_size=3,
    max_size=25,
)  # fmt: skip


@dataclass
class Held:
    """One cursor."""

    owner: str
    lease_s: int | None
    until_ms: int
    next: int = 0


@given(steps=MOVES)
@settings(max_examples=60, deadline=None)
def test_cursors_belong_to_their_owners_for_as_long_as_their_leases_last(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    here, model = Here(tmp_path_factory.mktemp("cursors")), dict[str, Held]()

    async def play() -> None:
        left = list(steps)
        async with here.opened() as engine:
            for name in (A, B):
                topic = await engine.create_topic(name)
                await topic.subscribe("kept", initial=EARLIEST)
                await publish(engine, name, [b"x"] * 10)
        while left:
            async with here.opened() as engine:
                cursors = Cursors(engine, lambda: here.now_ms)
                for held in model.values():
                    if held.lease_s is not None:
                        grace_ms = min(1000 * held.lease_s, 600_000)
                        held.until_ms = max(held.until_ms, here.now_ms + grace_ms)
                while left and (step := left.pop(0))[0] != "restart":
                    await _move(here, engine, cursors, model, step)
                    for name in (A, B):
                        topic = engine.topic(name)
                        assert ("q" in topic.subscriptions) == (name in model)
                        if name in model:
                            place = position_at(1, model[name].next) - 1
                            assert topic.subscriptions["q"].mark_delete == place

    trio.run(play)
    assert not check(here.path)


async def _move(
    here: Here, engine: Engine, cursors: Cursors, model: dict[str, Held], step: tuple[Any, ...]
) -> None:
    kind, *rest = step
    if kind == "pass":
        here.now_ms += 1000 * rest[0]
        await cursors.sweep()
        for name, held in list(model.items()):
            if held.lease_s is not None and held.until_ms <= here.now_ms:
                del model[name]
        return
    owner, names, fails = rest[0], sorted(rest[1]), rest[-1]
    topics = [engine.topic(name) for name in names]
    foreign = any(name in model and model[name].owner != owner for name in names)
    missing = any(name not in model for name in names)
    try:
        with here.failing(fails) as failed:
            if kind == "open":
                holder = Holder("q", owner, rest[2])
                await cursors.open(holder, dict.fromkeys(topics, EARLIEST), expect=rest[3])
            elif kind == "ack":
                place = Position(position_at(1, rest[2]))
                await cursors.renew(Holder("q", owner), dict.fromkeys(topics, place))
            else:
                await cursors.release(Holder("q", owner), topics)
    except DataError as error:
        expected = {"lease_held"} if foreign else set()
        if missing and (kind == "ack" or (kind == "open" and rest[3])):
            expected.add("cursor_gone")
        assert error.code in expected
        return
    if failed:
        await _settle(here, engine, cursors, model, names)
        return
    assert not foreign
    for name in names:
        if kind == "release":
            model.pop(name, None)
            continue
        held = model.get(name)
        if kind == "open":
            if held is None or held.lease_s != rest[2]:
                held = model[name] = Held(owner, rest[2], 0, 0 if held is None else held.next)
        elif held is not None:
            held.next = max(held.next, rest[2])
        if held is not None and held.lease_s is not None:
            held.until_ms = max(held.until_ms, here.now_ms + 1000 * held.lease_s)


async def _settle(
    here: Here, engine: Engine, cursors: Cursors, model: dict[str, Held], names: list[str]
) -> None:
    """After a failure, the request may have been carried out for some of the topics. A real client
    would repeat it; here it is given up."""
    await engine.committed(Unit())
    for name in names:
        topic = engine.topic(name)
        held = model.pop(name, None)
        lease = cursors.listed(topic).get("q") or {}
        owner = lease.get("owner") or (held.owner if held else "me")
        await cursors.release(Holder("q", str(owner)), [topic])
