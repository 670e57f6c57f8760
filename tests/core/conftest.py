"""What the core's tests share: a data directory that is checked when the test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from arneb_core.store.check import check
from arneb_core.store.environment import Store


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
