"""Work that nobody waits for, such as a takeover, lets a small write go first, but only once."""

from typing import cast

import pytest
from tests.core.engine.group_commit.test_planned_commit import ENTRY_BYTES, PlanningMachine

from arneb_core.api.entries.position import position_at
from arneb_core.engine.group_commit.gathering import is_little
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.commit.commit_log import (
    LARGE_BYTES_MAX,
    LARGE_ENTRY_BYTES,
    SMALL_BYTES_MAX,
    SMALL_ENTRIES_MAX,
    SMALL_RUNS_MAX,
)
from arneb_core.store.commit.inline_commits import SMALL_COMMITS_MIN, InlineCommits
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import TopicId


def with_a_journal() -> PlanningMachine:
    """Little is stored at once, and is not settled."""
    machine = PlanningMachine()
    machine.begin(1, 0)
    machine.ask({1: 1, 2: 1})  # opens the ledgers
    machine.committer.start()
    while machine.log.under_way:
        machine.log.store()
    machine.log.at_once = machine.log.has_journal = True
    machine.ask({1: 1}, is_run=True)
    machine.committer.start()
    assert machine.committer.needs_takeover
    machine.log.submitted.clear()
    return machine


@pytest.mark.parametrize("cursors", [False, True], ids=["takeover", "cursors"])
def test_a_publisher_does_not_wait_for_commits_without_a_waiter(cursors: bool) -> None:
    machine = with_a_journal()
    if cursors:
        machine.acknowledge(1, 4, wait=False)
    machine.take_over(cursors)
    asked = machine.ask({1: 1}, is_run=True)
    machine.committer.start()
    assert asked.answers == [None]
    assert machine.log.submitted == [(1, False), (0, True)]
    machine.log.store()
    assert not machine.committer.needs_takeover
    assert machine.committer.is_idle


def test_a_commit_without_a_waiter_waits_once() -> None:
    machine = with_a_journal()
    machine.take_over(False)
    machine.log.at_once = False
    for _ in range(3):
        machine.ask({1: 1}, is_run=True)
        machine.committer.start()
    assert machine.log.submitted == [(1, False)]
    machine.log.store()
    assert machine.log.submitted == [(1, False), (2, True)]


@pytest.mark.parametrize("case", ["large", "more than a run", "a receipt", "no journal"])
def test_much_is_stored_with_commits_without_a_waiter(case: str) -> None:
    machine = with_a_journal()
    if case == "no journal":
        machine.committer.take_over()
        machine.committer.start()
        machine.log.store()
        machine.log.has_journal = False
        machine.log.submitted.clear()
    if case == "a receipt":
        machine.acknowledge(1, 4, wait=True)
        machine.committer.flush_cursors()
    else:
        machine.acknowledge(1, 4, wait=False)
        machine.take_over(True)
    size = SMALL_BYTES_MAX // ENTRY_BYTES + 1 if case == "large" else 1
    machine.ask({1: size}, is_run=case != "more than a run")
    machine.committer.start()
    assert machine.log.submitted == [(size, True)]


@pytest.mark.parametrize(
    ("topics", "entries", "entry_bytes", "is_one_write"),
    [
        (SMALL_RUNS_MAX, 1, 100, True),
        (SMALL_RUNS_MAX + 1, 1, 100, False),
        (1, SMALL_ENTRIES_MAX, 10, True),
        (2, SMALL_ENTRIES_MAX // 2 + 1, 10, False),
        (1, LARGE_BYTES_MAX // LARGE_ENTRY_BYTES, LARGE_ENTRY_BYTES, True),
        (1, LARGE_BYTES_MAX // LARGE_ENTRY_BYTES, LARGE_ENTRY_BYTES + 1, False),
        (1, SMALL_BYTES_MAX // 1_000 + 1, 1_000, False),
    ],
)
def test_only_what_one_write_stores_goes_before_commits_without_a_waiter(
    topics: int, entries: int, entry_bytes: int, is_one_write: bool
) -> None:
    """By anything else the cursors would wait for two flushes more."""
    runs = [[bytes(entry_bytes)] * entries for _ in range(topics)]
    waiting = [
        Request(
            appends=[(cast(LogTopic, object()), run, entries)],
            appended=lambda error, first: None,
            entries=entries,
            size=entries * entry_bytes,
        )
        for run in runs
    ]
    changes = Changes(blocks=[(TopicId(n), position_at(1, 0), run) for n, run in enumerate(runs)])
    inline = InlineCommits(lambda changes: None)
    suits = [inline.suits(changes) for _ in range(SMALL_COMMITS_MIN + 1)][-1]
    assert is_little(waiting) == suits == is_one_write


def test_many_runs_for_one_topic_are_one_run() -> None:
    topic = cast(LogTopic, object())
    waiting = [
        Request(appends=[(topic, [b"x"], 1)], appended=lambda error, first: None, entries=1, size=1)
        for _ in range(SMALL_RUNS_MAX + 1)
    ]
    assert is_little(waiting)
