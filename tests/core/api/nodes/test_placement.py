"""How long to wait until some broker serves a namespace."""

from collections.abc import Callable

import pytest
import trio

from arneb_core.api.nodes.placement import (
    HERE,
    NOBODY,
    UNHEARD,
    UNHEARD_WAIT_S,
    Placement,
    placement_within,
)

WAIT_S = 8.0


class Said:
    """Placements that the test says."""

    def __init__(self, found: Placement) -> None:
        self.found = found
        self.listeners: list[Callable[[], None]] = []

    def say(self, found: Placement) -> None:
        self.found = found
        for each in list(self.listeners):
            each()

    def of(self, namespace: str) -> Placement:
        return self.found

    def listen(self, changed: Callable[[], None]) -> None:
        self.listeners.append(changed)

    def leave(self, changed: Callable[[], None]) -> None:
        self.listeners.remove(changed)


@pytest.mark.parametrize(
    ("announced", "found", "took_s"),
    [
        ({0.0: HERE}, HERE, 0.0),
        ({0.0: NOBODY}, NOBODY, WAIT_S),
        ({0.0: NOBODY, 7.5: HERE}, HERE, 7.5),
        ({0.0: UNHEARD}, UNHEARD, UNHEARD_WAIT_S),
        ({0.0: UNHEARD, 1.5: HERE}, HERE, 1.5),
        # It has heard that it leads no more: another will.
        ({0.0: UNHEARD, 1.5: NOBODY, 7.0: HERE}, HERE, 7.0),
        ({0.0: NOBODY, 1.5: UNHEARD}, UNHEARD, UNHEARD_WAIT_S),
        ({0.0: NOBODY, 5.0: UNHEARD}, UNHEARD, 5.0),
    ],
)
async def test_a_leader_that_is_not_heard_is_waited_for_less_than_a_next_one(
    announced: dict[float, Placement], found: Placement, took_s: float
) -> None:
    placements = Said(announced.pop(0.0))
    began = trio.current_time()

    async def play() -> None:
        for at, placement in announced.items():
            await trio.sleep_until(began + at)
            placements.say(placement)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(play)
        assert await placement_within(placements, "public/default", WAIT_S) == found
        assert trio.current_time() - began == pytest.approx(took_s)
        nursery.cancel_scope.cancel()
    assert not placements.listeners
