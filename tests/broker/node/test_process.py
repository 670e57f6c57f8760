"""The process of a node: the first signal is obeyed, the second one kills, and stopping is limited
in time."""

import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
import trio
from tests.broker.node_kit import Signals, config_at

from arneb.node import process
from arneb.node.process import STOP_SIGNALS
from arneb.runtime.ending import BROKEN_OFF, STOP_WITHIN_S, break_off_after
from arneb_core.api.process.supervision import sole_error


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """After how many seconds the process would be ended."""
    found: list[float] = []
    monkeypatch.setattr(process, "break_off_after", lambda seconds, say: found.append(seconds))
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    yield found
    for each, handler in before.items():
        signal.signal(each, handler)


async def test_the_first_signal_stops_it_and_the_second_is_left_to_the_system(
    tmp_path: Path, limits: list[float]
) -> None:
    signals, lines = Signals(), list[str]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.run_watched, config_at(tmp_path), lines.append, signals)
        signals.send(signal.SIGTERM)
    assert lines[-2:] == ["stopping on SIGTERM", "stopped"]
    assert limits == [STOP_WITHIN_S]
    assert all(signal.getsignal(each) == signal.SIG_DFL for each in STOP_SIGNALS)
    assert not (tmp_path / "data" / "arneb.sock").exists()


def test_a_stop_that_takes_too_long_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    over = Event()

    def end(status: int) -> None:
        ended.append(status)
        over.set()

    monkeypatch.setattr("os._exit", end)
    lines: list[str] = []
    break_off_after(0.01, lines.append)
    assert over.wait(10)
    assert ended == [BROKEN_OFF]
    assert lines == ["did not stop within 0.01 s, ending the process"]


def test_the_single_error_of_nested_groups_is_found() -> None:
    error = KeyError("x")
    assert sole_error(ExceptionGroup("a", [ExceptionGroup("b", [error])])) is error
    several = ExceptionGroup("a", [error, ValueError("y")])
    assert sole_error(several) is several
