"""Inline commits: which ones the event loop makes by itself, and that they count."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.commit import inline_commits, local
from arneb_core.store.commit.commit_log import (
    LARGE_BYTES_MAX,
    LARGE_ENTRY_BYTES,
    SMALL_BYTES_MAX,
    SMALL_ENTRIES_MAX,
    SMALL_ROWS_MAX,
    SMALL_RUNS_MAX,
    Ending,
    Lent,
)
from arneb_core.store.commit.inline_commits import (
    PAUSE_COMMITS,
    RECENT_COMMITS,
    SLOW_PAUSE_COMMITS,
    SMALL_COMMITS_MIN,
    InlineCommits,
)
from arneb_core.store.commit.journal import RUNS_MAX
from arneb_core.store.commit.local import LocalCommitLog
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.records import CursorRecord, JournalState
from arneb_core.store.format.schema import Table, TopicId, cursor_prefix
from arneb_core.testing.engine_kit import (
    Outcome,
    attach,
    make_entry,
    pass_time,
    publish,
    quiet,
)
from arneb_core.testing.faults import DiskFault, broken_disk, broken_journal

REPORT = CommitReport(1, 1, 0)


def tiny(*entries: bytes) -> Changes:
    return Changes(blocks=[(TopicId(1), 1 << 32, [*entries] or [b""])])  # type: ignore[list-item]


def suits(cut: InlineCommits, times: int = 1) -> bool:
    return [cut.suits(tiny()) for _ in range(times)][-1]


def test_it_opens_when_all_that_comes_is_little() -> None:
    cut = InlineCommits(lambda changes: REPORT)
    assert not suits(cut, SMALL_COMMITS_MIN)
    assert suits(cut)
    assert cut.commit(tiny()) is REPORT


def runs(count: int, *entries: bytes) -> Changes:
    """One run of these entries in each of so many topics."""
    return Changes(blocks=tiny(*entries).blocks * count)


CURSOR = (Table.CURSORS, b"k", b"v")

LITTLE = {
    "many entries": tiny(*[b""] * SMALL_ENTRIES_MAX),
    "many bytes": tiny(*[bytes(SMALL_BYTES_MAX // 256)] * 256),
    "large entries": tiny(
        *[bytes(LARGE_ENTRY_BYTES + 1)] * (LARGE_BYTES_MAX // LARGE_ENTRY_BYTES - 1)
    ),
    "one large entry": tiny(bytes(LARGE_BYTES_MAX)),
    "many topics": runs(SMALL_RUNS_MAX),
    "many entries in two topics": runs(2, *[b""] * (SMALL_ENTRIES_MAX // 2)),
    "many bytes in two topics": runs(2, *[bytes(SMALL_BYTES_MAX // 256)] * 128),
    "large entries in two topics": runs(2, bytes(LARGE_BYTES_MAX // 2)),
    "many rows": Changes(tiny().blocks, puts=[CURSOR] * SMALL_ROWS_MAX),
    "a row that goes": Changes(deletes=[(Table.CURSORS, b"k")]),
    "a row of a frontend's": Changes(puts=[(Table.CATALOG, b"frontend/k", None)]),
}
MUCH = {
    "many entries": tiny(*[b""] * (SMALL_ENTRIES_MAX + 1)),
    "many bytes": tiny(b"x", *[bytes(SMALL_BYTES_MAX // 256)] * 256),
    "large entries": tiny(*[bytes(LARGE_ENTRY_BYTES + 1)] * (LARGE_BYTES_MAX // LARGE_ENTRY_BYTES)),
    "one large entry": tiny(bytes(LARGE_BYTES_MAX + 1)),
    "many topics": runs(SMALL_RUNS_MAX + 1),
    "many entries in two topics": runs(2, *[b""] * (SMALL_ENTRIES_MAX // 2 + 1)),
    "many bytes in two topics": runs(2, b"x", *[bytes(SMALL_BYTES_MAX // 256)] * 128),
    "large entries in two topics": runs(2, bytes(LARGE_BYTES_MAX // 2 + 1)),
}
OTHERS = {
    "no entries": Changes(),
    "a row": Changes(tiny().blocks, puts=[(Table.META, b"k", b"v")]),
    "a deletion": Changes(tiny().blocks, deletes=[(Table.META, b"k")]),
    "a prefix": Changes(tiny().blocks, prefixes=[(Table.META, b"k")]),
    "a trim": Changes(tiny().blocks, trims=[(TopicId(1), 0, 1)]),  # type: ignore[list-item]
    "an entry that is kept once": Changes(runs(2).blocks, puts=[CURSOR], shared=[b""]),
    "too many rows": Changes(tiny().blocks, puts=[CURSOR] * (SMALL_ROWS_MAX + 1)),
}


@pytest.mark.parametrize("little", LITTLE)
def test_the_most_that_is_little_is_for_the_loop(little: str) -> None:
    assert opened().suits(LITTLE[little])


@pytest.mark.parametrize("much", MUCH)
def test_more_closes_it(much: str) -> None:
    cut = opened()
    assert not cut.suits(MUCH[much])
    assert not suits(cut, SMALL_COMMITS_MIN)
    assert suits(cut)


@pytest.mark.parametrize("other", OTHERS)
def test_what_cannot_be_laid_over_is_for_lmdb_and_closes_nothing(other: str) -> None:
    cut = opened()
    assert not cut.suits(OTHERS[other]) and not cut.for_journal
    assert suits(cut)


def took(seconds: float) -> CommitReport:
    """One write into the journal."""
    return CommitReport(1, 1, 0, seconds=seconds, needs_takeover=True)


QUICK = took(inline_commits.FAST_S / 10)
SLOW = took(inline_commits.STALL_S * 0.99)
STALL = took(inline_commits.STALL_S * 1.01)
SLOW_LMDB = CommitReport(1, 1, 0, seconds=60.0)


class Disk:
    """Whoever writes into the journal, it takes what the test says."""

    def __init__(self) -> None:
        self.cut = InlineCommits(lambda changes: self.report)
        self.report = QUICK
        assert suits(self.cut, SMALL_COMMITS_MIN + 1)

    def commit(self, report: CommitReport) -> bool:
        """Whether the loop has made this commit, and not the thread."""
        self.report = report
        by_loop = self.cut.suits(tiny())
        assert self.cut.for_journal
        if by_loop:
            assert self.cut.commit(tiny()) is report
        else:
            self.cut.thread_committed(report)
        return by_loop


def opened(report: CommitReport | None = REPORT) -> InlineCommits:
    cut = InlineCommits(lambda changes: report)
    assert suits(cut, SMALL_COMMITS_MIN + 1)
    return cut


def closed_for(cut: InlineCommits) -> int:
    """How many commits are left to the thread, all of them for the journal and all of them fast."""
    left = 0
    while not cut.suits(tiny()):
        assert cut.for_journal
        cut.thread_committed(QUICK)
        left += 1
        assert left <= 2 * PAUSE_COMMITS
    return left


def test_one_slow_write_closes_nothing() -> None:
    """Nor does one in twenty of a few times what is fast, as on the disks of virtual machines."""
    disk = Disk()
    often = took(5 * inline_commits.FAST_S)
    assert all(disk.commit(QUICK if number % 20 else often) for number in range(1000))


def test_a_stall_of_the_loop_closes_it() -> None:
    disk = Disk()
    assert disk.commit(STALL)
    assert closed_for(disk.cut) == PAUSE_COMMITS


def test_writes_that_are_slow_on_average_close_it_for_a_while() -> None:
    disk = Disk()
    slow = took(inline_commits.FAST_S * 2)
    by_loop = [disk.commit(slow) for _ in range(1000)]
    tries = [len(list(run)) for is_loop, run in groupby(by_loop) if is_loop]
    pauses = [len(list(run)) for is_loop, run in groupby(by_loop) if not is_loop]
    assert tries[0] <= RECENT_COMMITS
    assert set(tries[1:-1]) == {4}
    assert set(pauses[:-1]) == {SLOW_PAUSE_COMMITS}


def test_a_disk_that_is_fast_again_is_written_by_the_loop_from_then_on() -> None:
    disk = Disk()
    while disk.commit(took(inline_commits.FAST_S * 2)):
        pass
    assert closed_for(disk.cut) == SLOW_PAUSE_COMMITS - 1
    assert all(disk.commit(QUICK) for _ in range(1000))


@given(
    st.lists(
        st.floats(0, 2 * inline_commits.STALL_S)
        | st.sampled_from([0.0, inline_commits.FAST_S, inline_commits.STALL_S]),
        max_size=400,
    )
)
def test_the_loop_is_held_up_no_longer_on_average_than_is_fast(times: list[float]) -> None:
    """But for one write at the end that nobody could foresee and that is no stall, and what a try
    lets through before its average says so; a stall costs the thread's commits behind it."""
    disk = Disk()
    held_s, commits, stalls = 0.0, 0, 0
    for seconds in times:
        if disk.commit(took(seconds)):
            held_s += min(seconds, inline_commits.STALL_S)
            stalls += seconds > inline_commits.STALL_S
        commits += 1
    # What an average over RECENT_COMMITS lets through before it says so, and what stalls add.
    unforeseen_s = RECENT_COMMITS * inline_commits.FAST_S + (1 + stalls) * inline_commits.STALL_S
    assert held_s <= commits * inline_commits.FAST_S * 2 + unforeseen_s
    assert stalls <= 1 + commits // PAUSE_COMMITS


@pytest.mark.parametrize("report", [SLOW, SLOW_LMDB], ids=["the journal", "LMDB"])
def test_the_time_of_a_commit_of_the_thread_s_says_nothing(report: CommitReport) -> None:
    """It includes what the thread waits for the interpreter's lock."""
    cut = opened()
    cut.thread_committed(report)
    assert suits(cut)


@pytest.mark.parametrize("failure", [None, OSError(5, "told to fail")], ids=["all", "the journal"])
def test_a_failure_in_the_thread_closes_it(
    failure: OSError | None, caplog: pytest.LogCaptureFixture
) -> None:
    cut = opened()
    cut.thread_committed(StoreFailed("told to") if failure is None else REPORT, failure)
    assert closed_for(cut) == PAUSE_COMMITS
    assert any("cannot write to the journal" in each for each in caplog.messages) == bool(failure)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is slow."""
    monkeypatch.setattr(inline_commits, "FAST_S", 60.0)
    monkeypatch.setattr(inline_commits, "STALL_S", 60.0)


async def test_lone_publishes_go_through_the_journal_in_order(data_dir: Path, fast: None) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("t")
            for index in range(SMALL_COMMITS_MIN + 10):
                await publish(engine, "t", [b"%d" % index])
            assert store._journal.number > 0
        with store.snapshot() as snapshot:
            found = [body[40:] for _, run in snapshot.iter_blocks(TopicId(1)) for body in run]
        assert found == [b"%d" % index for index in range(SMALL_COMMITS_MIN + 10)]


async def test_an_ack_goes_through_the_journal_if_somebody_waits_for_it(
    data_dir: Path, fast: None
) -> None:
    """The others are LMDB's, together: they would be written twice for nobody."""
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        consumer, sink = attach(subscription, permits=100)
        for _ in range(SMALL_COMMITS_MIN + 4):
            await publish(engine, "t", [b"x"])
        await quiet(engine)
        journal = engine._store._journal
        before = journal.number
        outcome = Outcome()
        consumer.acknowledge(sink.positions[:1], outcome)
        assert await outcome.wait() is None
        assert journal.number == before + 1
        with engine._store.snapshot() as snapshot:
            row = snapshot.get(Table.CURSORS, cursor_prefix(topic.id, subscription.id) + b"\0")
        assert row is not None
        assert CursorRecord.unpack(row).mark_delete == sink.positions[0]
        await pass_time(engine, 0.2)
        assert not journal.pending
        consumer.acknowledge(sink.positions[1:2])
        await pass_time(engine, 0.2)
        assert journal.number == before + 1
        assert not journal.pending
        with engine._store.snapshot() as snapshot:
            row = snapshot.get(Table.CURSORS, cursor_prefix(topic.id, subscription.id) + b"\0")
        assert row is not None
        assert CursorRecord.unpack(row).mark_delete == sink.positions[1]


async def test_maintenance_takes_the_journal_over(
    data_dir: Path, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("t")
            for _ in range(SMALL_COMMITS_MIN + 2):
                await publish(engine, "t", [b"x"])
            assert store._journal.number > 0
            taken_over = trio.Event()
            token = trio.lowlevel.current_trio_token()
            original = store._journal.taken_over

            def noted(state: JournalState) -> None:
                original(state)
                token.run_sync_soon(taken_over.set)

            monkeypatch.setattr(store._journal, "taken_over", noted)
            await taken_over.wait()  # the clock jumps as far as it must
            await quiet(engine)
            assert not engine._committer.needs_takeover
            monkeypatch.undo()


async def test_the_loop_writes_to_the_journal_and_makes_no_commit_of_lmdb(
    data_dir: Path, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when the journal is full, or cannot be written."""
    threads: list[str] = []
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("t")
            commit = store.commit

            def noted(changes: Changes) -> CommitReport:
                threads.append(threading.current_thread().name)
                return commit(changes)

            monkeypatch.setattr(store, "commit", noted)
            for index in range(2 * RUNS_MAX + SMALL_COMMITS_MIN):
                with broken_journal() if index == RUNS_MAX else nullcontext():
                    await publish(engine, "t", [b"%d" % index])
            assert len(threads) > 2
            assert set(threads) == {"arneb-writer"}
        with store.snapshot() as snapshot:
            found = [body[40:] for _, run in snapshot.iter_blocks(TopicId(1)) for body in run]
        assert found == [b"%d" % index for index in range(2 * RUNS_MAX + SMALL_COMMITS_MIN)]


def test_a_failure_closes_it(caplog: pytest.LogCaptureFixture) -> None:
    failing = OSError(5, "told to fail")

    def commit(changes: Changes) -> CommitReport:
        raise failing

    cut = InlineCommits(commit)
    assert suits(cut, SMALL_COMMITS_MIN + 1)
    assert cut.commit(tiny()) is None and not cut.for_journal
    assert closed_for(cut) == PAUSE_COMMITS
    assert caplog.messages == [f"cannot write to the journal, committing without it: {failing}"]


def test_a_large_commit_is_not_for_the_journal_nor_are_the_first_ones_after_it() -> None:
    cut = opened()
    assert cut.for_journal
    assert not cut.suits(MUCH["many entries"]) and not cut.for_journal
    for _ in range(SMALL_COMMITS_MIN):
        assert not suits(cut) and not cut.for_journal
    assert suits(cut) and cut.for_journal


class StalledOnce:
    """A store whose first write into the journal is a stall, noting who commits what, and how."""

    def __init__(self, journal_left: int = 1 << 30, failure: OSError | None = None) -> None:
        self.made: list[tuple[str, str]] = []
        self._left = journal_left
        self._failure = failure

    def commit(self, changes: Changes) -> CommitReport:
        self.made.append((threading.current_thread().name, "LMDB"))
        return SLOW_LMDB

    def commit_tiny(self, changes: Changes) -> CommitReport | None:
        self.made.append((threading.current_thread().name, "journal"))
        if len(self.made) == SMALL_COMMITS_MIN + 1:
            return STALL
        if self._failure is not None:
            raise self._failure
        self._left -= 1
        return replace(REPORT, needs_takeover=True) if self._left >= 0 else None

    def commit_beside(self, changes: Changes, lent: Lent) -> CommitReport | None:
        raise AssertionError("nothing is committed beside anything here")

    def prepare_tiny(self) -> None:
        pass

    def resolve(self) -> CommitReport | None:
        return None

    needs_takeover = False
    path = Path("/proc")  # on no disk


def commit_by(store: StalledOnce, times: int) -> Counter[tuple[str, str]]:
    """Commit tiny ones one after the other, as an event loop would; who has made them."""
    calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
    log = LocalCommitLog(store, lambda function, *args: calls.put(partial(function, *args)))
    ended: list[Ending] = []
    for number in range(times):
        if (report := log.submit(tiny(), ended.append)) is not None:
            ended.append(report)
        while len(ended) <= number:
            calls.get(timeout=10)()
    log.close()
    return Counter(store.made)


THREAD, LOOP = "arneb-writer", threading.main_thread().name


def test_while_it_is_closed_the_thread_writes_into_the_journal() -> None:
    store = StalledOnce()
    assert commit_by(store, SMALL_COMMITS_MIN + 1 + PAUSE_COMMITS + 10) == {
        (THREAD, "LMDB"): SMALL_COMMITS_MIN,
        (THREAD, "journal"): PAUSE_COMMITS,
        (LOOP, "journal"): 1 + 10,
    }


def test_what_the_journal_has_no_room_for_the_thread_gives_to_lmdb_and_nothing_closes() -> None:
    store = StalledOnce(journal_left=10)
    assert commit_by(store, SMALL_COMMITS_MIN + 1 + PAUSE_COMMITS + 5) == {
        (THREAD, "LMDB"): SMALL_COMMITS_MIN + PAUSE_COMMITS - 10 + 5,
        (THREAD, "journal"): PAUSE_COMMITS,
        (LOOP, "journal"): 1 + 5,
    }


def test_what_the_thread_cannot_write_into_the_journal_it_gives_to_lmdb(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = StalledOnce(failure=OSError(5, "told to fail"))
    assert commit_by(store, SMALL_COMMITS_MIN + 1 + PAUSE_COMMITS + 5) == {
        (THREAD, "LMDB"): SMALL_COMMITS_MIN + PAUSE_COMMITS + 5,
        (THREAD, "journal"): PAUSE_COMMITS + 5,
        (LOOP, "journal"): 1,
    }
    assert len(caplog.messages) == PAUSE_COMMITS + 5


async def test_a_failure_of_an_inline_commit_is_reported_and_leaves_no_gap(
    data_dir: Path, fast: None
) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("t")
            for _ in range(SMALL_COMMITS_MIN + 2):
                last = await publish(engine, "t", [b"x"])
            with (
                broken_disk(data_dir, DiskFault.FULL),
                broken_journal(lands=True, count=1),
                pytest.raises(CommitFailed),
            ):
                await publish(engine, "t", [b"lost"])
            assert await publish(engine, "t", [b"y"]) == last + 1


async def test_a_commit_in_doubt_is_not_reported_before_its_outcome_is_known(
    data_dir: Path, fast: None, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("t")
            for _ in range(SMALL_COMMITS_MIN + 2):
                last = await publish(engine, "t", [b"x"])
            outcome = Outcome()
            with broken_disk(data_dir, DiskFault.FULL), broken_journal(lands=True):
                engine.append(engine.topic("t"), [make_entry(b"lost")], outcome)
                for _ in range(LOOKS_MAX):
                    if any("outcome of a commit unknown" in each for each in caplog.messages):
                        break
                    await trio.lowlevel.checkpoint()
                assert await publish_soon(engine, b"behind") is None
                assert not outcome.calls
            assert isinstance(await outcome.wait(), CommitFailed)
            # What waited behind it for the same topic went with it.
            assert await publish(engine, "t", [b"y"]) == last + 1


LOOKS_MAX = 1_000_000
"""A thread has long done by then what it does in a millisecond."""


async def publish_soon(engine: Engine, body: bytes) -> Exception | None:
    """Publish, and wait for it for a moment; None: nobody was told anything."""
    outcome = Outcome()
    engine.append(engine.topic("t"), [make_entry(body)], outcome)
    for _ in range(100):
        await trio.lowlevel.checkpoint()
    return outcome.calls[0] if outcome.calls else None


def test_the_loop_goes_where_the_disk_interrupts_after_its_own_writes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by: list[str] = []

    class Noted:
        @classmethod
        def of(cls, directory: Path) -> "Noted":
            assert directory == StalledOnce.path
            return cls()

        def written(self) -> None:
            by.append(threading.current_thread().name)

    monkeypatch.setattr(local, "DiskInterrupts", Noted)
    store = StalledOnce(journal_left=PAUSE_COMMITS + 10)
    commit_by(store, SMALL_COMMITS_MIN + 1 + PAUSE_COMMITS + 12)
    assert Counter(store.made)[LOOP, "journal"] == 1 + 12
    assert by == [LOOP] * (1 + 10)  # what it could not write is not counted
