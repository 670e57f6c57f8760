"""What has to be done in its order: at once what can be, and who waits for room is told of it."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from arneb_cluster import ordered as ordered_module
from arneb_cluster.applying import TidyUp
from arneb_cluster.ordered import Ordered
from arneb_cluster.protocol.leadership import Act
from arneb_cluster.protocol.node import Apply
from arneb_cluster.protocol.reader import Commit
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied


class Directory:
    """Of which the test says whether it has room to hold anything."""

    def __init__(self) -> None:
        self.has_room = False
        self.held: list[Apply] = []
        self.applied: list[Apply] = []

    def hold(self, effect: Apply) -> bool:
        if self.has_room:
            self.held.append(effect)
        return self.has_room

    async def apply(self, batch: Sequence[Apply]) -> None:
        self.applied += batch

    async def tidy_up(self, work: TidyUp) -> None:
        raise AssertionError(f"expected nothing to tidy up, got {work!r}")


async def nothing(act: Act) -> None:
    raise AssertionError(f"expected nothing to act on, got {act!r}")


@pytest.mark.parametrize("is_held", [False, True], ids=["applied", "held"])
async def test_who_waits_for_room_is_told_whoever_makes_it(
    monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    monkeypatch.setattr(ordered_module, "UNAPPLIED_MAX", 3)
    directory = Directory()
    ordered = Ordered(directory, nothing, lambda: None)  # type: ignore[arg-type]
    effects = [
        Apply(Commit(b"%d" % each, Applied("h", FOUNDATION, NOWHERE, FOUNDATION)), None)
        for each in range(4)
    ]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ordered.run)
        await trio.testing.wait_all_tasks_blocked()
        for each in effects:
            ordered.add(each)
        assert not ordered.has_room()
        waits = trio.Event()

        async def wait_for_room() -> None:
            await ordered.room()
            waits.set()

        nursery.start_soon(wait_for_room)
        await trio.testing.wait_all_tasks_blocked()
        ordered.go_on()
        if is_held:
            # The task is woken for nothing: a takeover has ended before it goes on.
            directory.has_room = True
            ordered.go_on()
        await trio.testing.wait_all_tasks_blocked()
        assert (directory.held, directory.applied) == ((effects, []) if is_held else ([], effects))
        assert waits.is_set()
        nursery.cancel_scope.cancel()
