"""Damaged data directories, by the real commands: never a signal, never a traceback, and one line
that names the place."""

import itertools
from pathlib import Path

import pytest
from tests.damage.commands import copy_of, run
from tests.damage.damages import Damage, damages, page_classes
from tests.damage.soak import COMMANDS, suffer
from tests.damage.stored import make_everything

EXAMPLES = 24
"""One of each sort. ``make soak-damage`` goes on for as long as it is asked to."""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with content of every kind."""
    directory = tmp_path_factory.mktemp("damage") / "data"
    make_everything(directory)
    return directory


def test_the_store_that_is_damaged_has_pages_of_every_kind(everything: Path) -> None:
    tables = ("bodies", "catalog", "cursors", "delayed", "entries", "ledgers", "meta", "references")
    assert page_classes(everything / "data.mdb").keys() >= {
        "meta",
        "branch",
        "leaf of main",
        "leaf of freelist",
        "overflow of entries",
        "overflow of bodies",
        *(f"leaf of {table}" for table in tables),
    }


def test_no_command_dies_of_damage_or_says_it_in_a_traceback(everything: Path) -> None:
    for damage in itertools.islice(damages(everything / "data.mdb", seed=9), EXAMPLES):
        print(suffer(everything, damage, COMMANDS))


@pytest.mark.parametrize("command", ["check", "topics", "serve"])
@pytest.mark.parametrize("size", [0, 1, 4096, 2 * 4096, "half"])
def test_a_file_that_is_cut_off_is_refused_in_one_line(
    everything: Path, size: int | str, command: str
) -> None:
    with copy_of(everything) as copy:
        file = copy / "data.mdb"
        content = file.read_bytes()
        used = 4096 * (1 + max(itertools.chain(*page_classes(file).values())))
        file.write_bytes(content[: used // 2 if size == "half" else int(size)])
        before = {each.name: each.read_bytes() for each in copy.iterdir()}
        status, out, err = run(command, copy)
        assert status == 2
        assert out == ""
        assert str(file) in err
        assert {each.name: each.read_bytes() for each in copy.iterdir()} == before


def test_a_data_file_that_is_gone_is_not_made_anew(everything: Path) -> None:
    with copy_of(everything) as copy:
        (copy / "data.mdb").unlink()
        status, _, err = run("serve", copy)
        assert status == 2
        assert "has no data.mdb" in err
        assert not (copy / "data.mdb").exists()


def test_a_damaged_page_is_named_by_check_and_refused_by_serve(everything: Path) -> None:
    [page, *_] = page_classes(everything / "data.mdb")["leaf of entries"]
    damage = Damage(
        "zeros", lambda data: data[: page * 4096] + bytes(4096) + data[page * 4096 + 4096 :]
    )
    with copy_of(everything) as copy:
        damage.apply(copy / "data.mdb")
        status, out, _ = run("check", copy)
        assert status == 1
        assert f"bad-page: page {page}: table ENTRIES" in out
        status, _, err = run("serve", copy)
        assert status == 2
        assert f"page {page} (byte {page * 4096}), table ENTRIES" in err
