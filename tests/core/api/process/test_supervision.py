"""Supervision: an error ends one run of a background task and nothing else."""

import logging
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from arneb_core.api.process.supervision import (
    BACK_OFF_S_MAX,
    BACK_OFF_S_MIN,
    SOUND_S,
    BackOff,
    contain,
    shielded_nursery,
    supervise,
)
from arneb_core.testing.awaits import FaultyAwaits


class Failing:
    """A task that fails as often as it is told to, and keeps when it began."""

    def __init__(self, times: int, for_s: float = 0.0) -> None:
        self._times = times
        self._for_s = for_s
        self.began: list[float] = []

    async def run(self) -> None:
        self.began.append(trio.current_time())
        await trio.sleep_until(trio.current_time() + self._for_s)
        if len(self.began) <= self._times:
            raise KeyError(len(self.began))


async def test_a_task_that_fails_begins_again_and_waits_longer_each_time() -> None:
    task = Failing(12)
    await supervise("it", task.run)
    waits = [
        round(after - before, 6) for before, after in zip(task.began, task.began[1:], strict=False)
    ]
    assert len(waits) == 12
    assert waits[0] == pytest.approx(BACK_OFF_S_MIN)
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(BACK_OFF_S_MAX)


async def test_a_sound_run_makes_the_next_failure_a_first_one() -> None:
    task = Failing(8, for_s=SOUND_S)
    await supervise("it", task.run)
    waits = [
        round(after - before, 6) for before, after in zip(task.began, task.began[1:], strict=False)
    ]
    assert waits == pytest.approx([SOUND_S + BACK_OFF_S_MIN] * 8)


async def test_the_traceback_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    await supervise("the look at it", Failing(3).run)
    logged = [record for record in caplog.records if "the look at it" in record.message]
    assert len(logged) == 3
    assert [record.exc_info is not None for record in logged] == [True, False, False]
    assert all(record.levelno == logging.ERROR for record in logged)


async def test_a_cancelled_task_ends() -> None:
    with trio.move_on_after(1) as scope:
        await supervise("it", trio.sleep_forever)
    assert scope.cancelled_caught


async def test_what_is_contained_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    await contain("a visit", Failing(1).run)
    assert "error in a visit" in caplog.text


def test_a_back_off_ends_at_its_longest_and_begins_again_after_a_success() -> None:
    back_off = BackOff(1, 5)
    assert [back_off.failed() for _ in range(5)] == [1, 2, 4, 5, 5]
    back_off.succeeded()
    assert back_off.failed() == 1
    for _ in range(5_000):  # a week of failures
        assert back_off.failed() <= 5


async def test_the_kit_has_every_await_raise_once_and_undoes_what_it_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    awaits = FaultyAwaits()
    monkeypatch.setattr("arneb_core.api.process.supervision.attempt", awaits.attempt)
    monkeypatch.setattr("arneb_core.testing.awaits.OURS", "test_supervision")
    lock, steps = trio.Lock(), []

    async def work() -> None:
        steps.append("begin")
        await trio.sleep_until(trio.current_time() + 1)
        async with lock:
            steps.append("locked")
            await trio.sleep_until(trio.current_time() + 1)
        steps.append("done")

    step: Callable[[], Awaitable[object]] = work
    await lock.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervise, "work", step)
        await trio.sleep_until(
            trio.current_time() + 20
        )  # until it waits for the lock, which then fails once
        lock.release()
    assert steps == ["begin"] * 3 + ["locked", "begin", "locked", "done"]
    assert awaits.runs["work"] == 4
    assert len(awaits.failed) == 3
    assert not awaits.outstanding
    assert not lock.locked()


async def test_a_shielded_nursery_that_is_cancelled_before_it_begins_ends() -> None:
    """A signal comes while a store is opened in a thread, which cannot be broken off."""
    with trio.fail_after(1), trio.CancelScope() as scope:
        async with trio.open_nursery() as outer:
            scope.cancel()
            await outer.start(shielded_nursery)
    assert scope.cancelled_caught


async def test_a_shielded_nursery_outlives_its_opener() -> None:
    ended = trio.Event()

    async def serve() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with trio.open_nursery() as outer:
        nursery: trio.Nursery = await outer.start(shielded_nursery)
        nursery.start_soon(serve)
        outer.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            assert not ended.is_set()
            nursery.cancel_scope.cancel()
    assert ended.is_set()
