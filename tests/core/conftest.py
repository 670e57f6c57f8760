"""What the core's tests share: a data directory that is checked when the test is over, and the
commit log that engines are opened over.

``--commit-log memory-8`` runs them over a commit log in memory, which takes eight commits at once
and is late with each.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from arneb_core.engine import engine as engine_module
from arneb_core.engine.engine import MakeLog
from arneb_core.store.checking.check import check
from arneb_core.store.commit.local import LocalCommitLog
from arneb_core.store.environment import Store
from arneb_core.testing.memory_commit_log import MemoryCommitLog


def pytest_addoption(parser: pytest.Parser) -> None:
    choices = [f"{kind}-{depth}" for kind in ("local", "memory") for depth in (1, 8)]
    parser.addoption("--commit-log", default="local-1", choices=choices, help="kind and depth")


@pytest.fixture(autouse=True)
def commit_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Open engines over the commit log that was asked for."""
    kind, depth = request.config.getoption("--commit-log", default="local-1").split("-")
    made: MakeLog = partial(LocalCommitLog, depth=int(depth))
    if kind == "memory":
        made = partial(MemoryCommitLog, depth=int(depth), delays=Random(0))
    with patch.object(engine_module, "LocalCommitLog", made):
        yield


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A directory for a store; whatever store is in it at the end must be without findings.

    The test must have closed it by then.
    """
    path = tmp_path / "data"
    yield path
    if (path / "data.mdb").exists():
        findings = check(path)
        assert not findings, "\n".join(map(str, findings))


@pytest.fixture
def store(data_dir: Path) -> Iterator[Store]:
    """An open store, which is closed and checked after the test."""
    opened = Store.open(data_dir)
    yield opened
    opened.close()
