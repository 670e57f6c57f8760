"""Commits that are held against their model, through every order of holds, takeovers, failures,
kills and snapshots.

The model: what is on disk, and behind that one model for each commit that is held.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.core.store.test_environment_model import EDITS, PUTS, Edit, Put, apply

from arneb_core.api.errors import CommitFailed
from arneb_core.store.checking.check import check
from arneb_core.store.commit import transaction
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.testing.faults import DiskFault, broken_disk
from arneb_core.testing.store_kit import StoreModel, assert_holds, entry

BODIES = st.lists(st.sampled_from([b"", b"small", bytes(3_000)]), max_size=3)
SMALL = st.lists(st.tuples(BODIES, st.lists(PUTS, max_size=2)), max_size=4)
"""What commits have that can be held: runs, and rows that can be laid over."""

LOST = Table.CATALOG, b"frontend/lost"

Small = list[tuple[list[bytes], list[Put]]]


class HeldModel(RuleBasedStateMachine):
    """One data directory, whose process holds."""

    def __init__(self) -> None:
        super().__init__()
        self.place = ExitStack()
        root = self.place.enter_context(tempfile.TemporaryDirectory(prefix="arneb-"))
        # Small, so that trims are left over, while nothing is held.
        self.place.enter_context(patch.object(transaction, "TRIM_BLOCKS_MAX", 3))
        self.root = Path(root)
        self.lives = 0
        self.on_disk = StoreModel()
        self.held: list[StoreModel] = []
        self.snapshots = ExitStack()
        self.seen: list[tuple[Snapshot, StoreModel]] = []
        self.begin(self.root / "0")

    def begin(self, path: Path) -> None:
        """As a process that finds nothing in memory."""
        self.store = Store.open(path)
        self.store.prepare_holding()
        self.held = []

    @property
    def model(self) -> StoreModel:
        """What a reader finds."""
        return self.held[-1] if self.held else self.on_disk

    def hold_all(self, commits: Small) -> None:
        for bodies, rows in commits:
            model, changes = deepcopy(self.model), Changes()
            for name in [name for name, each in model.topics.items() if each.is_open]:
                if bodies:
                    model.append(changes, name, [entry(body) for body in bodies])
            for row in rows:
                apply(row, model, changes)
            if self.store.hold(changes, 10):
                self.held.append(model)

    @rule(commits=SMALL)
    def hold(self, commits: Small) -> None:
        self.hold_all(commits)

    @rule(edits=st.lists(EDITS, max_size=6))
    def commit(self, edits: list[Edit]) -> None:
        """All that is held goes first."""
        model, changes = deepcopy(self.model), Changes()
        for edit in edits:
            apply(edit, model, changes)
        self.store.commit(changes)
        self.on_disk, self.held = model, []

    @rule(data=st.data(), beside=SMALL)
    def take_over(self, data: st.DataObject, beside: Small) -> None:
        """So many of them, while more is held and found."""
        count = data.draw(st.integers(0, len(self.held)))

        def meanwhile() -> None:
            self.hold_all(beside)
            self.what_is_held_is_found_as_if_it_were_on_disk()

        begin, landed = self.store._held.begin, self.store._landed

        def about_to_be_on_disk(*given: Any) -> None:
            begin(*given)
            self.what_is_held_is_found_as_if_it_were_on_disk()

        def on_disk_and_held(attempt: Any) -> None:
            """Nobody knows yet that it has landed."""
            self.what_is_held_is_found_as_if_it_were_on_disk()
            self.open_snapshot()
            landed(attempt)

        with (
            doing(meanwhile),
            patch.object(self.store._held, "begin", about_to_be_on_disk),
            patch.object(self.store, "_landed", on_disk_and_held),
        ):
            self.store.commit(Changes(), held=count)
        if count:
            self.on_disk = self.held[count - 1]
            del self.held[:count]

    @precondition(lambda self: self.held)
    @rule(fault=st.sampled_from(DiskFault), beside=SMALL)
    def fail_to_take_over(self, fault: DiskFault, beside: Small) -> None:
        """All of it is held still; what came meanwhile as well."""
        self.close_snapshots()
        put = Changes(puts=[(*LOST, b"")])  # for LMDB does not touch the disk for nothing
        with (
            doing(lambda: self.hold_all(beside)),
            broken_disk(self.store.path, fault),
            pytest.raises(CommitFailed),
        ):
            self.store.commit(put, held=len(self.held))

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
    def copy(self) -> None:
        """It has what is on disk, as another process finds it."""
        self.lives += 1
        target = self.root / f"copy-{self.lives}"
        target.mkdir()
        self.store.copy(target, compact=True)
        self.assert_is_on_disk(target)

    @rule()
    def kill(self) -> None:
        self.close_snapshots()
        self.store.close()
        self.begin(self.store.path)

    @precondition(lambda self: self.held)
    @rule(beside=SMALL)
    def kill_while_it_takes_over(self, beside: Small) -> None:
        """Go on with the files as they are while the transaction is under way."""
        self.close_snapshots()
        self.lives += 1
        after, on_disk = self.root / str(self.lives), self.on_disk

        def meanwhile() -> None:
            self.hold_all(beside)
            shutil.copytree(self.store.path, after)

        with doing(meanwhile):
            self.store.commit(Changes())
        self.store.close()
        self.on_disk = on_disk
        self.begin(after)

    def assert_is_on_disk(self, path: Path) -> None:
        with Store.open(path) as store, store.snapshot() as snapshot:
            assert_holds(snapshot, self.on_disk)
            assert check(snapshot) == []
        shutil.rmtree(path)

    @invariant()
    def what_is_held_is_found_as_if_it_were_on_disk(self) -> None:
        with self.store.snapshot() as snapshot:
            assert_holds(snapshot, self.model)
        assert self.store.held_bytes == 10 * len(self.held)

    def teardown(self) -> None:
        try:
            self.close_snapshots()
            self.copy()
            for _ in range(1_000):
                if not (self.store.held_bytes or self.store.statistics().trims_left):
                    break
                self.store.commit(Changes())
            self.on_disk, self.held = self.model, []
            self.copy()
        finally:
            self.snapshots.close()
            self.store.close()
            self.place.close()


TestHeld = HeldModel.TestCase
# A step costs a few flushes to disk, so fewer examples than the profile's.
TestHeld.settings = settings(
    max_examples=max(settings().max_examples // 5, 1), stateful_step_count=30
)


def doing(beside: Callable[[], None]) -> Any:
    """Have that done while LMDB's next transaction is under way."""
    made, once = Transaction.apply, [beside]

    def applied(within: Transaction, *given: Any) -> None:
        made(within, *given)
        if once:
            once.pop()()

    return patch.object(Transaction, "apply", applied)
