"""What the tests of jobs share: data directories with queues, made by an engine."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from arneb_core.engine.engine import Engine, open_engine

Play = Callable[[Engine], Awaitable[None]]
MakeLog = Callable[[Play], Path]


@pytest.fixture
def make_log(tmp_path: Path) -> MakeLog:
    """Makes a data directory of what a story does with an engine."""

    def make(play: Play) -> Path:
        async def run() -> None:
            async with open_engine(tmp_path / "data") as engine:
                await play(engine)

        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
        return tmp_path / "data"

    return make
