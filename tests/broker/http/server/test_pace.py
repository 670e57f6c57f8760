"""How much of a port's work begins in one pass: bounded, in order, and everybody gets a part."""

from collections import Counter
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from arneb.http.server.pace import LEFT_FOR_OTHERS, LONG_EVERY, UNITS, UNITS_A_PASS, Lane, Pace


class Passes(trio.abc.Instrument):
    """Counts passes of the loop."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


async def played(wanted: list[Lane], units: int) -> list[tuple[int, Lane]]:
    """The pass in which each of those that arrive at the same moment begins."""
    pace, passes, begun = Pace(units), Passes(), list[tuple[int, Lane]]()

    async def one(lane: Lane) -> None:
        await pace.begin(lane)
        begun.append((passes.number, lane))

    trio.lowlevel.add_instrument(passes)
    try:
        async with trio.open_nursery() as nursery:
            for lane in wanted:
                nursery.start_soon(one, lane)
    finally:
        trio.lowlevel.remove_instrument(passes)
    assert repr(pace).count(" 0 ") == len(Lane), "nobody may be left in any lane"
    return begun


@given(st.lists(st.sampled_from(Lane), max_size=150), st.integers(20, 80))
def test_everybody_begins_and_no_pass_does_more_than_its_part(
    wanted: list[Lane], units: int
) -> None:
    begun = trio.run(played, wanted, units)
    assert Counter(lane for _, lane in begun) == Counter(wanted)
    passes = Counter[int]()
    for number, lane in begun:
        passes[number] += UNITS[lane]
    # In the first pass, those that find room and those admitted from the queue may come together.
    assert all(each <= 2 * (units + 3) for each in passes.values())
    assert sum(passes.values()) <= (len(passes) + 1) * (units + 3)


@pytest.mark.parametrize("before", [Lane.NEW, Lane.KNOWN])
def test_clients_that_have_had_less_go_first_and_the_others_get_their_share_meanwhile(
    before: Lane,
) -> None:
    crowd = [Lane.PART] * 1000 + [before] * 200
    begun = trio.run(played, crowd, UNITS_A_PASS)
    last = max(number for number, lane in begun if lane is before)
    parts = [number for number, lane in begun if lane is Lane.PART and number <= last]
    assert len(set(parts)) >= last - begun[0][0] - 2, "some parts must be made in each pass"
    assert len(parts) * UNITS[Lane.PART] < 200 * UNITS[before], (
        "fewer parts than requests of the lanes before them"
    )
    assert len(begun) == 1200


def test_new_clients_overtake_known_ones() -> None:
    begun = trio.run(played, [Lane.KNOWN] * 200 + [Lane.NEW] * 50, UNITS_A_PASS)
    last_new = max(number for number, lane in begun if lane is Lane.NEW)
    earlier = sum(lane is Lane.KNOWN and number <= last_new for number, lane in begun)
    assert earlier < 100 and LEFT_FOR_OTHERS[Lane.NEW] > 0


def test_long_answers_continue_slowly_meanwhile() -> None:
    begun = trio.run(played, [Lane.NEW] * 400 + [Lane.LONG] * 20, UNITS_A_PASS)
    last_new = max(number for number, lane in begun if lane is Lane.NEW)
    meanwhile = [number for number, lane in begun if lane is Lane.LONG and 1 < number < last_new]
    assert 1 <= len(meanwhile) <= (last_new - begun[0][0]) / LONG_EVERY + 1


async def test_with_little_to_do_no_client_waits() -> None:
    pace = Pace()
    with trio.CancelScope() as scope:
        scope.cancel()  # a checkpoint would end it
        for _ in range(3):
            await pace.begin(Lane.NEW)
            await pace.begin(Lane.LONG)
    assert not scope.cancelled_caught


async def test_a_client_that_leaves_the_queue_is_not_waited_for() -> None:
    pace = Pace(units=4)
    begun = []

    async def one(number: int, scope: trio.CancelScope) -> None:
        with scope:
            await pace.begin(Lane.KNOWN)
            begun.append(number)

    async with trio.open_nursery() as nursery:
        scopes = [trio.CancelScope() for _ in range(5)]
        for number, scope in enumerate(scopes):
            nursery.start_soon(partial(one, number, scope))
        nursery.start_soon(trio.lowlevel.checkpoint)
        for scope in scopes[1:]:
            scope.cancel()
    await wait_all_tasks_blocked()
    assert 0 in begun and len(begun) <= 2, "one found room at once, and at most one waited"
    with trio.fail_after(5):
        await pace.begin(Lane.PART)
