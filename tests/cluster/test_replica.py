"""A directory that takes records over: together or one by one, it cannot be told from what is
stored."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arneb_cluster import replica as replica_module
from arneb_cluster.protocol.values import Applied, Link, Place
from arneb_cluster.replica import (
    UNFLUSHED_HEARTBEATS_MAX,
    UNFOUNDED,
    Replica,
    Step,
    joined,
    pack_applied,
    together,
    unpack_applied,
)
from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import position
from arneb_core.store.changes import Block, Changes
from arneb_core.store.environment import Store
from arneb_core.store.records import pack_trims
from arneb_core.store.schema import META_AHEAD, META_REPLICA, Table, TopicId
from arneb_core.testing.store_kit import entry

KEYS = st.sampled_from([b"topic/a", b"topic/ab", b"topic/b", b"frontend/x"])
PREFIXES = st.sampled_from([b"topic/", b"topic/a", b"frontend/"])
ROWS = st.binary(max_size=3)
COMMITS = st.lists(
    st.builds(
        lambda deletes, puts, prefixes: Changes(
            deletes=[(Table.CATALOG, key) for key in deletes],
            puts=[(Table.CATALOG, key, value) for key, value in puts],
            prefixes=[(Table.CATALOG, prefix) for prefix in prefixes],
        ),
        st.lists(KEYS, max_size=2),
        st.lists(st.tuples(KEYS, st.none() | ROWS), max_size=3),
        st.lists(PREFIXES, max_size=1),
    ),
    max_size=6,
)


def applied(number: int, place: int = 0) -> Applied:
    link = Link(number, number * 7)
    return Applied("h", link, Place(1, place or number), link, 3, Place(1, 0), number)


def steps_of(commits: list[Changes]) -> list[Step]:
    return [Step(each, applied(number), 10) for number, each in enumerate(commits, 1)]


def run(first: int, bodies: list[bytes], ledger: int = 1) -> Block:
    return TopicId(1), position(ledger, first), [entry(each) for each in bodies]


def rows(store: Store) -> dict[bytes, bytes]:
    with store.snapshot() as snapshot:
        return dict(snapshot.scan(Table.CATALOG))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(COMMITS)
def test_commits_together_leave_what_they_leave_one_after_the_other(commits: list[Changes]) -> None:
    with (
        tempfile.TemporaryDirectory() as made,
        Store.open(Path(made) / "one") as one,
        Store.open(Path(made) / "all") as all_at_once,
    ):
        single, whole = Replica(one), Replica(all_at_once)
        for step in steps_of(commits):
            single.apply([step])
        reports = whole.apply(steps_of(commits))
        assert len(reports) == len(commits)
        assert rows(one) == rows(all_at_once)
        assert single.applied == whole.applied
        single.flush()
        whole.flush()
        assert Replica(one).applied == Replica(all_at_once).applied == whole.applied


def test_what_a_later_commit_deletes_is_gone_and_what_it_puts_again_is_there(
    tmp_path: Path,
) -> None:
    key, other = b"topic/a", b"topic/b"
    commits = [
        Changes(puts=[(Table.CATALOG, key, b"1"), (Table.CATALOG, other, b"1")]),
        Changes(deletes=[(Table.CATALOG, key), (Table.CATALOG, other)]),
        Changes(puts=[(Table.CATALOG, other, b"2")]),
    ]
    with Store.open(tmp_path) as store:
        Replica(store).apply(steps_of(commits))
        assert rows(store) == {other: b"2"}


def test_runs_together_are_one_run(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(6)]
    commits = [
        Changes(blocks=[run(2 * index, bodies[2 * index : 2 * index + 2])]) for index in range(3)
    ]
    (made,) = [joined([step.changes for step in group]) for group in together(steps_of(commits))]
    assert made.blocks == [run(0, bodies)]


def test_a_commit_that_deletes_by_prefix_is_the_last_of_its_transaction() -> None:
    commits = [Changes(prefixes=[(Table.CATALOG, b"topic/a")]), Changes(), Changes()]
    assert [len(group) for group in together(steps_of(commits))] == [1, 2]


def test_a_transaction_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "TOGETHER_BYTES_MAX", 25)
    commits = [Changes(blocks=[run(index, [b"x"])]) for index in range(5)]
    assert [len(group) for group in together(steps_of(commits))] == [2, 2, 1]


def test_number_and_content_are_one_transaction(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        replica = Replica(store)
        assert replica.applied == UNFOUNDED
        replica.apply([Step(Changes(blocks=[run(0, [b"a"])]), applied(1))])
        before = store.statistics().last_transaction
        replica.apply(steps_of([Changes(), Changes(blocks=[run(1, [b"b"])])]))
        assert store.statistics().last_transaction == before + 1
    with Store.open(tmp_path) as store:
        assert Replica(store).applied == Replica(store).flushed == applied(2)


def test_heartbeats_need_no_transaction_of_their_own_but_not_for_ever(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        replica = Replica(store)
        before = store.statistics().last_transaction
        for number in range(1, UNFLUSHED_HEARTBEATS_MAX):
            replica.apply([Step(Changes(), applied(number))])
        assert store.statistics().last_transaction == before
        assert (replica.applied.link.number, replica.flushed) == (number, UNFOUNDED)
        replica.apply([Step(Changes(), applied(number + 1))])
        assert replica.flushed == replica.applied == Replica(store).applied


def test_where_blocks_are_still_to_be_trimmed_nothing_is_put_before_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that is done with a trim may use a ledger's number again."""
    from arneb_core.store.commit import transaction

    monkeypatch.setattr(transaction, "TRIM_BLOCKS_MAX", 1)
    monkeypatch.setattr(transaction, "TRIM_S_MAX", 60.0)
    trim = (TopicId(1), position(1, 0), position(1, 99))
    with Store.open(tmp_path) as store:
        replica = Replica(store)
        for number in range(5):
            replica.apply([Step(Changes(blocks=[run(number, [b"old"])]), applied(number + 1))])
        (report,) = replica.apply([Step(Changes(trims=[trim]), applied(6))])
        assert report.trims_left
        replica = Replica(store)  # after a start, too
        replica.apply([Step(Changes(blocks=[run(0, [b"new"])]), applied(7))])
        with store.snapshot() as snapshot:
            found = list(snapshot.iter_blocks(TopicId(1), position(1, 0), position(1, 99)))
        assert found == [(position(1, 0), [entry(b"new")])]


def test_what_a_leader_is_writing_ahead_outlives_the_start_of_a_follower(tmp_path: Path) -> None:
    trim = (TopicId(1), position(1, 0), position(1, 99))
    ahead = Changes(blocks=[run(0, [b"a"])], puts=[(Table.META, META_AHEAD, pack_trims([trim]))])
    with Store.open(tmp_path, follows=True) as store:
        Replica(store).apply([Step(ahead, applied(1))])
    with Store.open(tmp_path, follows=True) as store:
        Replica(store).apply(
            [Step(Changes(puts=[(Table.CATALOG, b"frontend/x", b"")]), applied(2))]
        )
        with store.snapshot() as snapshot:
            assert snapshot.get(Table.META, META_AHEAD) == pack_trims([trim])
    with Store.open(tmp_path) as store:
        Replica(store).apply(
            [Step(Changes(puts=[(Table.CATALOG, b"frontend/x", b"")]), applied(3))]
        )
        with store.snapshot() as snapshot:
            assert snapshot.get(Table.META, META_AHEAD) is None


def test_a_transaction_of_which_nobody_knows_is_a_failure(tmp_path: Path) -> None:
    from arneb_core.api.errors import CommitInDoubt

    with Store.open(tmp_path) as store:
        replica = Replica(store)

        def doubt(changes: Changes) -> None:
            raise CommitInDoubt("the meta page")

        store.commit = doubt  # type: ignore[assignment, method-assign]
        with pytest.raises(StoreFailed, match="the meta page"):
            replica.apply([Step(Changes(blocks=[run(0, [b"a"])]), applied(1))])
        assert replica.applied == UNFOUNDED


@given(
    st.builds(
        Applied,
        st.text(max_size=5),
        st.builds(Link, st.integers(0), st.integers(0)),
        st.builds(Place, st.integers(-1), st.integers(-1)),
        st.builds(Link, st.integers(0), st.integers(0)),
    )
)
def test_the_row_comes_back_as_it_was(where: Applied) -> None:
    assert unpack_applied(pack_applied(where)) == where


@pytest.mark.parametrize("value", [b"{", b"[]", b"{}", b'{"link": 1}'])
def test_a_row_that_is_none_is_refused(value: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        unpack_applied(value)
    with Store.open(tmp_path) as store:
        store.commit(Changes(puts=[(Table.META, META_REPLICA, value)]))
        with pytest.raises(ValueError):
            Replica(store)
