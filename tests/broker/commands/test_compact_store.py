"""``arneb compact-store`` checks what it is about to rewrite."""

from pathlib import Path

import trio
from click.testing import CliRunner

from arneb.cli import arneb
from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.engine.engine import open_engine
from arneb_core.store.data_file.opening import DATA_NAME

MARK = b"a body that is easy to find"


def filled(path: Path) -> Path:
    """The data file of a store with one message."""

    async def fill() -> None:
        async with open_engine(path) as engine:
            topic = await engine.create_topic("persistent://public/default/t")
            entry = EntryHeader(Origin.PULSAR).pack() + MARK
            await engine.committed(Unit([(topic, [entry])]))

    trio.run(fill)
    return path / DATA_NAME


def damage(data: Path) -> None:
    """Change one byte of every copy of the message."""
    content = data.read_bytes()
    assert MARK in content
    data.write_bytes(content.replace(MARK, MARK.upper()))


def compacted(path: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(arneb, ["compact-store", *options, str(path)])
    return result.exit_code, result.output


def test_a_sound_store_is_compacted(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    status, output = compacted(tmp_path / "data")
    assert status == 0
    assert "bytes on disk before" in output


def test_a_damaged_store_is_reported_and_stays_as_it_was(tmp_path: Path) -> None:
    data = filled(tmp_path / "data")
    damage(data)
    before = data.read_bytes()
    status, output = compacted(tmp_path / "data")
    assert status == 1
    assert "block-corrupt" in output
    assert "not compacted" in output
    assert data.read_bytes() == before


def test_a_damaged_store_is_compacted_without_a_check(tmp_path: Path) -> None:
    damage(filled(tmp_path / "data"))
    status, _ = compacted(tmp_path / "data", "--no-check")
    assert status == 0
