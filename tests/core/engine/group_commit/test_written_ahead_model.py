"""Large units written ahead, beside appends, ledgers that end, failures and restarts: a model."""

from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.engine.group_commit.test_written_ahead import SLICE, bodies, numbered, unit_of

from arneb_core.api.errors import StoreFailed
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.group_commit import write_ahead
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import publish, quiet
from arneb_core.testing.faults import FaultyStore

NAMES = ("a", "b")

STEPS = st.lists(st.sampled_from(["append a", "append b", "roll a", "roll b", "fail"]), max_size=4)
ENDS = st.sampled_from(["commit", "commit", "nobody waits", "give up"])
UNITS = st.tuples(STEPS, st.integers(0, 30), st.integers(0, 30), STEPS, ENDS)
LIVES = st.lists(st.lists(UNITS, min_size=1, max_size=3), min_size=1, max_size=3)

Made = tuple[list[str], int, int, list[str], str]


class Played:
    """What is in the topics, as far as it is known; of a unit whose commit nobody waited for, all
    or nothing."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.numbers = 0

    def new(self, count: int) -> list[bytes]:
        self.numbers += count
        return numbered(self.numbers - count, count)

    async def steps(self, engine: Engine, faulty: FaultyStore, steps: list[str]) -> None:
        for step in steps:
            what, _, name = step.partition(" ")
            with suppress(StoreFailed):
                if what == "append":
                    made = self.new(1)
                    await publish(engine, name, made)
                    self.bodies[name] += made
                elif what == "roll":
                    await engine.topic(name).roll()  # type: ignore[attr-defined]
                else:
                    faulty.fail_next()

    async def unit(self, engine: Engine, faulty: FaultyStore, made: Made) -> None:
        before, a, b, meanwhile, ends = made
        await self.steps(engine, faulty, before)
        new = {name: self.new(count) for name, count in zip(NAMES, (a, b), strict=True) if count}
        unit = unit_of(engine, **new)
        committed = False
        with suppress(StoreFailed), trio.CancelScope() as scope:
            async with engine.written_ahead(unit):
                await self.steps(engine, faulty, meanwhile)
                if ends == "nobody waits":
                    scope.cancel()
                if ends != "give up":
                    await engine.committed(unit)
                    committed = True
        await quiet(engine)
        found = {name: await bodies(engine, name) for name in NAMES}
        if ends == "nobody waits":
            committed = any(found[name][-1:] == made[-1:] for name, made in new.items())
        for name in new if committed else ():
            self.bodies[name] += new[name]
        assert found == self.bodies

    async def life(self, path: Path, units: list[Made]) -> None:
        with Store.open(path) as store:
            faulty = FaultyStore(store)
            async with open_engine(path, store=store, committing=faulty) as engine:
                for made in units:
                    await self.unit(engine, faulty, made)
                faulty.heal()
                await quiet(engine)
                with store.snapshot() as snapshot:
                    assert not check(snapshot)


@settings(max_examples=20)
@example([[([], 6, 4, ["fail"], "nobody waits"), ([], 0, 0, ["append a"], "commit")]], 1)
@given(LIVES, st.sampled_from([1, 300, 1 << 20]))
def test_whatever_happens_meanwhile_a_unit_is_there_whole_and_in_its_place_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, lives: list[list[Made]], ledger_bytes_max: int
) -> None:
    async def create(path: Path) -> None:
        kept = TopicSettings(retention_ms=-1, retention_bytes=-1, ledger_bytes_max=ledger_bytes_max)
        async with open_engine(path) as engine:
            for name in NAMES:
                await engine.create_topic(name, kept)

    folder = tmp_path_factory.mktemp("store")
    with patch.multiple(write_ahead, UNIT_BYTES_MIN=400, TOPIC_BYTES_MIN=200, SLICE_BYTES=SLICE):
        played = Played()
        trio.run(create, folder)
        for units in lives:
            trio.run(played.life, folder, units)
        assert not check(folder)
