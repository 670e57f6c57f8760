"""Small runs in the journal while LMDB commits: durable at once, whatever becomes of the commit."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arneb_core.api.errors import CommitFailed, CommitInDoubt
from arneb_core.store.checking.check import check
from arneb_core.store.commit.journal import USED_BYTES_MAX
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.faults import DiskFault, broken_disk, broken_journal
from arneb_core.testing.store_kit import StoreModel, assert_holds, commit_small, entry

LARGE = [entry(bytes(1000))] * 20
SMALL = ("a", "b")


@dataclass(frozen=True)
class Round:
    """One commit of LMDB, and what comes meanwhile and between it and the next."""

    beside: list[str]
    fault: DiskFault | None = None
    journal_breaks: bool = False
    between: int = 0


ROUNDS = st.lists(
    st.builds(
        Round,
        beside=st.lists(st.sampled_from(SMALL), max_size=5),
        fault=st.none() | st.none() | st.sampled_from(DiskFault),
        journal_breaks=st.sampled_from([False, False, False, True]),
        between=st.integers(0, 2),
    ),
    min_size=1,
    max_size=5,
)


def begun(store: Store) -> StoreModel:
    """Topics with their ledgers, and a journal that is ready."""
    model, changes = StoreModel(), Changes()
    for name in ("flood", *SMALL):
        model.create_topic(changes, name)
        model.append(changes, name, [entry(b"first")])
    store.commit(changes)
    store.prepare_tiny()
    return model


def small(model: StoreModel, name: str, body: bytes = b"small") -> tuple[StoreModel, Changes]:
    """The model with one more entry, and the changes."""
    after, changes = deepcopy(model), Changes()
    after.append(changes, name, [entry(body)])
    return after, changes


@contextmanager
def during(act: Any) -> Iterator[None]:
    """Have ``act`` done inside the transaction of the block's commit."""
    apply = Transaction.apply

    def applied(within: Transaction, *given: Any) -> None:
        apply(within, *given)
        act()

    with patch.object(Transaction, "apply", applied):
        yield


def assert_stored(store: Store, model: StoreModel, position: Path) -> None:
    """For snapshots of this process and another, and whoever starts after a kill."""
    with store.snapshot() as snapshot:
        assert_holds(snapshot, model)
        assert check(snapshot) == []
    killed = position / "killed"
    shutil.copytree(store.path, killed)
    with open_snapshot_environment(killed) as other, other.snapshot() as snapshot:
        assert_holds(snapshot, model)
    with Store.open(killed) as started, started.snapshot() as snapshot:
        assert_holds(snapshot, model)
        assert check(snapshot) == []
    shutil.rmtree(killed)


# An example copies directories and starts stores on them, so fewer than the profile's.
@settings(max_examples=max(settings().max_examples // 4, 1))
@example([Round(["a"]), Round(["b"]), Round(["a", "b"]), Round(["a"]), Round([])])
@given(ROUNDS)
def test_what_comes_beside_is_there_whatever_becomes_of_the_commit(rounds: list[Round]) -> None:
    with TemporaryDirectory() as position, Store.open(Path(position) / "data") as store:
        model = begun(store)
        for each in rounds:
            if not store._journal.is_ready:  # not else: that would take over what is in it
                store.prepare_tiny()
            changes = Changes()
            deepcopy(model).append(changes, "flood", LARGE)
            stored: list[CommitReport] = []

            def beside(each: Round = each, stored: list[CommitReport] = stored) -> None:
                nonlocal model
                for name in each.beside:
                    after, run = small(model, name)
                    report = store.commit_beside(run, lambda: None)
                    assert report is not None and report.needs_takeover, "the journal was not lent"
                    stored.append(report)
                    model = after
                if each.journal_breaks:
                    with broken_journal(), pytest.raises(OSError):
                        store.commit_beside(small(model, "a", b"lost")[1], lambda: None)
                    assert store.commit_beside(small(model, "a")[1], lambda: None) is None
                else:
                    assert_stored(store, model, Path(position))

            with during(beside), ExitStack() as failing:
                if each.fault is not None:
                    failing.enter_context(broken_disk(store.path, each.fault))
                    failing.enter_context(pytest.raises((CommitFailed, CommitInDoubt)))
                report = store.commit(changes)
            if each.fault is None:
                model.append(Changes(), "flood", LARGE)
                assert report.needs_takeover == bool(stored)
            if each.journal_breaks:  # what failed does not count from the next commit on
                with suppress(CommitFailed):
                    store.commit(Changes())
            assert_stored(store, model, Path(position))
            for _ in range(each.between):
                after, run = small(model, "b")
                commit_small(store, run)
                model = after
                with store.snapshot() as snapshot:
                    assert_holds(snapshot, model)


def test_a_copy_has_what_came_beside_the_commit_before_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "data") as store:
        model = begun(store)
        for _ in range(2):  # the second is behind what LMDB has, in the journal's file
            changes = Changes()
            deepcopy(model).append(changes, "flood", LARGE)
            after, run = small(model, "a")
            with during(lambda run=run: store.commit_beside(run, lambda: None)):
                store.commit(changes)
            model = after
            model.append(Changes(), "flood", LARGE)
        (tmp_path / "copy").mkdir()
        store.copy(tmp_path / "copy")
    with Store.open(tmp_path / "copy") as copy, copy.snapshot() as snapshot:
        assert_holds(snapshot, model)
        assert check(snapshot) == []


def test_outside_a_transaction_the_journal_is_not_lent_and_the_caller_learns_it(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path) as store:
        model = begun(store)
        calls: list[str] = []
        run = small(model, "a")[1]
        assert store.commit_beside(run, lambda: calls.append("lent")) is None
        assert not calls
        changes = Changes()
        deepcopy(model).append(changes, "flood", LARGE)
        with during(lambda: calls.append("inside")):
            store.commit(changes)
        assert calls == ["lent", "inside"], "a refused borrower is told once, when it may try again"
        assert store.commit_beside(run, lambda: None) is None


@pytest.mark.parametrize("more", ["trims", "prefixes"])
def test_a_commit_that_deletes_rows_lends_nothing(tmp_path: Path, more: str) -> None:
    with Store.open(tmp_path) as store:
        model = begun(store)
        changes = Changes()
        if more == "trims":
            model.close_ledger(changes, "b")
            store.commit(changes)
            changes = Changes()
            model.append(changes, "b", [entry(b"next")])
            store.commit(changes)
            changes = Changes()
            model.drop_ledger(changes, "b")
        else:
            model.delete_topic(changes, "b")
        answers: list[CommitReport | None] = []
        run = small(model, "a")[1]
        with during(lambda: answers.append(store.commit_beside(run, lambda: None))):
            store.commit(changes)
        assert answers == [None]


def test_a_journal_that_is_never_restarted_fills_up_and_restarts_then(tmp_path: Path) -> None:
    """Something always comes beside, so records are never written over: until there is no room,
    and then the next commit takes all of it over."""
    with Store.open(tmp_path) as store:
        model = begun(store)
        offsets = [0]
        body = bytes(120_000)
        refused = 0
        for _ in range(5 * USED_BYTES_MAX // len(body)):
            changes = Changes()
            deepcopy(model).append(changes, "flood", LARGE)
            answers: list[CommitReport | None] = []
            after, run = small(model, "a", body)
            with during(
                lambda run=run, answers=answers: answers.append(
                    store.commit_beside(run, lambda: None)
                )
            ):
                store.commit(changes)
            model = model if answers == [None] else after
            refused += answers == [None]
            model.append(Changes(), "flood", LARGE)
            offsets.append(store._journal._offset)
            with store.snapshot() as snapshot:
                assert_holds(snapshot, model)
        assert refused == sum(b < a for a, b in pairwise(offsets)) >= 2
        assert max(offsets) <= USED_BYTES_MAX


def test_the_thread_waits_for_a_write_that_it_did_not_make(tmp_path: Path) -> None:
    """The journal is its own again when the transaction has ended, and not in mid-write."""
    with Store.open(tmp_path) as store:
        model = begun(store)
        changes = Changes()
        deepcopy(model).append(changes, "flood", LARGE)
        after, run = small(model, "a")
        writing, go_on, lent, ended = Event(), Event(), Event(), Event()
        append = store._journal.append

        def slow(given: Changes) -> int:
            writing.set()
            assert go_on.wait(10)
            return append(given)

        def inside() -> None:
            lent.set()
            assert writing.wait(10)

        def commit() -> None:
            with during(inside):
                store.commit(changes)
            ended.set()

        with patch.object(store._journal, "append", slow):
            thread = Thread(target=commit)
            thread.start()
            assert lent.wait(10)
            loop = Thread(target=lambda: store.commit_beside(run, lambda: None))
            loop.start()
            assert writing.wait(10)
            assert not ended.wait(0.2), "the commit ended in the middle of the other write"
            go_on.set()
            thread.join(10)
            loop.join(10)
        assert ended.is_set()
        after.append(Changes(), "flood", LARGE)
        with store.snapshot() as snapshot:
            assert_holds(snapshot, after)
