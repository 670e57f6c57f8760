"""The store against its model, through every order of commits, failures, kills and snapshots."""

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arneb_core.api.errors import CommitFailed, CommitInDoubt
from arneb_core.store.checking.check import check
from arneb_core.store.commit import journal, transaction
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.environment import Store
from arneb_core.store.format.bodies import SHARED_BYTES_MIN, shared_entries
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, topic_prefix
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.testing.faults import DiskFault, broken_disk, broken_journal
from arneb_core.testing.store_kit import StoreModel, assert_holds, commit_small, entry


@dataclass(frozen=True, slots=True)
class Append:
    topic: str
    entries: list[bytes]


@dataclass(frozen=True, slots=True)
class FanOut:
    """One run into several topics, kept once where that is worth it."""

    topics: frozenset[str]
    sizes: tuple[int, ...]
    """Of one size is one and the same entry."""


@dataclass(frozen=True, slots=True)
class CloseLedger:
    topic: str


@dataclass(frozen=True, slots=True)
class DropLedger:
    topic: str


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    topic: str


@dataclass(frozen=True, slots=True)
class Put:
    key: bytes
    value: bytes | None


Edit = Append | FanOut | CloseLedger | DropLedger | DeleteTopic | Put

NAMES = st.sampled_from(["orders", "invoices", "ö"])
KEYS = st.sampled_from([b"frontend/a", b"frontend/b", b"frontend/" + bytes(700)])
VALUES = st.sampled_from([b"", b"1", b"2" * 5_000])
RUNS = st.lists(st.sampled_from([b"", b"small", bytes(3_000)]).map(entry), min_size=1, max_size=6)
FAN_SIZES = st.tuples(st.sampled_from([1, SHARED_BYTES_MIN, 9_000])) | st.sampled_from(
    [(1, 5_000), (5_000, 5_000, 1), (200_000, 100_000)]
)
RUNS_IN_A_ROW = st.sampled_from([1, 2, 3, 70])
"""The last of them fills the journal of a test."""
PUTS = st.builds(Put, KEYS, st.none() | VALUES)
EDITS = st.one_of(
    st.builds(Append, NAMES, RUNS),
    st.builds(FanOut, st.frozensets(NAMES, min_size=2), FAN_SIZES),
    st.builds(CloseLedger, NAMES),
    st.builds(DropLedger, NAMES),
    st.builds(DeleteTopic, NAMES),
    PUTS,
)


def apply(edit: Edit, model: StoreModel, changes: Changes) -> None:
    """Edit the model, and the changes to match. What does not fit is left out."""
    match edit:
        case Put(key, value):
            model.put(changes, key, value)
        case Append(topic, entries):
            if topic not in model.topics:
                model.create_topic(changes, topic)
                model.subscribe(changes, topic, "amqp")
            model.append(changes, topic, entries)
        case FanOut(topics, sizes):
            made = {size: entry(bytes(size)) for size in sizes}
            entries = [made[size] for size in sizes]
            for topic in sorted(topics):
                apply(Append(topic, entries), model, changes)
            changes.shared += shared_entries([entries] * len(topics))
        case CloseLedger(topic) if topic in model.topics:
            model.close_ledger(changes, topic)
        case DropLedger(topic) if topic in model.topics:
            model.drop_ledger(changes, topic)
        case DeleteTopic(topic) if topic in model.topics:
            model.delete_topic(changes, topic)


def topics_of(edit: Edit) -> Iterable[str]:
    """Those that it has to do with."""
    match edit:
        case Put():
            return ()
        case FanOut(topics):
            return topics
        case _:
            return (edit.topic,)


class StoreMachine(RuleBasedStateMachine):
    """One data directory. ``model`` is what is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.place = ExitStack()
        root = self.place.enter_context(tempfile.TemporaryDirectory(prefix="arneb-"))
        # Small, so that trims are left over for later commits and for the next life.
        self.place.enter_context(patch.object(transaction, "TRIM_BLOCKS_MAX", 3))
        self.place.enter_context(patch.object(journal, "RUNS_MAX", 64))
        self.root = Path(root)
        self.lives = 0
        self.store = Store.open(self.root / "0")
        self.store.prepare_tiny()
        self.model = StoreModel()
        self.snapshots = ExitStack()
        self.seen: list[tuple[Snapshot, StoreModel]] = []

    def edited(self, edits: list[Edit]) -> tuple[StoreModel, Changes]:
        model, changes = deepcopy(self.model), Changes()
        for edit in edits:
            apply(edit, model, changes)
        return model, changes

    @rule(edits=st.lists(EDITS, max_size=8))
    def commit(self, edits: list[Edit]) -> None:
        model, changes = self.edited(edits)
        self.store.commit(changes)
        self.model = model

    @rule(edits=st.lists(EDITS, max_size=4), fault=st.sampled_from(DiskFault))
    def fail_to_commit(self, edits: list[Edit], fault: DiskFault) -> None:
        if fault is DiskFault.META:  # the store is opened again, which open snapshots forbid
            self.close_snapshots()
        # Something must be written, for LMDB does not touch the disk for nothing.
        _, changes = self.edited([*edits, Put(b"frontend/lost", b"")])
        with broken_disk(self.store.path, fault), pytest.raises(CommitFailed):
            self.store.commit(changes)

    def tiny(
        self, topics: Iterable[str], body: bytes, rows: Iterable[Put] = ()
    ) -> tuple[StoreModel, Changes]:
        model, changes = deepcopy(self.model), Changes()
        for topic in topics:
            model.append(changes, topic, [entry(body)])
        for row in rows:
            apply(row, model, changes)
        return model, changes

    @rule(
        data=st.data(),
        body=st.sampled_from([b"", b"small", bytes(20_000)]),
        rows=st.lists(PUTS, max_size=2),
        runs=RUNS_IN_A_ROW,
    )
    def commit_tiny_ones(
        self, data: st.DataObject, body: bytes, rows: list[Put], runs: int
    ) -> None:
        """Into the journal, as long as it has room."""
        names = [name for name, each in self.model.topics.items() if each.is_open]
        sets = st.lists(st.sampled_from(names), min_size=1, unique=True) if names else st.just([])
        for _ in range(runs):
            model, changes = self.tiny(data.draw(sets), body, rows)
            commit_small(self.store, changes)
            self.model = model

    @precondition(lambda self: any(each.is_open for each in self.model.topics.values()))
    @rule(fault=st.sampled_from(DiskFault))
    def fail_to_commit_tiny(self, fault: DiskFault) -> None:
        """The journal's disk is broken, and LMDB's as well."""
        self.close_snapshots()
        name = next(name for name, each in self.model.topics.items() if each.is_open)
        _, changes = self.tiny([name], b"lost", [Put(b"frontend/lost", b"")])
        self.store.prepare_tiny()
        failed = (CommitFailed, CommitInDoubt)
        with broken_disk(self.store.path, fault), broken_journal(), pytest.raises(failed):
            commit_small(self.store, changes)

    @precondition(lambda self: any(each.is_open for each in self.model.topics.values()))
    @rule(
        edits=st.lists(EDITS, max_size=2),
        bodies=st.lists(st.sampled_from([b"", b"small", bytes(3_000)]), min_size=1, max_size=4),
        fault=st.none() | st.sampled_from(DiskFault),
        journal_breaks=st.booleans(),
    )
    def commit_beside(
        self,
        edits: list[Edit],
        bodies: list[bytes],
        fault: DiskFault | None,
        journal_breaks: bool,
    ) -> None:
        """Small runs of topics that a commit has nothing to do with, while LMDB makes it: they are
        there at once, for a snapshot and for who kills the broker, and whatever becomes of it."""
        self.close_snapshots()
        _, changes = self.edited([*edits, Put(b"frontend/lost", b"" if fault else None)])
        touched = {each for edit in edits for each in topics_of(edit)}
        names = [
            name for name, each in self.model.topics.items() if each.is_open and name not in touched
        ]
        made = Transaction.apply

        def beside(within: Transaction, *given: Any) -> None:
            made(within, *given)
            for body in bodies if names else []:
                model, small = self.tiny(names, body)
                if self.store.commit_beside(small, lambda: None) is None:
                    break
                self.model = model
            if names and journal_breaks:
                _, small = self.tiny(names, b"lost")
                with broken_journal(), suppress(OSError):
                    assert self.store.commit_beside(small, lambda: None) is None
            with self.store.snapshot() as snapshot:
                assert_holds(snapshot, self.model)
            if not journal_breaks:
                self.assert_a_kill_loses_nothing()

        with patch.object(Transaction, "apply", beside), ExitStack() as broken:
            if fault is None:
                self.store.commit(changes)
            else:
                broken.enter_context(broken_disk(self.store.path, fault))
                broken.enter_context(pytest.raises((CommitFailed, CommitInDoubt)))
                self.store.commit(changes)
        if fault is None:
            for edit in [*edits, Put(b"frontend/lost", None)]:
                apply(edit, self.model, Changes())
        if journal_breaks:
            self.store.commit(Changes())  # from then on the record that failed does not count

    def assert_a_kill_loses_nothing(self) -> None:
        """What is in the files now is what is committed."""
        self.lives += 1
        after = self.root / f"killed-{self.lives}"
        shutil.copytree(self.store.path, after)
        with Store.open(after) as store, store.snapshot() as snapshot:
            assert_holds(snapshot, self.model)
            assert check(snapshot) == []
        shutil.rmtree(after)

    @precondition(lambda self: len(self.seen) < 3)
    @rule()
    def open_snapshot(self) -> None:
        snapshot = self.snapshots.enter_context(self.store.snapshot())
        self.seen.append((snapshot, deepcopy(self.model)))

    @precondition(lambda self: self.seen)
    @rule()
    def close_snapshots(self) -> None:
        for snapshot, model in self.seen:
            assert_holds(snapshot, model)
        self.snapshots.close()
        self.seen.clear()

    @rule()
    def stop_and_start(self) -> None:
        self.close_snapshots()
        self.store.close()
        self.store = Store.open(self.store.path)

    @rule()
    def kill_and_start(self) -> None:
        """Go on with what is in the files while the store is open."""
        self.close_snapshots()
        self.lives += 1
        after = self.root / str(self.lives)
        shutil.copytree(self.store.path, after)
        self.store.close()
        shutil.rmtree(self.store.path)
        self.store = Store.open(after)

    @invariant()
    def store_holds_what_was_committed(self) -> None:
        with self.store.snapshot() as snapshot:
            assert_holds(snapshot, self.model)
            assert check(snapshot) == []

    def teardown(self) -> None:
        try:
            self.close_snapshots()
            while self.store.statistics().trims_left or self.store.needs_takeover:
                self.store.commit(Changes())
            with self.store.snapshot() as snapshot:
                for topic in self.model.topics.values():
                    rows = snapshot.scan(Table.ENTRIES, topic_prefix(topic.id))
                    runs = [snapshot.decode(value)[1] for _, value in rows]
                    expected = list(topic.entries().values())
                    assert [body for run in runs for body in run] == expected, (
                        "the runs must hold exactly the expected bodies"
                    )
                assert check(snapshot) == []
        finally:
            self.snapshots.close()
            self.store.close()
            self.place.close()


TestStore = StoreMachine.TestCase
# A step costs a few flushes to disk, so fewer examples than the profile's; as many in proportion.
TestStore.settings = settings(
    max_examples=max(settings().max_examples // 3, 1), stateful_step_count=25
)
