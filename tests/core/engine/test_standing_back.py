"""What nobody waits for, as a takeover of the journal, stands back once for little that is."""

import pytest
from tests.core.engine.test_planned_commit import ENTRY_BYTES, PlanningMachine

from arneb_core.store.commit.commit_log import SMALL_BYTES_MAX


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
    assert machine.committer.unsettled
    machine.log.submitted.clear()
    return machine


@pytest.mark.parametrize("cursors", [False, True], ids=["takeover", "cursors"])
def test_a_publisher_does_not_wait_for_what_nobody_waits_for(cursors: bool) -> None:
    machine = with_a_journal()
    if cursors:
        machine.acknowledge(1, 4, wait=False)
    machine.settle(cursors)
    asked = machine.ask({1: 1}, is_run=True)
    machine.committer.start()
    assert asked.told == [None]
    assert machine.log.submitted == [(1, False), (0, True)]
    machine.log.store()
    assert not machine.committer.unsettled
    assert machine.committer.is_idle


def test_what_nobody_waits_for_waits_once() -> None:
    machine = with_a_journal()
    machine.settle(False)
    machine.log.at_once = False
    for _ in range(3):
        machine.ask({1: 1}, is_run=True)
        machine.committer.start()
    assert machine.log.submitted == [(1, False)]
    machine.log.store()
    assert machine.log.submitted == [(1, False), (2, True)]


@pytest.mark.parametrize("case", ["large", "more than a run", "a receipt", "no journal"])
def test_much_is_stored_with_what_nobody_waits_for(case: str) -> None:
    machine = with_a_journal()
    if case == "no journal":
        machine.committer.settle()
        machine.committer.start()
        machine.log.store()
        machine.log.has_journal = False
        machine.log.submitted.clear()
    if case == "a receipt":
        machine.acknowledge(1, 4, wait=True)
        machine.committer.flush_cursors()
    else:
        machine.acknowledge(1, 4, wait=False)
        machine.settle(True)
    size = SMALL_BYTES_MAX // ENTRY_BYTES + 1 if case == "large" else 1
    machine.ask({1: size}, is_run=case != "more than a run")
    machine.committer.start()
    assert machine.log.submitted == [(size, True)]
