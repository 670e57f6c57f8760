"""A directory that applies records, together or one by one, stores the same either way."""

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arneb_cluster import replica as replica_module
from arneb_cluster.protocol.members import Members
from arneb_cluster.protocol.values import Applied, Link, Place
from arneb_cluster.replica import (
    MEMBERS_ROW,
    UNFLUSHED_HEARTBEATS_MAX,
    UNFOUNDED,
    Replica,
    Step,
    applied_in,
    applied_row,
    joined,
    pack_applied,
    together,
    unpack_applied,
)
from arneb_core.api.entries.position import LedgerId, position_at
from arneb_core.api.errors import StoreFailed, StoreFull
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Block, Changes
from arneb_core.store.format.commit_record import MAGIC_WITH_STAMP as MAGIC
from arneb_core.store.format.records import LedgerRecord, TopicRecord, pack_number, pack_trims
from arneb_core.store.format.schema import (
    META_AHEAD,
    META_NEXT_TOPIC_ID,
    META_REPLICA,
    TOPIC_PREFIX,
    Table,
    TopicId,
    ledger_key,
)
from arneb_core.store.journal.writing import JOURNAL_NAME
from arneb_core.store.reading.snapshot_environment import (
    SnapshotEnvironment,
    open_snapshot_environment,
)
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
    return TopicId(1), position_at(ledger, first), [entry(each) for each in bodies]


def rows(store: Store) -> dict[bytes, bytes]:
    with store.snapshot() as snapshot:
        return dict(snapshot.scan(Table.CATALOG))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(COMMITS)
def test_commits_applied_together_leave_the_same_as_one_by_one(commits: list[Changes]) -> None:
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


def test_keys_that_a_later_commit_deletes_are_gone_and_those_it_puts_again_exist(
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


def test_adjacent_runs_are_stored_as_one_run(tmp_path: Path) -> None:
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


def test_heartbeats_need_no_transaction_of_their_own_but_are_written_in_time(
    tmp_path: Path,
) -> None:
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
    trim = (TopicId(1), position_at(1, 0), position_at(1, 99))
    with Store.open(tmp_path) as store:
        replica = Replica(store)
        for number in range(5):
            replica.apply([Step(Changes(blocks=[run(number, [b"old"])]), applied(number + 1))])
        (report,) = replica.apply([Step(Changes(trims=[trim]), applied(6))])
        assert report.trims_left
        replica = Replica(store)  # after a restart, too
        replica.apply([Step(Changes(blocks=[run(0, [b"new"])]), applied(7))])
        with store.snapshot() as snapshot:
            found = list(snapshot.iter_blocks(TopicId(1), position_at(1, 0), position_at(1, 99)))
        assert found == [(position_at(1, 0), [entry(b"new")])]


def test_a_leaders_ahead_of_time_writes_survive_the_start_of_a_follower(tmp_path: Path) -> None:
    trim = (TopicId(1), position_at(1, 0), position_at(1, 99))
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


def test_a_transaction_with_unknown_outcome_is_a_failure(tmp_path: Path) -> None:
    from arneb_core.api.errors import CommitInDoubt

    with Store.open(tmp_path) as store:
        replica = Replica(store)

        def doubt(changes: Changes, *, held: int) -> None:
            raise CommitInDoubt("the meta page")

        store.commit = doubt  # type: ignore[assignment, method-assign]
        with pytest.raises(StoreFailed, match="the meta page"):
            replica.apply([Step(Changes(blocks=[run(0, [b"a"])]), applied(1))])
        assert replica.applied == UNFOUNDED


# Small commits, held


LEDGER = ledger_key(TopicId(1), LedgerId(1)), LedgerRecord(1_000).pack()
TOPIC = TOPIC_PREFIX + b"orders", TopicRecord(TopicId(1)).pack()
FOUND = Changes(
    puts=[
        (Table.CATALOG, *TOPIC),
        (Table.LEDGERS, *LEDGER),
        (Table.META, META_NEXT_TOPIC_ID, pack_number(2)),
    ]
)


def founded(store: Store) -> Replica:
    """A replica with a topic."""
    replica = Replica(store)
    replica.apply([Step(FOUND, applied(1))])
    return replica


def take(replica: Replica, step: Step) -> bool:
    """As the shell does; returns whether it is held."""
    if replica.hold(step):
        return True
    replica.apply([step])
    return False


def small(index: int) -> Step:
    return Step(Changes(blocks=[run(index, [b"%d" % index])]), applied(2 + index), 100)


def entries_in(where: Store | SnapshotEnvironment) -> int:
    with where.snapshot() as snapshot:
        blocks = snapshot.iter_blocks(TopicId(1), position_at(1, 0), position_at(1, 999))
        return sum(len(entries) for _, entries in blocks)


def found_on_disk(path: Path) -> tuple[int, int]:
    """How many entries a directory has while nobody writes to it, and up to which record it claims
    to have the log. The directory must be sound."""
    assert [str(each) for each in check(path)] == []
    found = applied_in(path)
    assert found is not None
    with open_snapshot_environment(path) as environment:
        return entries_in(environment), found.link.number


def on_disk(store: Store) -> tuple[int, int]:
    """The same for one that is open: what another process would find."""
    with tempfile.TemporaryDirectory() as made:
        store.copy(made)
        return found_on_disk(Path(made))


def test_what_is_held_is_found_at_once_and_reaches_the_disk_in_one_transaction(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path, follows=True) as store:
        replica = founded(store)
        before = store.statistics().last_transaction
        assert all(take(replica, small(index)) for index in range(10))
        assert (replica.applied, replica.flushed) == (small(9).applied, applied(1))
        assert (entries_in(store), replica.held_bytes) == (10, 1_000)
        assert on_disk(store) == (0, 1)
        replica.take_over()
        assert store.statistics().last_transaction == before + 1
        assert replica.flushed == replica.applied == small(9).applied
        assert (entries_in(store), replica.held_bytes) == (10, 0)
        assert on_disk(store) == (10, 11)
        replica.take_over()
        assert store.statistics().last_transaction == before + 1
    with Store.open(tmp_path, follows=True) as store:
        assert Replica(store).applied == small(9).applied


def test_commits_during_a_takeover_wait_for_the_next_one(tmp_path: Path) -> None:
    with Store.open(tmp_path, follows=True) as store:
        replica = founded(store)
        assert take(replica, small(0))
        commit = store.commit

        def beside(changes: Changes, **how: Any) -> Any:
            assert take(replica, small(1))
            return commit(changes, **how)

        store.commit = beside  # type: ignore[method-assign]
        replica.take_over()
        assert (replica.applied, replica.flushed) == (small(1).applied, small(0).applied)
        assert (entries_in(store), replica.held_bytes) == (2, 100)
        assert on_disk(store) == (1, 2)


def test_a_killed_node_reads_again_what_it_held(tmp_path: Path) -> None:
    with Store.open(tmp_path, follows=True) as store:
        replica = founded(store)
        take(replica, small(0))
        replica.take_over()
        take(replica, small(1))
    with Store.open(tmp_path, follows=True) as store:
        replica = Replica(store)
        assert replica.applied == small(0).applied
        take(replica, small(1))
        replica.take_over()
    assert found_on_disk(tmp_path) == (2, 3)


def test_records_without_changes_are_held_as_well(tmp_path: Path) -> None:
    with Store.open(tmp_path, follows=True) as store:
        replica = founded(store)
        before = store.statistics().last_transaction
        heartbeats = [Step(Changes(), applied(2 + index)) for index in range(40)]
        held = [take(replica, each) for each in heartbeats]
        assert held.index(False) == UNFLUSHED_HEARTBEATS_MAX - 1
        assert held.count(False) == 1
        assert store.statistics().last_transaction == before + 1
        assert replica.flushed == heartbeats[UNFLUSHED_HEARTBEATS_MAX - 1].applied
        assert replica.applied == heartbeats[-1].applied


def test_what_cannot_be_held_goes_to_disk_with_everything_before_it(tmp_path: Path) -> None:
    with Store.open(tmp_path, follows=True) as store:
        replica = founded(store)
        assert take(replica, small(0))
        other = Changes(puts=[(Table.META, META_NEXT_TOPIC_ID, pack_number(9))])
        assert not take(replica, Step(other, applied(101)))
        assert on_disk(store) == (1, 101)
        members = Changes(puts=[(*MEMBERS_ROW, Members({}).pack())])
        assert take(replica, Step(Changes(blocks=[run(1, [b"1"])]), applied(102), 100))
        assert not take(replica, Step(members, applied(103), 10))
        assert on_disk(store) == (2, 103)


def test_nothing_is_held_while_something_is_to_be_trimmed(tmp_path: Path) -> None:
    with Store.open(tmp_path, follows=True) as store:
        replica = founded(store)
        store._trims = [(TopicId(1), position_at(1, 0), position_at(1, 5))]
        assert not replica.hold(small(0))
        store._trims = []
        assert replica.hold(small(0))


def test_a_failing_disk_takes_nothing_over_and_readers_still_find_it(tmp_path: Path) -> None:
    with Store.open(tmp_path, follows=True) as store:
        replica = founded(store)
        take(replica, small(0))

        def full(*_: object) -> None:
            raise StoreFull("the disk")

        room, store._room.spend = store._room.spend, full  # type: ignore[assignment, method-assign]
        with pytest.raises(StoreFull):
            replica.take_over()
        store._room.spend = room  # type: ignore[method-assign]
        assert (replica.flushed, entries_in(store)) == (applied(1), 1)
        replica.take_over()
        assert (replica.flushed, entries_in(store)) == (small(0).applied, 1)


@pytest.mark.parametrize("lost", range(6))
def test_after_a_lost_record_the_log_is_read_again(tmp_path: Path, lost: int) -> None:
    """The record of a journal, into which small commits of a log were written until 2026-11-24."""
    with Store.open(tmp_path, follows=True) as store:
        founded(store)
        store.prepare_tiny()
        for index in range(6):
            changes = small(index).changes
            changes.puts.append(applied_row(small(index).applied))
            assert store.commit_tiny(changes) is not None
    data = bytearray((tmp_path / JOURNAL_NAME).read_bytes())
    at = [each.start() for each in re.finditer(re.escape(MAGIC), data)][lost]
    data[at + 40] ^= 1
    (tmp_path / JOURNAL_NAME).write_bytes(data)
    with Store.open(tmp_path, follows=True) as store:
        replica = Replica(store)
        assert replica.applied == applied(1 + lost)
        for index in range(lost, 6):
            assert take(replica, small(index))
        assert entries_in(store) == 6
        replica.take_over()
        with store.snapshot() as snapshot:
            assert next(snapshot.keys(Table.GAPS, b""), None) is None
        assert entries_in(store) == 6
        assert replica.flushed == small(5).applied


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.sampled_from(["small", "small", "large", "several", "heartbeat", "take over", "again"]),
        max_size=40,
    )
)
def test_however_commits_arrive_the_directory_has_all_up_to_where_it_says(moves: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made)
        store = Store.open(path, follows=True)
        replica = founded(store)
        by_number = {1: 0}
        index, number = 0, 1
        for move in moves:
            if move == "again":
                store.close()  # without notice, as by a kill
                store = Store.open(path, follows=True)
                has = replica.flushed
                replica = Replica(store)
                assert replica.applied == has
                number = has.link.number
                index = by_number[number]
            elif move == "take over":
                replica.take_over()
            elif move == "heartbeat":
                number += 1
                take(replica, Step(Changes(), applied(number)))
                by_number[number] = index
            else:
                count = 3 if move == "several" else 1
                body = b"." * (200_000 if move == "large" else 3)
                steps = []
                for _ in range(count):
                    number += 1
                    changes = Changes(blocks=[run(index, [body])])
                    steps.append(Step(changes, applied(number), len(body)))
                    index += 1
                    by_number[number] = index
                if count == 1:
                    take(replica, steps[0])
                else:
                    replica.apply(steps)
            assert entries_in(store) == index
            assert replica.applied.link.number == number
        store.close()
        flushed = replica.flushed.link.number
        assert found_on_disk(path) == (by_number[flushed], flushed)


@given(
    st.builds(
        Applied,
        st.text(max_size=5),
        st.builds(Link, st.integers(0), st.integers(0)),
        st.builds(Place, st.integers(-1), st.integers(-1)),
        st.builds(Link, st.integers(0), st.integers(0)),
    )
)
def test_the_row_is_read_as_it_was(where: Applied) -> None:
    assert unpack_applied(pack_applied(where)) == where


@pytest.mark.parametrize("value", [b"{", b"[]", b"{}", b'{"link": 1}'])
def test_an_invalid_row_is_refused(value: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        unpack_applied(value)
    with Store.open(tmp_path) as store:
        store.commit(Changes(puts=[(Table.META, META_REPLICA, value)]))
        with pytest.raises(ValueError):
            Replica(store)
