"""Long turns: as many in each pass as keep it short, in the order of the requests."""

from collections import Counter

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.process.long_turns import (
    LONG_TURNS_MAX,
    LONG_TURNS_MIN,
    PASS_S,
    SHORT_READS_BYTES,
    WAKING_BYTES,
    LongTurns,
)

LONG_S = 1.01 * PASS_S / LONG_TURNS_MIN
"""A turn of which no more than the fewest fit into a pass."""


class Passes(trio.abc.Instrument):
    """Counts the passes of the loop."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


class Work:
    """A clock that goes on only while somebody has a turn."""

    def __init__(self, turn_s: float) -> None:
        self.turn_s = turn_s
        self.now = 0.0

    def seconds(self) -> float:
        return self.now


async def busy(
    turns: LongTurns, count: int, name: int, passes: Passes, work: Work,
    log: list[tuple[int, int]],
) -> None:  # fmt: skip
    await turns.begin()
    work.now += work.turn_s
    log.append((passes.number, name))
    for _ in range(count - 1):
        await turns.next()
        work.now += work.turn_s
        log.append((passes.number, name))


def play(
    counts: list[int], bystander_turns: int = 0, turn_s: float = LONG_S
) -> tuple[list[tuple[int, int]], list[int]]:
    """When who had a turn, and in which passes somebody who does not ask was served."""
    passes, log, served = Passes(), [], []
    work = Work(turn_s)

    async def bystander() -> None:
        for _ in range(bystander_turns):
            await trio.lowlevel.checkpoint()
            served.append(passes.number)

    async def main() -> None:
        turns = LongTurns(work.seconds)
        async with trio.open_nursery() as outer:
            outer.start_soon(turns.run)
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                for name, count in enumerate(counts):
                    nursery.start_soon(busy, turns, count, name, passes, work, log)
                nursery.start_soon(bystander)
            outer.cancel_scope.cancel()

    trio.run(main, instruments=[passes])
    return log, served


@settings(max_examples=50)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=60))
def test_only_so_many_begin_in_a_pass_and_all_are_served(counts: list[int]) -> None:
    log, _ = play(counts)
    assert Counter(name for _, name in log) == dict(enumerate(counts))
    assert max(Counter(number for number, _ in log).values()) <= 2 * LONG_TURNS_MIN


def test_a_thousand_busy_ones_share_the_passes_in_their_order() -> None:
    log, served = play([3] * 1000, bystander_turns=400)
    passes = Counter(number for number, _ in log)
    assert max(passes.values()) <= 2 * LONG_TURNS_MIN
    assert len(passes) <= 3000 / LONG_TURNS_MIN + 10, "a pass was wasted"
    assert len(log) == 3000
    # Inside a pass trio's order is none.
    first_round = {name for _, name in log[: 1000 + 2 * LONG_TURNS_MIN]}
    assert len(first_round) == 1000, "nobody gets a second turn before everybody has had one"
    assert len(set(served)) == 400, "short turns must be served in every pass"


def test_more_begin_in_a_pass_while_passes_are_short() -> None:
    log, _ = play([10] * 100, turn_s=PASS_S / 1000)
    passes = Counter(number for number, _ in log)
    assert LONG_TURNS_MAX <= max(passes.values()) <= 2 * LONG_TURNS_MAX
    assert len(passes) <= 1000 / LONG_TURNS_MAX + 10


def test_fewer_begin_in_the_next_pass_when_turns_become_long() -> None:
    passes, work = Passes(), Work(PASS_S / 1000)
    log: list[tuple[int, int]] = []

    async def main() -> None:
        turns = LongTurns(work.seconds)
        async with trio.open_nursery() as outer:
            outer.start_soon(turns.run)
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                for name in range(100):
                    nursery.start_soon(busy, turns, 20, name, passes, work, log)
                while len(log) < 1000:
                    await trio.lowlevel.checkpoint()
                work.turn_s = LONG_S
            outer.cancel_scope.cancel()

    trio.run(main, instruments=[passes])
    each = Counter(number for number, _ in log if number)
    counts = [each[number] for number in sorted(each)]
    assert max(counts) >= LONG_TURNS_MAX
    assert max(counts[-10:]) <= 2 * LONG_TURNS_MIN


def test_a_lone_task_never_waits() -> None:
    log, _ = play([100])
    numbers = [number for number, _ in log]
    assert numbers == list(range(numbers[0], numbers[0] + 100))


async def test_a_cancelled_task_waits_no_more_and_takes_no_turn() -> None:
    turns, had = LongTurns(Work(0.0).seconds), []

    async def ask(name: int) -> None:
        await turns.begin()
        had.append(name)

    async with trio.open_nursery() as outer:
        outer.start_soon(turns.run)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for name in range(5 * LONG_TURNS_MIN):
                nursery.start_soon(ask, name)
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert len(had) <= 2 * LONG_TURNS_MIN
        await ask(-1)
        outer.cancel_scope.cancel()
    assert had[-1] == -1


async def test_without_passes_no_turn_waits() -> None:
    turns = LongTurns()
    for _ in range(10 * LONG_TURNS_MAX):
        await turns.begin()


def play_short(sizes: list[int], rounds: int) -> list[tuple[int, int]]:
    """In which pass who handled a short read: each has ``rounds`` of them, as fast as it can."""
    passes, log = Passes(), list[tuple[int, int]]()

    async def reads(turns: LongTurns, name: int, size: int) -> None:
        for _ in range(rounds):
            turns.short_left -= size + WAKING_BYTES
            if turns.short_left <= turns.SHORT_LOW:
                await turns.begin_short(size)
            log.append((passes.number, name))
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        turns = LongTurns()
        async with trio.open_nursery() as outer:
            outer.start_soon(turns.run)
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                for name, size in enumerate(sizes):
                    nursery.start_soon(reads, turns, name, size)
            outer.cancel_scope.cancel()

    trio.run(main, instruments=[passes])
    return log


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4096), min_size=1, max_size=400), st.integers(1, 3))
def test_short_reads_of_one_pass_have_a_bound_and_all_are_handled(
    sizes: list[int], rounds: int
) -> None:
    log = play_short(sizes, rounds)
    assert Counter(name for _, name in log) == dict.fromkeys(range(len(sizes)), rounds)
    bytes_of = Counter[int]()
    for number, name in log:
        bytes_of[number] += sizes[name] + WAKING_BYTES
    assert max(bytes_of.values()) <= 2 * (SHORT_READS_BYTES + 4096 + WAKING_BYTES)


def test_a_thousand_with_little_to_say_are_served_in_turn() -> None:
    log = play_short([100] * 1000, 3)
    each = SHORT_READS_BYTES // (100 + WAKING_BYTES) + 1
    assert max(Counter(number for number, _ in log).values()) <= 2 * each
    first_round = {name for _, name in log[: 1000 + 2 * each]}
    assert len(first_round) == 1000, "nobody is served twice before everybody was served once"


def test_a_few_with_little_to_say_are_served_in_every_pass() -> None:
    log = play_short([100] * 50, 20)
    passes = sorted({number for number, _ in log})
    assert all(count == 50 for count in Counter(number for number, _ in log).values())
    assert passes == list(range(passes[0], passes[0] + 20))
