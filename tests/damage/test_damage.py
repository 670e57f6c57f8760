"""Damaged data directories and the real commands: never a signal, never a traceback, and one line
that names the place."""

import itertools
from pathlib import Path

import pytest
from tests.damage.commands import copy_of, run
from tests.damage.damages import Damage, damages, page_classes
from tests.damage.saved import (
    assert_saved,
    entries_in_journal,
    read_everything,
    salvage_here,
)
from tests.damage.soak import suffer
from tests.damage.stored import make_everything

from arneb_core.store.environment import Store
from arneb_core.store.salvage.salvaging import salvage

EXAMPLES = 12
"""``make soak-damage`` continues for as long as requested."""

SALVAGED = 40
"""How many damages are salvaged in this process, which is safe because salvaging does not use
LMDB's trees."""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with contents of every kind."""
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
    original = read_everything(everything)
    for damage in itertools.islice(damages(everything / "data.mdb", seed=9), EXAMPLES):
        print(suffer(everything, damage, original))


def test_what_is_salvaged_was_there_and_stands_where_it_stood(everything: Path) -> None:
    original = read_everything(everything)
    for damage in itertools.islice(damages(everything / "data.mdb", seed=10), SALVAGED):
        with copy_of(everything) as copy:
            damage.apply(copy / "data.mdb")
            # printed before it is applied, for readers of a failure
            print(damage, end=": ", flush=True)
            print(salvage_here(copy, copy.with_name("out"), original))


def test_a_store_that_is_whole_is_salvaged_whole(everything: Path) -> None:
    with copy_of(everything) as copy:
        original = read_everything(everything)
        outcome = assert_saved(copy, copy.with_name("out"), original)
        assert outcome == f"salvage 0, {len(original)} of {len(original)} entries"


@pytest.mark.parametrize(
    "kind", ["leaf of ledgers", "leaf of cursors", "leaf of delayed", "leaf of references",
             "leaf of freelist", "leaf of meta", "leaf of main"]
)  # fmt: skip
def test_a_lost_page_beside_the_log_costs_no_message(everything: Path, kind: str) -> None:
    """Everything that LMDB had is there; the journal's records are not, if the lost page said how
    to read them."""
    for page in page_classes(everything / "data.mdb")[kind]:
        with copy_of(everything) as copy:
            _zero(copy / "data.mdb", page)
            target = copy.with_name("out")
            report = salvage(copy, target)
            assert report.missing
            original = read_everything(everything)
            found = read_everything(target)
            if kind in ("leaf of meta", "leaf of main"):
                assert len(found) >= len(original) - entries_in_journal(everything)
            else:
                assert len(found) == len(original)
            assert found.items() <= original.items()


def test_a_lost_page_of_the_catalog_costs_names_and_no_messages(everything: Path) -> None:
    original = read_everything(everything)
    for page in page_classes(everything / "data.mdb")["leaf of catalog"]:
        with copy_of(everything) as copy:
            _zero(copy / "data.mdb", page)
            target = copy.with_name("out")
            salvage(copy, target)
            found = read_everything(target)
            assert sorted(found.values()) == sorted(original.values())


def test_blocks_are_found_again_without_the_page_that_leads_to_them(everything: Path) -> None:
    """The long values of an ENTRIES leaf are on pages of their own. Blocks go where entries are
    missing if that is a single place, otherwise into a topic of their own."""
    original = read_everything(everything)
    large = {each for each in original.values() if len(each) > 15_000}
    assert len(large) > 10
    for page in page_classes(everything / "data.mdb")["leaf of entries"]:
        with copy_of(everything) as copy:
            _zero(copy / "data.mdb", page)
            target = copy.with_name("out")
            salvage(copy, target)
            found = read_everything(target)
            assert large <= set(found.values())


def test_a_directory_in_use_is_not_salvaged(everything: Path) -> None:
    with copy_of(everything) as copy, Store.open(copy):
        status, _, err = run("salvage", copy, copy.with_name("out"))
        assert status == 2
        assert "is in use by a broker" in err


def test_nothing_is_written_over(everything: Path) -> None:
    with copy_of(everything) as copy:
        status, _, err = run("salvage", everything, copy)
        assert status == 2
        assert "already exists" in err


def _zero(file: Path, page: int) -> None:
    with file.open("r+b") as data:
        data.seek(page * 4096)
        data.write(bytes(4096))


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


def test_a_missing_data_file_is_not_created_again(everything: Path) -> None:
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
