"""Planning at any depth: the committer and the topics' logs against a small model.

The log that it submits to is a script: commits end when the machine says so, in order, and one that
is refused, or comes when leadership is lost, ends all behind it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
import trio
import trio.testing
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from arneb_core.api.entries.position import BEFORE_ALL, Position, ledger_of
from arneb_core.api.errors import CommitFailed, LeadershipLost, StoreFailed, StoreFull
from arneb_core.api.topics.settings import NOTHING_KEPT, TopicSettings
from arneb_core.cursor.cursor import CursorChanges
from arneb_core.engine.engine import Engine
from arneb_core.engine.group_commit.committer import Committer
from arneb_core.engine.group_commit.planned_commit import PlannedCommit
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log.durable_log import ColdReader, DurableLog
from arneb_core.log.ledgers import LedgerIndex
from arneb_core.log.tail_cache import CacheBudget
from arneb_core.store.commit.commit_log import SMALL_BYTES_MAX, SMALL_ENTRIES_MAX, Ended
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.records import LedgerRecord
from arneb_core.store.format.schema import (
    FRONTEND_PREFIX,
    SubscriptionId,
    Table,
    TopicId,
    parse_ledger_key,
)
from arneb_core.store.journal.overlay import can_be_laid_over
from arneb_core.testing.engine_kit import body_of, make_entry
from arneb_core.testing.invariants import check_ledgers

TOPICS = (1, 2)
LEDGER_ENTRIES_MAX = 4
DEPTH_MAX = 8
ENTRY_BYTES = 128
"""Of which as many as may overtake are as many bytes as may."""


class ScriptedLog:
    """A commit log that holds every commit until it is told what becomes of the oldest."""

    needs_takeover = False

    def __init__(self, depth: int, beside_bytes_min: int) -> None:
        self.depth = depth
        self.beside_bytes_min = beside_bytes_min
        self.under_way: deque[tuple[Changes, Ended]] = deque()
        self._take_overs: deque[bool] = deque()
        self.entries: dict[tuple[TopicId, Position], bytes] = {}
        """What is stored, and was not trimmed."""
        self.rows: dict[tuple[Table, bytes], bytes] = {}
        self.at_once = False
        """Commits are stored on the spot while none is under way."""
        self.has_journal = False
        """What is stored so is not settled then, and to take_over takes a while."""
        self.submitted: list[tuple[int, bool]] = []
        """How many entries each commit had, and whether it takes_over."""
        self.takes_beside = False
        self.beside_total = 0
        self.possible: Callable[[], None] | None = None
        """Somebody asked in vain."""
        self.is_lost = False

    def prepare(self) -> None:
        raise AssertionError("nobody asks for it here")

    def close(self) -> None:
        raise AssertionError("nobody asks for it here")

    def submit(
        self, changes: Changes, ended: Ended, *, take_over: bool = False
    ) -> CommitReport | None:
        assert not self.is_lost, "something is submitted after leadership was lost"
        self.submitted.append((sum(len(each[2]) for each in changes.blocks), take_over))
        if self.at_once and not self.under_way and not (take_over and self.has_journal):
            report = self._apply(changes)
            report.needs_takeover = self.has_journal
            return report
        self.under_way.append((changes, ended))
        self._take_overs.append(take_over)
        assert len(self.under_way) <= self.depth
        return None

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> CommitReport | None:
        assert not self.is_lost, "something is submitted after leadership was lost"
        assert can_be_laid_over(changes), "more than entries and a frontend's rows"
        rows = {key for each, _ in self.under_way for _, key, _ in each.puts}
        assert rows.isdisjoint(key for _, key, _ in changes.puts), "overtakes its own row"
        assert sum(len(entries) for _, _, entries in changes.blocks) <= SMALL_ENTRIES_MAX
        before = {topic for each, _ in self.under_way for topic, _, _ in each.blocks}
        assert before.isdisjoint(topic for topic, _, _ in changes.blocks), "overtakes its own topic"
        if not self.takes_beside:
            self.possible = possible
            return None
        self.beside_total += 1
        return self._apply(changes)

    def store(self) -> None:
        """The oldest commit is stored."""
        changes, ended = self.under_way.popleft()
        takes_over = self._take_overs.popleft()
        report = self._apply(changes)
        report.needs_takeover = self.has_journal and not takes_over
        ended(report)

    def refuse(self, error: CommitFailed) -> None:
        """The oldest commit is not stored, and so none is."""
        _, ended = self.under_way.popleft()
        self.under_way.clear()
        self._take_overs.clear()
        self.is_lost = isinstance(error, LeadershipLost)
        ended(error)

    def _apply(self, changes: Changes) -> CommitReport:
        for table, key, value in changes.puts:
            if value is None:
                self.rows.pop((table, key), None)
            else:
                self.rows[table, key] = value
        for topic_id, first, entries in changes.blocks:
            for index, entry in enumerate(entries):
                position = topic_id, Position(first + index)
                assert position not in self.entries, f"{position} is given out twice"
                self.entries[position] = entry
        for topic_id, first, last in changes.trims:
            for position in [each for each in self.entries if each[0] == topic_id]:
                if first <= position[1] <= last:
                    del self.entries[position]
        return CommitReport(len(changes.blocks), 0, 0)


class Reader:
    """A subscription, as far as topics and the committer know one: it takes what it is given, and
    has acknowledged what it is told to have."""

    durable = consumers_attached = True
    gone = False
    name = "s"
    id = SubscriptionId(1)

    def __init__(self, topic: LogTopic, log: ScriptedLog) -> None:
        self.topic = topic
        self.given: list[tuple[Position, bytes]] = []
        self.mark_delete: Position = BEFORE_ALL
        self.unsaved = False
        self._log = log

    @property
    def ahead(self) -> Position:
        return self.given[-1][0] if self.given else BEFORE_ALL

    @property
    def machine(self) -> Any:
        """What the topic asks of it."""
        state = SimpleNamespace(reader=self)
        return SimpleNamespace(
            state=state, appended=self.appended, log_trimmed=lambda: None, consumers_attached=True
        )

    def appended(self, first: Position, entries: list[bytes]) -> None:
        for index, entry in enumerate(entries):
            position = Position(first + index)
            assert self._log.entries[self.topic.id, position] == entry, "given before it was stored"
            assert position > self.ahead, "given out of order"
            self.given.append((position, entry))

    @property
    def key(self) -> tuple[Table, bytes]:
        return Table.CURSORS, b"%d" % self.topic.id

    def take_changes(self) -> CursorChanges:
        self.unsaved = False
        return CursorChanges([], [(*self.key, b"%d" % self.mark_delete)])

    def changes_failed(self, changes: CursorChanges) -> None:
        self.unsaved = True


@dataclass
class Asked:
    """A request: what it appends, and what it was told."""

    bodies: dict[int, list[bytes]]
    answers: list[CommitFailed | None] = field(default_factory=list)
    firsts: list[Position] = field(default_factory=list)


class PlanningMachine(RuleBasedStateMachine):
    """Any order of requests, commits that end well, and commits that do not."""

    @initialize(depth=st.integers(1, DEPTH_MAX), beside_entries_min=st.sampled_from([0, 0, 3]))
    def begin(self, depth: int, beside_entries_min: int) -> None:
        self.log = ScriptedLog(depth, beside_entries_min * ENTRY_BYTES)
        self.now_ms = 1_000_000
        self.committer = Committer(self.log, lambda: self.now_ms, self.leadership_lost)
        engine = SimpleNamespace(
            retention=NOTHING_KEPT,
            ledger_closed=self.committer.trim_due,
            now_ms=lambda: self.now_ms,
        )
        self.topics: dict[int, LogTopic] = {}
        self.readers: dict[int, Reader] = {}
        for number in TOPICS:
            durable = DurableLog(
                TopicId(number), LedgerIndex(), cast(ColdReader, None), CacheBudget()
            )
            topic = LogTopic(
                cast(Engine, engine), TopicId(number), f"t{number}", TopicSettings(), durable
            )
            self.topics[number] = topic
            reader = self.readers[number] = Reader(topic, self.log)
            topic._subscriptions["s"] = cast(LogSubscription, reader)
        self.asked: list[Asked] = []
        self.rows_of: list[bytes | None] = []
        self.made = 0
        self.lost = False
        self.answered = 0

    def leadership_lost(self) -> None:
        self.lost = True

    def ask(
        self, sizes: dict[int, int], *, is_run: bool = False, row: bytes | None = None
    ) -> Asked:
        """A request of so many entries for each topic, and of a row unless it is a run. With
        ``row`` it is what a transaction of Pulsar's is."""
        asked = Asked({})
        for number, size in sizes.items():
            bodies = [b"%d" % (self.made + index) for index in range(size)]
            self.made += size
            asked.bodies[number] = bodies

        def note(error: CommitFailed | None, firsts: list[Position]) -> None:
            asked.answers.append(error)
            asked.firsts = firsts
            if error is None:
                self.check_stored(asked)

        appends = [
            (
                self.topics[number],
                [make_entry(body, publish_time_ms=self.now_ms) for body in bodies],
                len(bodies),
            )
            for number, bodies in asked.bodies.items()
        ]
        request = Request(note, appends)
        if is_run:
            ((number, _),) = sizes.items()
            request.finish = None
            request.appended = lambda error, first: note(error, [] if error else [first])
        elif row is None:
            request.puts = [(Table.META, b"row%d" % len(self.asked), b"")]
        else:
            request.puts = [(Table.CATALOG, FRONTEND_PREFIX + row, b"%d" % len(self.asked))]
        request.entries = sum(sizes.values())
        request.size = ENTRY_BYTES * request.entries
        self.rows_of.append(None if row is None else FRONTEND_PREFIX + row)
        self.asked.append(asked)
        self.committer.add(request)
        return asked

    def check_stored(self, asked: Asked) -> None:
        """All of it is stored where it is said to stand, and everybody was given it."""
        for (number, bodies), first in zip(asked.bodies.items(), asked.firsts, strict=True):
            given = dict(self.readers[number].given)
            for index, body in enumerate(bodies):
                position = Position(first + index)
                assert body_of(given[position]) == body
                assert ledger_of(position) == ledger_of(first)

    @rule(
        runs=st.lists(
            st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3), min_size=1),
            min_size=1,
            max_size=DEPTH_MAX,
        ),
        together=st.booleans(),
    )
    def publish(self, runs: list[dict[int, int]], together: bool) -> None:
        """Some requests, in one commit or each in its own if the log takes so many."""
        for sizes in runs:
            self.ask(sizes)
            if not together:
                self.committer.start()

    @rule(
        runs=st.lists(
            st.tuples(st.sampled_from(TOPICS), st.sampled_from([1, 2, 3, SMALL_ENTRIES_MAX + 1])),
            min_size=1,
            max_size=DEPTH_MAX,
        ),
        together=st.booleans(),
    )
    def publish_runs(self, runs: list[tuple[int, int]], together: bool) -> None:
        """Publishers' runs, small ones and large ones: some may overtake others."""
        for number, size in runs:
            self.ask({number: size}, is_run=True)
            if not together:
                self.committer.start()

    @rule(
        runs=st.lists(
            st.tuples(
                st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3), min_size=1),
                st.sampled_from([b"a", b"b"]),
            ),
            min_size=1,
            max_size=DEPTH_MAX,
        ),
        together=st.booleans(),
    )
    def end_transactions(self, runs: list[tuple[dict[int, int], bytes]], together: bool) -> None:
        """Entries with a row of a frontend's: some may overtake others."""
        for sizes, row in runs:
            self.ask(sizes, row=row)
            if not together:
                self.committer.start()

    @rule(takes=st.booleans())
    def take_beside(self, takes: bool) -> None:
        self.log.takes_beside = takes
        if takes and self.log.possible is not None:
            possible, self.log.possible = self.log.possible, None
            if not self.lost:
                possible()

    @rule()
    def start(self) -> None:
        self.committer.start()

    @rule(ms=st.sampled_from([-500, 1, 100]))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    @rule(at_once=st.booleans(), has_journal=st.booleans())
    def end_at_once(self, at_once: bool, has_journal: bool) -> None:
        self.log.at_once, self.log.has_journal = at_once, has_journal

    @rule(cursors=st.booleans())
    def take_over(self, cursors: bool) -> None:
        """What the log has is to be in the store as well, cursors or not; soon."""
        if cursors:
            self.committer.flush_cursors()
        else:
            self.committer.take_over()

    @rule(number=st.sampled_from(TOPICS), share=st.integers(1, 4), wait=st.booleans())
    def acknowledge(self, number: int, share: int, wait: bool) -> None:
        """Some more of what was given out, in order; perhaps somebody waits for the receipt."""
        reader = self.readers[number]
        ahead = [position for position, _ in reader.given if position > reader.mark_delete]
        if not ahead or self.lost:
            return
        reader.mark_delete = ahead[-(-len(ahead) * share // 4) - 1]
        reader.unsaved = True
        mark = reader.mark_delete

        def note(error: CommitFailed | None) -> None:
            if error is None:
                assert int(self.log.rows[reader.key]) >= mark, "told before it was stored"

        self.committer.cursor_changed(cast(LogSubscription, reader), note if wait else None)

    @rule(number=st.sampled_from(TOPICS), at_once=st.booleans())
    def look_for_trims(self, number: int, at_once: bool) -> None:
        self.committer.trim_due(self.topics[number], at_once=at_once)

    @precondition(lambda self: self.log.under_way)
    @rule(commits=st.integers(1, DEPTH_MAX))
    def store(self, commits: int) -> None:
        for _ in range(min(commits, len(self.log.under_way))):
            self.log.store()

    @precondition(lambda self: self.log.under_way)
    @rule(error=st.sampled_from([StoreFailed("told to"), StoreFull("told to")]))
    def refuse(self, error: CommitFailed) -> None:
        before = [each for each in self.asked if each.answers]
        self.log.refuse(error)
        refused = [each for each in self.asked if each.answers and each not in before]
        assert all(each.answers == [error] for each in refused if each.answers != [None])

    @precondition(lambda self: self.log.under_way)
    @rule(likely=st.integers(0, 9))
    def lose_leadership(self, likely: int) -> None:
        if likely:
            return
        self.log.refuse(LeadershipLost("told to"))
        assert self.lost
        assert all(each.answers for each in self.asked), "somebody was told nothing"

    @invariant()
    def memory_is_what_is_stored(self) -> None:
        assert self.committer.breakage.error is None or self.lost
        for number, topic in self.topics.items():
            check_ledgers(topic.log.ledgers)
            stored = sorted(position for id_, position in self.log.entries if id_ == number)
            known = [
                Position(position)
                for first, last in topic.log.ledgers.runs(BEFORE_ALL, Position((1 << 62) - 1))
                for position in range(first, last + 1)
            ]
            assert stored == known, "an entry is in memory and not stored, or the reverse"
            rows = {
                parse_ledger_key(key)[1]: LedgerRecord.unpack(value)
                for (table, key), value in self.log.rows.items()
                if table is Table.LEDGERS and parse_ledger_key(key)[0] == number
            }
            assert rows.keys() == {info.id for info in topic.log.ledgers}
            for info in topic.log.ledgers:
                row = rows[info.id]
                assert (row.created_ms, row.messages_before, row.closed_ms) == (
                    info.created_ms, info.messages_before, info.closed_ms,
                )  # fmt: skip
                if info.closed_ms:
                    assert row.entries == info.entries

    @invariant()
    def a_row_is_as_it_was_put_last(self) -> None:
        for key in (FRONTEND_PREFIX + b"a", FRONTEND_PREFIX + b"b"):
            found = self.log.rows.get((Table.CATALOG, key))
            stored = [n for n, each in enumerate(self.asked) if each.answers == [None]]
            mine = [n for n in stored if self.rows_of[n] == key]
            assert found == (b"%d" % mine[-1] if mine else None), "rows changed their order"

    @invariant()
    def each_is_told_once_and_in_order(self) -> None:
        assert all(len(each.answers) <= 1 for each in self.asked)
        last = dict.fromkeys(TOPICS, BEFORE_ALL)
        for each in self.asked:
            if each.answers == [None]:
                for number, first in zip(each.bodies, each.firsts, strict=True):
                    assert first > last[number], "publishers' messages changed their order"
                    last[number] = Position(first + len(each.bodies[number]) - 1)
        for number in TOPICS:
            # A run that fails takes along the runs behind it.
            asked = [
                each
                for each in self.asked
                if number in each.bodies and each.answers in ([], [None])
            ]
            unanswered = [each for each in asked if not each.answers]
            if not self.lost and unanswered:
                # What waits or is under way is what came last.
                assert unanswered == asked[-len(unanswered) :]

    def teardown(self) -> None:
        """Everything ends, and then nothing is planned and nothing is missing."""
        if not hasattr(self, "log"):
            return
        self.log.at_once = False
        for _ in range(1_000):
            self.committer.flush_cursors()
            self.committer.start()
            if not self.log.under_way:
                break
            self.log.store()
        self.memory_is_what_is_stored()
        self.each_is_told_once_and_in_order()
        assert self.committer.is_idle
        assert self.committer.waiting_bytes == 0
        assert all(each.answers for each in self.asked)
        for number, topic in self.topics.items():
            assert isinstance(topic.log, DurableLog)
            assert not topic.log.planned
            assert not topic.log.planned_drops
            reader = self.readers[number]
            if not self.lost and reader.mark_delete > BEFORE_ALL:
                assert int(self.log.rows[reader.key]) == reader.mark_delete
        note(f"{self.committer!r}")


@pytest.mark.parametrize("ledger_entries_max", [LEDGER_ENTRIES_MAX, 1000])
@pytest.mark.parametrize("ended_bytes_min", [1, 1 << 20])
def test_positions_are_given_out_once_and_everything_comes_after_stored_in_order(
    ended_bytes_min: int, ledger_entries_max: int
) -> None:
    with (
        patch("arneb_core.log.planning.LEDGER_ENTRIES_MAX", ledger_entries_max),
        patch("arneb_core.log.retention.ENDED_BYTES_MIN", ended_bytes_min),
    ):
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            PlanningMachine, settings=settings(max_examples=100, stateful_step_count=60)
        )


def test_a_request_that_comes_when_a_commit_could_not_be_planned_overtakes_none() -> None:
    """What was known of those who waited then says nothing of who waits now."""
    machine = PlanningMachine()
    machine.begin(1, 0)
    machine.log.takes_beside = True
    placed, large = PlannedCommit.plan_appends, SMALL_ENTRIES_MAX + 1
    retried: list[Asked] = []

    def fails_once(commit: PlannedCommit, now_ms: int) -> None:
        if not retried:
            raise RuntimeError("told to fail")
        placed(commit, now_ms)

    for _ in range(3):
        machine.ask({1: large}, is_run=True)
    first = machine.committer._waiting[0]

    def failed(error: CommitFailed | None, at: Position) -> None:
        sizes = (large, large, large, 1)
        retried.extend([machine.ask({2: size}, is_run=True) for size in sizes])

    first.appended = failed
    machine.asked.pop(0)
    with patch.object(PlannedCommit, "plan_appends", fails_once):
        machine.committer.start()
    while machine.log.under_way:
        machine.log.store()
        machine.each_is_told_once_and_in_order()
    assert len(retried) == 4
    assert not machine.log.beside_total
    assert all(each.answers == [None] for each in retried)


async def test_a_waiter_for_the_end_is_woken_when_everything_was_stored_at_once() -> None:
    runs = SMALL_BYTES_MAX // (SMALL_ENTRIES_MAX * ENTRY_BYTES) + 1
    machine = PlanningMachine()
    machine.begin(1, 0)
    machine.ask({1: 1, 2: 1})  # opens the ledgers
    machine.committer.start()
    while machine.log.under_way:
        machine.log.store()
    machine.log.takes_beside = True
    for number in islice(cycle(TOPICS), runs):
        machine.ask({number: SMALL_ENTRIES_MAX}, is_run=True)
    machine.ask({1: 1}, is_run=True)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(machine.committer.idle)
            await trio.testing.wait_all_tasks_blocked()
            machine.committer.start()
            assert machine.log.beside_total
            assert not machine.log.under_way


def test_little_waits_for_what_is_under_way_and_much_is_begun_beside_it() -> None:
    machine = PlanningMachine()
    machine.begin(4, 3)
    under_way = []
    for entries in (4, 1, 1, 1, 2, 1):
        machine.ask({1: entries})
        machine.committer.start()
        under_way.append(len(machine.log.under_way))
    assert under_way == [1, 1, 1, 2, 2, 3]
    machine.ask({2: 1})
    machine.committer.start()
    for left in (2, 1, 1):
        machine.log.store()
        assert len(machine.log.under_way) == left
    while machine.log.under_way:
        machine.log.store()
    assert all(each.answers == [None] for each in machine.asked)
