"""``arneb backup`` asks the node for what it holds in memory, and says so when that may be
missing."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from arneb.cli import arneb
from arneb.commands import backup
from arneb.settings.shards import node_directory_of
from arneb_core.store.directory.directory import CONTROL_NAME

MISSING = "may be missing"


@contextmanager
def answering(directory: Path, status: str) -> Iterator[None]:
    """A control socket that gives this answer, or none."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / CONTROL_NAME))
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as asked:
                asked.recv(4096)
                body = b'{"reason": "so it is"}'
                asked.sendall(
                    b"HTTP/1.1 %s -\r\ncontent-length: %d\r\n\r\n" % (status.encode(), len(body))
                )
                asked.sendall(body)

        thread = Thread(target=answer)
        if status:
            thread.start()
        yield
        if status:
            thread.join()


def warning(directory: Path) -> str:
    """What the command prints as a warning; it makes a copy anyway."""
    command = ["backup", str(directory), str(directory.with_name("copy"))]
    result = CliRunner().invoke(arneb, command)
    assert result.exit_code == 0, result.output
    assert "no findings" in result.output
    return "\n".join(each for each in result.output.splitlines() if "no findings" not in each)


@pytest.mark.parametrize("status", ["200", "404"])
def test_there_is_no_warning_if_everything_was_or_is_written(directory: Path, status: str) -> None:
    with answering(directory, status):
        assert warning(directory) == ""


@pytest.mark.parametrize("status", ["409", "500", "503"])
def test_a_node_that_cannot_write_it_is_reported(directory: Path, status: str) -> None:
    with answering(directory, status):
        assert f"{MISSING}: so it is" in warning(directory)


def test_a_node_that_does_not_answer_is_reported(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "FLUSH_S", 0.01)
    with answering(directory, ""):
        assert MISSING in warning(directory)


def test_a_node_that_cannot_be_asked_is_reported(directory: Path) -> None:
    """For instance where the user may read the directory but is not the node's user."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(directory / CONTROL_NAME))
        assert MISSING in warning(directory)


def test_there_is_no_warning_where_no_node_runs(directory: Path) -> None:
    assert warning(directory) == ""
    directory.with_name("copy").rename(directory.with_name("first"))
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(directory / CONTROL_NAME))
    assert warning(directory) == ""


def test_a_shards_directory_belongs_to_its_node_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = tmp_path / "data" / "shards" / "audit"
    shard.mkdir(parents=True)
    (tmp_path / "link").symlink_to(shard)
    monkeypatch.chdir(shard.parent)
    for named in (shard, Path("audit"), Path("audit/."), tmp_path / "link"):
        assert node_directory_of(named) == tmp_path / "data"
    for named in (tmp_path / "data", tmp_path / "none", Path("/")):
        assert node_directory_of(named) == named


def test_a_nodes_directory_may_be_where_shards_are(tmp_path: Path) -> None:
    node = tmp_path / "shards" / "node"
    node.mkdir(parents=True)
    (node / CONTROL_NAME).touch()
    assert node_directory_of(node) == node
