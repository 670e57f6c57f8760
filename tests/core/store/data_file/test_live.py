"""The live environment: a data file that somebody cut off is noticed before LMDB meets the end."""

import os
from pathlib import Path

import pytest

from arneb_core.api.errors import StoreFailed
from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table


def put(number: int, size: int = 100) -> Changes:
    changes = Changes()
    changes.puts.append((Table.META, b"test-%d" % number, bytes(size)))
    return changes


def restore(data: Path, whole: bytes) -> None:
    """Write ``data`` in its place, where LMDB has it mapped."""
    with data.open("r+b") as file:
        file.write(whole)


@pytest.mark.parametrize("before", [0, 3])
def test_a_file_that_is_cut_off_is_noticed_at_the_next_commit_and_the_next_snapshot(
    tmp_path: Path, before: int
) -> None:
    with Store.open(tmp_path / "store") as store:
        data = store.path / DATA_NAME
        for number in range(before):
            store.commit(put(number, 1000 * 2**number))
        whole = data.read_bytes()
        os.truncate(data, 2 * 4096)
        with pytest.raises(StoreFailed):
            store.commit(put(7))
        with pytest.raises(StoreFailed), store.snapshot():
            pass
        restore(data, whole)
        store.commit(put(8))


def test_a_file_that_is_cut_off_again_is_noticed_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        data = store.path / DATA_NAME
        for number in range(3):
            store.commit(put(number))
            whole = data.read_bytes()
            os.truncate(data, 3 * 4096)
            with pytest.raises(StoreFailed):
                store.commit(put(100 + number))
            restore(data, whole)


def test_closing_gives_every_descriptor_of_the_data_file_back(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    data = os.fspath(store.path / DATA_NAME)
    store.commit(put(1))
    assert data in held()
    store.close()
    assert data not in held()


def held() -> set[str]:
    """The files that this process has open."""
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{each}"))
        except FileNotFoundError:
            continue
    return found
