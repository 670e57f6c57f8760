"""Stopping: the first signal is obeyed, the second one and the clock break the stop off."""

import math
import signal
from typing import Self

import pytest
import trio

from arneb import run
from arneb.run import BROKEN_OFF, STOP_WITHIN_S, sole_error


class Ended(BaseException):
    """Stands for the end of the process."""


class Signals:
    """SIGTERM at each time, then silence."""

    def __init__(self, *times_s: float) -> None:
        self._times = [trio.current_time() + each for each in times_s]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> int:
        await trio.sleep_until(self._times.pop(0) if self._times else math.inf)
        return signal.SIGTERM


async def stop(stopping_s: float, *signals_s: float) -> tuple[list[str], float]:
    """Stop a broker that needs ``stopping_s`` for it; what was said and how long it took."""
    said: list[str] = []
    serving = trio.CancelScope()
    begin = trio.current_time()
    try:
        async with trio.open_nursery() as watch:
            watch.start_soon(run._obey, Signals(*signals_s), serving, said.append)
            with serving:
                await trio.sleep_forever()
            with trio.CancelScope(shield=True):
                await trio.sleep_until(trio.current_time() + stopping_s)
            watch.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        assert isinstance(sole_error(group), Ended)
        said.append("ended")
    return said, trio.current_time() - begin


@pytest.fixture(autouse=True)
def no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(status: int) -> None:
        assert status == BROKEN_OFF
        raise Ended

    monkeypatch.setattr("os._exit", end)


async def test_a_stop_in_time_is_left_alone() -> None:
    assert await stop(3.0, 10.0) == (["stopping on SIGTERM"], pytest.approx(13.0))


async def test_a_second_signal_breaks_the_stop_off() -> None:
    said, taken_s = await stop(3.0, 1.0, 2.0)
    assert said == ["stopping on SIGTERM", "ended at once on SIGTERM", "ended"]
    assert taken_s == pytest.approx(4.0)  # the fake process goes on until its stop is done


async def test_a_stop_that_takes_too_long_is_broken_off() -> None:
    said, _ = await stop(STOP_WITHIN_S + 1, 1.0)
    assert said[1] == f"the stop took longer than {STOP_WITHIN_S} s and was broken off"
    assert said[2] == "ended"


def test_the_one_error_of_nested_groups_is_found() -> None:
    error = KeyError("x")
    assert sole_error(ExceptionGroup("a", [ExceptionGroup("b", [error])])) is error
    several = ExceptionGroup("a", [error, ValueError("y")])
    assert sole_error(several) is several
