"""A data directory that a command works on."""

from pathlib import Path

import pytest
import trio

from arneb_core.engine.engine import open_engine


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a broker that was started once and stopped."""

    async def make() -> None:
        async with open_engine(tmp_path / "data"):
            pass

    trio.run(make)
    return tmp_path / "data"
