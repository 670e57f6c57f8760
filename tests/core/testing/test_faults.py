"""The faulty store does what it is told, and nothing else."""

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from arneb_core.api.errors import StoreFailed, StoreFull
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table
from arneb_core.testing.faults import Death, Died, DiskFault, FaultyStore, broken_disk

KEY = b"frontend/key"


@pytest.fixture
def faulty(store: Store) -> FaultyStore:
    return FaultyStore(store)


def changes(value: bytes = b"x") -> Changes:
    return Changes(puts=[(Table.CATALOG, KEY, value)])


def value_in(store: Store | FaultyStore) -> bytes | None:
    with store.snapshot() as snapshot:
        return snapshot.get(Table.CATALOG, KEY)


def test_without_faults_it_behaves_like_the_store(faulty: FaultyStore, tmp_path: Path) -> None:
    faulty.commit(changes())
    assert value_in(faulty) == b"x"
    assert (faulty.path, faulty.size_bytes) == (faulty.inner.path, faulty.inner.size_bytes)
    assert faulty.statistics() == faulty.inner.statistics()
    assert faulty.reader_check() == 0
    faulty.copy(tmp_path)
    assert (tmp_path / "data.mdb").exists()
    assert repr(faulty).startswith("<FaultyStore in order <Store ")
    faulty.close()


def test_it_fails_the_next_commits_and_then_no_more(faulty: FaultyStore) -> None:
    faulty.fail_next(2, StoreFull("told to be full"))
    faulty.fail_next()
    for expected in (StoreFull, StoreFull, StoreFailed):
        with pytest.raises(expected, match="told to"):
            faulty.commit(changes())
        assert value_in(faulty) is None
    faulty.commit(changes())
    assert value_in(faulty) == b"x"
    assert faulty.commits_total == 4


def test_it_fails_until_it_is_healed(faulty: FaultyStore) -> None:
    faulty.fail_until_healed()
    for _ in range(3):
        with pytest.raises(StoreFailed):
            faulty.commit(changes())
    faulty.heal()
    faulty.commit(changes())
    assert value_in(faulty) == b"x"


def test_it_holds_a_commit_until_it_is_released(faulty: FaultyStore) -> None:
    faulty.hold()
    writer = threading.Thread(target=faulty.commit, args=(changes(),))
    writer.start()
    faulty.wait_for_commit()
    assert value_in(faulty) is None
    assert repr(faulty).startswith("<FaultyStore slow")
    faulty.release()
    writer.join()
    assert value_in(faulty) == b"x"
    with pytest.raises(TimeoutError):
        faulty.wait_for_commit(timeout_s=0.0)


@pytest.mark.parametrize(
    ("when", "left"), [(Death.BEFORE_COMMIT, None), (Death.AFTER_COMMIT, b"x")]
)
def test_dying_tells_nobody_and_leaves_what_a_kill_would(
    data_dir: Path, when: Death, left: bytes | None
) -> None:
    calls: list[object] = []
    faulty = FaultyStore(Store.open(data_dir))
    faulty.die(when)

    def write() -> None:
        with suppress(Died):
            calls.append(faulty.commit(changes()))

    writer = threading.Thread(target=write)
    writer.start()
    writer.join()
    with pytest.raises(Died):
        faulty.commit(changes(b"later"))
    assert calls == []
    assert repr(faulty).startswith("<FaultyStore dead")
    faulty.inner.close()
    with Store.open(data_dir) as store:
        assert value_in(store) == left


@pytest.mark.parametrize("fault", DiskFault)
def test_a_broken_disk_is_whole_again_afterwards(store: Store, fault: DiskFault) -> None:
    store.commit(changes(b"before"))
    with broken_disk(store.path, fault), pytest.raises((StoreFull, StoreFailed)):
        store.commit(changes(b"lost"))
    for number in range(3):
        store.commit(changes(b"%d" % number))
        assert value_in(store) == b"%d" % number


def test_only_an_open_store_can_be_broken(data_dir: Path) -> None:
    Store.open(data_dir).close()
    with (
        pytest.raises(AssertionError, match="is not open"),
        broken_disk(data_dir, DiskFault.FULL),
    ):
        pass
