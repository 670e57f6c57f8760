"""Timers, tested with a mock clock: each is called when it is due, and not before."""

from dataclasses import dataclass, field

import trio

from arneb_amqp.server.transport.timers import GRACE_S, GRAIN_S, LATE_S, Timers


@dataclass(eq=False)
class Alarm:
    """Notes when it was called."""

    due: float
    every: float = float("inf")
    rang: list[float] = field(default_factory=list)

    def next_timer(self) -> float:
        return self.due

    def handle_timer(self, now: float) -> None:
        self.rang.append(now)
        self.due = now + self.every


async def run_for(timers: Timers, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await timers.run()


async def test_each_is_called_when_it_is_due() -> None:
    start = trio.current_time()
    timers = Timers()
    once, often = Alarm(start + 3), Alarm(start + 1, every=2)
    timers.add(once)
    timers.add(often)
    await run_for(timers, 6)
    assert [rung - start for rung in once.rang] == [3]
    assert [rung - start for rung in often.rang] == [1, 3, 5]


async def test_a_timer_that_was_postponed_is_not_called() -> None:
    start = trio.current_time()
    timers = Timers()
    alarm = Alarm(start + 1)
    timers.add(alarm)
    alarm.due = start + 4
    await run_for(timers, 3)
    assert alarm.rang == []
    await run_for(timers, 3)
    assert [rung - start for rung in alarm.rang] == [4]


async def test_a_timer_that_was_brought_forward_is_called_again_when_added_again() -> None:
    start = trio.current_time()
    timers = Timers()
    alarm = Alarm(start + 10)
    timers.add(alarm)
    alarm.due = start + 2
    timers.add(alarm)
    await run_for(timers, 20)
    assert [rung - start for rung in alarm.rang] == [2]


async def test_adding_while_it_sleeps_wakes_it() -> None:
    start = trio.current_time()
    timers = Timers()
    timers.add(Alarm(start + 100))
    early = Alarm(start + 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_for, timers, 5)
        await trio.testing.wait_all_tasks_blocked()
        timers.add(early)
    assert [rung - start for rung in early.rang] == [1]


async def test_a_removed_timer_is_never_called() -> None:
    timers = Timers()
    alarm = Alarm(trio.current_time() + 1)
    timers.add(alarm)
    timers.remove(alarm)
    timers.remove(alarm)
    await run_for(timers, 5)
    assert alarm.rang == []
    assert len(timers) == 0


async def test_a_timer_that_is_always_due_does_not_stop_the_others() -> None:
    start = trio.current_time()
    timers = Timers()
    stuck, other = Alarm(start, every=0), Alarm(start + 1)
    timers.add(stuck)
    timers.add(other)
    await run_for(timers, 2)
    assert other.rang
    assert len(stuck.rang) <= 2 / GRAIN_S + 2


async def test_after_the_process_was_suspended_clients_are_read_before_they_are_judged() -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    start = trio.current_time()
    timers = Timers()
    silent, heard = Alarm(start + 1), Alarm(start + 1)
    timers.add(silent)
    timers.add(heard)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_for, timers, 3 * LATE_S + GRACE_S + 1)
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(1 + 2 * LATE_S)
        await trio.testing.wait_all_tasks_blocked()
        assert silent.rang == []
        heard.due = trio.current_time() + 100
    assert [rung - start for rung in silent.rang] == [1 + 2 * LATE_S + GRACE_S]
    assert heard.rang == []


async def test_a_timer_added_long_after_it_was_due_delays_nobody() -> None:
    timers = Timers()
    old = Alarm(trio.current_time() - 10 * LATE_S)
    timers.add(old)
    await run_for(timers, GRACE_S / 2)
    assert len(old.rang) == 1
