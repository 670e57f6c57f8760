"""The lease of one leadership, as frontends see it."""

import trio
import trio.testing

from arneb_cluster.serving_lease import ServingLease


class Clock:
    """Says whether a node serves."""

    def __init__(self) -> None:
        self.serves = True
        self.lease = ServingLease(lambda: self.serves)
        self.reports = 0
        self.lease.listen(self._tell)
        self.lease.look()

    def _tell(self) -> None:
        self.reports += 1


async def test_it_is_asked_each_time_and_reported_at_the_next_check() -> None:
    clock = Clock()
    assert (clock.lease.holds, clock.reports) == (True, 1)
    clock.serves = False
    assert (clock.lease.holds, clock.reports) == (False, 1)
    clock.lease.look()
    clock.lease.look()
    assert clock.reports == 2
    clock.serves = True
    clock.lease.look()
    assert (clock.lease.holds, clock.reports) == (True, 3)


async def test_waiting_tasks_continue_with_it_or_never() -> None:
    clock, found = Clock(), list[bool]()

    async def wait() -> None:
        found.append(await clock.lease.held())

    for ends in (False, True):
        clock.serves = False
        clock.lease.look()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            if ends:
                clock.lease.end()
            else:
                clock.serves = True
                clock.lease.look()
    assert found == [True, False]


async def test_it_is_never_held_again_once_it_has_ended_for_good() -> None:
    clock = Clock()
    clock.lease.end()
    clock.lease.end()
    assert (clock.lease.holds, await clock.lease.held(), clock.reports) == (False, False, 2)
    clock.lease.look()
    assert clock.reports == 2


async def test_a_task_that_finds_the_lease_ended_tells_the_others() -> None:
    """A connection may find out before the node's next check, and the alarm that blocks publishers
    must not miss it."""
    clock, found = Clock(), list[bool]()
    clock.serves = False

    async def wait() -> None:
        found.append(await clock.lease.held())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert clock.reports == 2
        clock.lease.look()
        assert clock.reports == 2
        clock.serves = True
        clock.lease.look()
    assert (found, clock.reports) == ([True], 3)


async def test_a_lease_that_came_back_between_two_checks_wakes_tasks_that_saw_it_end() -> None:
    clock, found = Clock(), list[bool]()
    clock.serves = False

    async def wait() -> None:
        found.append(await clock.lease.held())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        clock.serves = True
        clock.lease.look()
    assert found == [True]
