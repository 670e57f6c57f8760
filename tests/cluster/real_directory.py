"""The real directory of a node in the protocol's simulation: a replica, its store, and what another
process finds of it.

The rule: nothing of the store is imitated. A kill is a store that is closed without notice, or the
files as they are while a transaction is in progress. A failing disk is a device that fails.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Self, cast
from unittest.mock import patch

from tests.cluster.protocol.directory import EMPTY, MEMBERS, is_held

from arneb_cluster.membership import Membership
from arneb_cluster.protocol.members import Members
from arneb_cluster.protocol.reader import Commit
from arneb_cluster.protocol.values import Applied
from arneb_cluster.replica import MEMBERS_ROW, Replica, Step, applied_in
from arneb_cluster.settings import ShardSettings
from arneb_core.api.entries.position import position_at
from arneb_core.api.errors import CommitFailed
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import pack_number
from arneb_core.store.format.schema import META_NEXT_TOPIC_ID, Table, TopicId
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.faults import DiskFault, broken_disk
from arneb_core.testing.store_kit import entry

TOPIC = TopicId(1)
FIRST, LAST = position_at(1, 0), position_at(1, 1 << 30)
NOT_LAID_OVER = Table.META, META_NEXT_TOPIC_ID, pack_number(2)
"""A row that prevents a commit from being held."""


def changes_of(commit: Commit) -> Changes:
    """What the directory must have of it: an entry at its number, or the list of members."""
    body, number = commit.body, commit.applied.link.number
    if not body:
        return Changes()
    made = Changes(blocks=[(TOPIC, position_at(1, number), [entry(body)])])
    if body.startswith(MEMBERS):
        made.puts.append((*MEMBERS_ROW, body[len(MEMBERS) :]))
    elif not is_held(body):
        made.puts.append(NOT_LAID_OVER)
    return made


def bodies_in(snapshot: Snapshot) -> list[bytes]:
    """Those that a reader finds, in order."""
    blocks = snapshot.iter_blocks(TOPIC, FIRST, LAST)
    return [each[len(entry()) :] for _, entries in blocks for each in entries]


class RealDirectory:
    """The directory of a living node. ``places`` makes a new path each time."""

    def __init__(self, places: Iterator[Path], path: Path | None = None) -> None:
        self._places = places
        self.path = next(places) if path is None else path
        self._store = Store.open(self.path, follows=True)
        self.replica = Replica(self._store)
        nothing = cast(Any, None)
        settings = ShardSettings("s", "n", "persistent://a/b/s")
        self._membership = Membership(
            nothing, settings, nothing, self.replica, nothing, nothing, lambda: 0
        )
        self._fault: DiskFault | None = None

    @property
    def applied(self) -> Applied:
        return self.replica.applied

    @property
    def flushed(self) -> Applied:
        return self.replica.flushed

    @property
    def reported(self) -> Applied:
        report, flushed = self._membership.report(), self.replica.flushed
        if report.number == flushed.link.number:
            return flushed
        return replace(self.replica.applied, place=report.place)

    @property
    def members(self) -> Members:
        return self.replica.members

    @property
    def found(self) -> list[bytes]:
        with self._store.snapshot() as snapshot:
            return bodies_in(snapshot)

    def on_disk(self) -> list[bytes]:
        """What another process finds: as much as the row beside it says."""
        target = self._copy()
        with open_snapshot_environment(target) as environment, environment.snapshot() as snapshot:
            found = bodies_in(snapshot)
        assert (applied_in(target) or EMPTY) == self.flushed
        shutil.rmtree(target)
        return found

    def hold(self, commit: Commit) -> bool:
        changes = changes_of(commit)
        return self.replica.hold(Step(changes, commit.applied, len(commit.body)))

    def apply(self, commit: Commit) -> None:
        with self._disk():
            self.replica.apply([Step(changes_of(commit), commit.applied, len(commit.body))])

    def take_over(self, beside: Callable[[], None]) -> None:
        with beside_takeovers(beside), self._disk():
            self.replica.take_over()

    def _disk(self) -> Any:
        return nullcontext() if self._fault is None else broken_disk(self.path, self._fault)

    def fail(self) -> None:
        """In another way each time."""
        faults = list(DiskFault)
        self._fault = faults[self.applied.link.number % len(faults)]

    def mend(self) -> None:
        self._fault = None

    def again(self) -> Self:
        self.close()
        return type(self)(self._places, self.path)

    def cut_off(self) -> Self:
        """The files as they are while the transaction is in progress."""
        after = next(self._places)
        with suppress(CommitFailed):
            self.take_over(lambda: shutil.copytree(self.path, after))
        self.close()
        return type(self)(self._places, after if after.exists() else self.path)

    def copied(self) -> Self:
        """As a node that takes a copy receives one."""
        return type(self)(self._places, self._copy())

    def _copy(self) -> Path:
        target = next(self._places)
        target.mkdir()
        self._store.copy(target, compact=True)
        return target

    def close(self) -> None:
        """Nothing of what is held is written."""
        self._store.close()


def beside_takeovers(beside: Callable[[], None]) -> Any:
    """Have that done while LMDB's next transaction is in progress."""
    made, once = Transaction.apply, [beside]

    def apply(within: Transaction, *given: Any) -> None:
        made(within, *given)
        if once:
            once.pop()()

    return patch.object(Transaction, "apply", apply)


def places_in(root: Path) -> Iterator[Path]:
    """Paths that do not exist yet."""
    return (root / str(each) for each in count())
