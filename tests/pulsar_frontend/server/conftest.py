"""A core with a real store, checked when the test is over, and a door to it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.check import check
from arneb_core.store.environment import Store
from arneb_core.testing.faults import FaultyStore
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.server.door import Door
from arneb_pulsar.server.serving import make_door


@dataclass
class Running:
    """What a server test plays with."""

    core: Engine
    door: Door
    store: FaultyStore


OpenDoor = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def open_door(tmp_path: Path) -> Iterator[OpenDoor]:
    """Opens the core, with the settings given; it may be opened again on the same data."""
    path = tmp_path / "data"

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[Running]:
        with closing(Store.open(path)) as store:
            faulty = FaultyStore(store)
            async with open_engine(path, store=store, committing=faulty) as core:
                yield Running(core, make_door(core, PulsarConfig(**settings)), faulty)

    yield opened
    if (path / "data.mdb").exists():
        findings = check(path)
        assert not findings, "\n".join(map(str, findings))
