"""Stopping: the first signal is obeyed, the second one kills, and time is limited."""

import signal
from collections.abc import AsyncIterator, Iterator
from threading import Event

import pytest
import trio

from arneb import run
from arneb.run import BROKEN_OFF, STOP_SIGNALS, STOP_WITHIN_S, sole_error


class OneSignal(AsyncIterator[int]):
    """SIGTERM, and nothing after it."""

    async def __anext__(self) -> int:
        await trio.lowlevel.checkpoint()
        return signal.SIGTERM


@pytest.fixture(autouse=True)
def same_handlers() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


async def test_the_first_signal_stops_and_the_second_is_left_to_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []
    monkeypatch.setattr(run, "_break_off_after", lambda seconds, say: limits.append(seconds))
    said: list[str] = []
    serving = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run._obey, OneSignal(), serving, said.append)
        with serving:
            await trio.sleep_forever()
    assert said == ["stopping on SIGTERM"]
    assert limits == [STOP_WITHIN_S]
    assert all(signal.getsignal(each) == signal.SIG_DFL for each in STOP_SIGNALS)


def test_a_stop_that_takes_too_long_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    over = Event()

    def end(status: int) -> None:
        ended.append(status)
        over.set()

    monkeypatch.setattr("os._exit", end)
    said: list[str] = []
    run._break_off_after(0.01, said.append)
    assert over.wait(10)
    assert ended == [BROKEN_OFF]
    assert said == ["did not stop within 0.01 s, ending the process"]


def test_the_one_error_of_nested_groups_is_found() -> None:
    error = KeyError("x")
    assert sole_error(ExceptionGroup("a", [ExceptionGroup("b", [error])])) is error
    several = ExceptionGroup("a", [error, ValueError("y")])
    assert sole_error(several) is several
