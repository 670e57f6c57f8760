"""What counts is applied to the directory: reported at once, on disk a little later, in few
transactions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from arneb_cluster import applying as applying_module
from arneb_cluster.applying import DECODED_BYTES_MAX, FULL_BYTES, TAKE_OVER_S, Applying, Own, TidyUp
from arneb_cluster.protocol.node import Apply
from arneb_cluster.protocol.reader import Commit
from arneb_cluster.protocol.values import Applied, Link, Place
from arneb_cluster.replica import Replica
from arneb_core.api.entries.position import position_at
from arneb_core.api.errors import StoreFailed
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.commit_record import encode_changes
from arneb_core.store.format.schema import META_NEXT_TOPIC_ID, Table, TopicId
from arneb_core.testing.store_kit import entry

LARGE: tuple[tuple[Table, bytes, bytes | None], ...] = ((Table.META, META_NEXT_TOPIC_ID, b"x" * 8),)
"""Rows that nobody can lay over LMDB."""


class Directory:
    """One, with its thread."""

    def __init__(self, path: Path) -> None:
        self.replica = Replica(Store.open(path, follows=True))
        self.why: list[str] = []
        self.failed = trio.Event()
        self.applying = Applying(self.replica, self._failed)
        self.reports: list[CommitReport] = []
        self._number = 0
        self.took_over = trio.Event()
        """A takeover has ended, well or not."""
        take_over = self.replica.take_over

        def stop() -> None:
            try:
                take_over()
            finally:
                trio.from_thread.run_sync(self.took_over.set)

        self.replica.take_over = stop  # type: ignore[method-assign]

    def _failed(self, why: str) -> None:
        self.why.append(why)
        self.failed.set()

    @property
    def transactions(self) -> int:
        return self.replica.store.statistics().last_transaction

    @property
    def flushed(self) -> int:
        return self.replica.flushed.link.number

    def effect(
        self,
        size: int = 1,
        puts: tuple[tuple[Table, bytes, bytes | None], ...] = (),
        *,
        own: bool = True,
    ) -> Apply:
        """The next commit."""
        self._number += 1
        number = self._number
        link = Link(number, number)
        applied = Applied("h", link, Place(1, number), link, 1, Place(1, 0), number)
        entries = [entry(b"." * size)]
        changes = Changes([(TopicId(1), position_at(1, number), entries)], puts=list(puts))
        ended = Own(changes, self.reports.append) if own else None
        return Apply(Commit(encode_changes(changes), applied), ended)

    def heartbeat(self) -> Apply:
        found = self.effect(own=False)
        return Apply(Commit(b"", found.commit.applied), None)


@asynccontextmanager
async def directory(path: Path) -> AsyncIterator[Directory]:
    made = Directory(path)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.applying.run)
            await trio.testing.wait_all_tasks_blocked()
            yield made
            nursery.cancel_scope.cancel()
    finally:
        made.replica.store.close()


async def test_the_caller_is_called_back_before_anything_is_written(tmp_path: Path) -> None:
    async with directory(tmp_path) as made:
        before, began = made.transactions, trio.current_time()
        for _ in range(5):
            assert made.applying.hold(made.effect())
        assert [each.trims_left for each in made.reports] == [0] * 5
        assert (made.transactions, made.flushed) == (before, 0)
        await made.took_over.wait()
        assert made.flushed == 5
        assert trio.current_time() >= began + TAKE_OVER_S
        assert made.transactions == before + 1


async def test_a_follower_holds_small_commits_and_decodes_the_rest_in_its_thread(
    tmp_path: Path,
) -> None:
    async with directory(tmp_path) as made:
        assert made.applying.hold(made.effect(own=False))
        assert made.applying.hold(made.heartbeat())
        large = made.effect(DECODED_BYTES_MAX, own=False)
        assert not made.applying.hold(large)
        await made.applying.apply([large])
        assert made.flushed == 3
        assert made.applying.hold(made.effect(DECODED_BYTES_MAX))  # its own is decoded already


async def test_a_malformed_record_is_not_held_and_is_reported(tmp_path: Path) -> None:
    async with directory(tmp_path) as made:
        damaged = Apply(Commit(b"x" * 100, made.effect().commit.applied), None)
        assert not made.applying.hold(damaged)
        await made.applying.apply([damaged])
        assert len(made.why) == 1
        assert "cannot apply what follows 0" in made.why[0]
        assert not made.applying.hold(made.effect())
        await made.applying.apply([made.effect()])
        assert (made.reports, made.flushed) == ([], 0)


async def test_a_large_amount_does_not_wait_for_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying_module, "TAKE_OVER_S", 3_600.0)
    async with directory(tmp_path) as made:
        began = trio.current_time()
        assert made.applying.hold(made.effect())
        assert made.applying.hold(made.effect(FULL_BYTES))
        await made.took_over.wait()
        assert made.flushed == 2
        assert trio.current_time() < began + 3_600


async def test_what_a_thread_applies_takes_what_is_held_with_it(tmp_path: Path) -> None:
    async with directory(tmp_path) as made:
        assert made.applying.hold(made.effect())
        before = made.transactions
        more = made.effect(puts=LARGE)
        assert not made.applying.hold(more)
        await made.applying.apply([more])
        assert (made.transactions, made.flushed) == (before + 1, 2)
        assert len(made.reports) == 2


async def test_a_failed_takeover_is_reported_once_and_ends_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with directory(tmp_path) as made:

        def failing(*_: object, **__: object) -> None:
            raise StoreFailed("the disk")

        monkeypatch.setattr(made.replica.store, "commit", failing)
        assert made.applying.hold(made.effect())
        await made.failed.wait()
        assert made.why == ["cannot apply what follows 0: the disk"]
        assert not made.applying.hold(made.effect())
    assert len(made.why) == 1


async def test_what_is_held_at_the_end_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying_module, "TAKE_OVER_S", 3_600.0)
    async with directory(tmp_path) as made:
        assert made.applying.hold(made.effect())
    assert made.flushed == 1


async def test_maintenance_writes_what_is_held(tmp_path: Path) -> None:
    async with directory(tmp_path) as made:
        assert made.applying.hold(made.effect())
        ends: list[CommitReport] = []
        await made.applying.tidy_up(TidyUp(ends.append))
        assert (made.flushed, len(ends)) == (1, 1)


def test_it_is_held_for_less_than_a_moment() -> None:
    """A process that reads a follower's directory is never further behind than that."""
    assert TAKE_OVER_S <= 0.25
