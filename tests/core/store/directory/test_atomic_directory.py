"""A directory gets its name when it is whole, and one maker at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arneb_core.api.errors import StoreLocked, StoreUnusable
from arneb_core.store.directory.atomic_directory import atomic_directory


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def test_it_gets_its_name_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "place"
    with atomic_directory(target, ".making") as making:
        (making / "file").write_text("all of it")
        assert names(tmp_path / "deep") == ["place.making"]
        assert making.stat().st_mode & 0o777 == 0o750
    assert names(tmp_path / "deep") == ["place"]
    assert (target / "file").read_text() == "all of it"


def test_an_empty_directory_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with atomic_directory(tmp_path / "place", ".making") as making:
        (making / "file").touch()
    assert names(tmp_path / "place") == ["file"]


@pytest.mark.parametrize("kind", ["file", "full", "link"])
def test_what_is_there_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "place"
    if kind == "file":
        target.touch()
    elif kind == "full":
        target.mkdir()
        (target / "thesis.txt").touch()
    else:
        target.symlink_to(tmp_path / "nowhere")
    before = names(tmp_path)
    with (
        pytest.raises(StoreUnusable, match="already exists"),
        atomic_directory(target, ".making"),
    ):
        raise AssertionError("nothing is to be made")
    assert names(tmp_path) == before


def test_what_comes_to_be_there_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "place"
    with (
        pytest.raises(StoreUnusable, match="already exists"),
        atomic_directory(target, ".making"),
    ):
        target.mkdir()
        (target / "thesis.txt").touch()
    assert names(tmp_path) == ["place"]
    assert names(target) == ["thesis.txt"]


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        atomic_directory(tmp_path / "place", ".making") as making,
    ):
        (making / "half").touch()
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_what_a_kill_left_is_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / "place.making"
    (left / "folder").mkdir(parents=True)
    (left / "folder" / "half").touch()
    (left / "link").symlink_to(tmp_path)
    with atomic_directory(tmp_path / "place", ".making") as making:
        assert names(making) == []
        (making / "file").touch()
    assert names(tmp_path / "place") == ["file"]


def test_two_makers_do_not_mix(tmp_path: Path) -> None:
    target = tmp_path / "place"
    with atomic_directory(target, ".making") as making:
        (making / "mine").touch()
        with (
            pytest.raises(StoreLocked, match=r"place\.making is being written by another process"),
            atomic_directory(target, ".making"),
        ):
            raise AssertionError("it is taken")
        assert names(making) == ["mine"]
    assert names(target) == ["mine"]


def test_the_right_goes_with_the_process(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from arneb_core.store.directory.atomic_directory import atomic_directory
with atomic_directory(Path(sys.argv[1]), ".making") as making:
    (making / "half").touch()
    os.kill(os.getpid(), 9)
"""
    target = tmp_path / "place"
    done = subprocess.run([sys.executable, "-c", program, target], check=False)
    assert done.returncode == -9
    assert names(tmp_path) == ["place.making"]
    with atomic_directory(target, ".making") as making:
        assert names(making) == []
    assert names(tmp_path) == ["place"]


def test_the_name_is_put_on_disk_after_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))

    with atomic_directory(tmp_path / "place", ".making"):
        monkeypatch.setattr(os, "fsync", fsync)
    assert synced[0] == str(tmp_path)
    assert (tmp_path / "place").exists()
