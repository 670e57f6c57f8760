"""The turn watchdog: what it counts, what it names, and that it is off by default."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import cast

import pytest
import trio
from tests.broker.http.api.test_app import get

from arneb.http.api.app import ObservedCore, http_app
from arneb.http.server.server import serve_http
from arneb.listening.listeners import Listeners
from arneb.monitoring.turn_watchdog import (
    BOUNDS_MS,
    LONG_MS,
    PLACES_MAX,
    Histogram,
    TurnWatchdog,
    place_of,
)
from arneb.settings.config import Address, load_config


class SpentTime:
    """A clock that moves only when a test says that time was spent."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend_ms(self, ms: float) -> None:
        self.now += ms / 1000


@pytest.fixture
def clock() -> SpentTime:
    return SpentTime()


@pytest.fixture
def watchdog(clock: SpentTime) -> Iterator[TurnWatchdog]:
    found = TurnWatchdog(clock)
    yield found
    assert not any(getattr(each, "__self__", None) is found for each in gc.callbacks)


async def test_every_turn_of_every_task_is_counted(
    clock: SpentTime, watchdog: TurnWatchdog
) -> None:
    async def greedy() -> None:
        for ms in (1, 70, 20):
            clock.spend_ms(ms)
            await trio.lowlevel.checkpoint()

    with watchdog.watching():
        await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(greedy, name="greedy")
    assert watchdog.turns.worst_ms == pytest.approx(70)
    [worst, *rest] = watchdog.culprits
    assert (worst.task, worst.turns, worst.worst_ms) == ("greedy", 2, pytest.approx(70))
    assert not rest
    before = watchdog.turns.total
    await trio.lowlevel.checkpoint()
    assert watchdog.turns.total == before


async def test_a_pass_is_the_sum_of_its_turns(clock: SpentTime, watchdog: TurnWatchdog) -> None:
    async def busy() -> None:
        await trio.lowlevel.checkpoint()
        clock.spend_ms(4)
        await trio.lowlevel.checkpoint()

    with watchdog.watching():
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(busy)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
    assert watchdog.turns.worst_ms == pytest.approx(4)
    assert watchdog.passes.worst_ms == pytest.approx(40)


async def test_what_a_thread_passes_to_the_loop_is_a_turn_too(
    clock: SpentTime, watchdog: TurnWatchdog
) -> None:
    token, done = trio.lowlevel.current_trio_token(), trio.Event()

    def completion() -> None:
        clock.spend_ms(30)
        done.set()

    with watchdog.watching():
        await trio.lowlevel.checkpoint()
        token.run_sync_soon(completion)
        await done.wait()
        await trio.lowlevel.checkpoint()
    [culprit] = watchdog.culprits
    assert "run_sync_soon" in culprit.task
    assert culprit.worst_ms == pytest.approx(30)


@pytest.mark.real_time
async def test_a_long_turn_is_traced_to_its_place(clock: SpentTime, watchdog: TurnWatchdog) -> None:
    def spin_until_seen() -> None:
        while not watchdog._places:
            pass
        clock.spend_ms(LONG_MS)

    with watchdog.watching():
        await trio.lowlevel.checkpoint()
        spin_until_seen()
        await trio.lowlevel.checkpoint()
    [culprit] = watchdog.culprits
    assert "spin_until_seen" in culprit.place


async def test_a_turn_that_is_too_long_is_logged_at_most_once_a_second(
    clock: SpentTime, watchdog: TurnWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    with watchdog.watching():
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            clock.spend_ms(800)
        await trio.lowlevel.checkpoint()
    [line] = caplog.messages
    assert line.startswith("the event loop was blocked for 800 ms by ")


async def test_collections_are_counted_by_generation(
    clock: SpentTime, watchdog: TurnWatchdog
) -> None:
    with watchdog.watching():
        gc.collect(1)
        gc.collect(2)
    assert watchdog.collections[1].total >= 1
    assert watchdog.collections[2].total >= 1


def test_places_are_bounded(watchdog: TurnWatchdog) -> None:
    for number in range(2 * PLACES_MAX):
        watchdog._places.append(f"place {number}")
        watchdog._put_down("task", LONG_MS)
        watchdog._places.clear()
    assert len(watchdog.culprits) == PLACES_MAX + 1
    assert sum(each.turns for each in watchdog.culprits) == 2 * PLACES_MAX


def test_a_place_names_our_own_code_and_where_it_is() -> None:
    frame = sys._getframe()
    assert "test_a_place_names_our_own_code_and_where_it_is" in place_of(frame)

    def called_by_ours() -> FrameType:
        return sys._getframe()

    ours = eval("lambda f: f()", {"__name__": "arneb_core.engine.topics.topic"})
    assert place_of(ours(called_by_ours)).startswith(
        "arneb_core.engine.topics.topic:1 <lambda> in "
    )


def test_a_histogram_gives_percentiles() -> None:
    histogram = Histogram()
    assert histogram.quantile_ms(0.999) == 0
    for _ in range(999):
        histogram.add(1.0)
    histogram.add(5000.0)
    assert 1.0 <= histogram.quantile_ms(0.5) <= 1.5
    assert histogram.quantile_ms(0.999) <= 1.5
    assert histogram.quantile_ms(1.0) == 5000.0
    histogram.add(1e9)
    assert histogram.counts[len(BOUNDS_MS)] == 1
    assert histogram.quantile_ms(1.0) == 1e9


@pytest.mark.real_time
async def test_the_figures_are_shown_over_http(watchdog: TurnWatchdog) -> None:
    watchdog.turns.add(12.0)
    watchdog._put_down("task", 12.0)
    found = []
    for app in (
        http_app(cast(ObservedCore, None), watchdog=watchdog),
        http_app(cast(ObservedCore, None)),
    ):
        listeners = await Listeners.bind({"http": Address("127.0.0.1", 0)})
        [address] = listeners.addresses("http")
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, app, listeners.by_name["http"])
            found.append(await trio.to_thread.run_sync(get, f"http://{address}/api/turns"))
            nursery.cancel_scope.cancel()
    (status, _, body), (off, _, _) = found
    assert (status, off) == (200, 404)
    document = json.loads(body)
    assert document["turns"]["total"] == 1
    assert document["turns"]["worst_ms"] == 12.0
    assert sum(document["turns_by_bound"]) == 1
    assert [each["task"] for each in document["culprits"]] == ["task"]


def test_it_is_off_unless_the_file_or_the_command_asks_for_it(tmp_path: Path) -> None:
    assert not load_config(None).debug.turn_watchdog
    assert load_config(None, watch_turns=True).debug.turn_watchdog
    file = tmp_path / "arneb.toml"
    file.write_text("[debug]\nturn_watchdog = true\n")
    assert load_config(file).debug.turn_watchdog
