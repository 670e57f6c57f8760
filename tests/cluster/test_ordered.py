"""Work that has to be done in order: at once if possible, and callers that wait for room are told
when there is some."""

from collections.abc import Callable, Sequence

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
    """A directory; the test says whether it has room to hold anything."""

    def __init__(self) -> None:
        self.has_room = False
        self.held: list[Apply] = []
        self.applied: list[Apply] = []
        self.done: list[Apply] = []
        self.may_apply = trio.Event()
        self.may_apply.set()

    def hold(self, effect: Apply) -> bool:
        if not self.has_room:
            return False
        self.held.append(effect)
        self.done.append(effect)
        if effect.ended is not None:
            effect.ended()
        return True

    async def apply(self, batch: Sequence[Apply]) -> None:
        await self.may_apply.wait()
        self.applied += batch
        self.done += batch

    async def tidy_up(self, work: TidyUp) -> None:
        raise AssertionError(f"expected nothing to tidy up, got {work!r}")


async def nothing(act: Act) -> None:
    raise AssertionError(f"expected nothing to act on, got {act!r}")


def effect(number: int, ended: Callable[[], None] | None = None) -> Apply:
    """A commit, and what follows when it is found."""
    return Apply(Commit(b"%d" % number, Applied("h", FOUNDATION, NOWHERE, FOUNDATION)), ended)


@pytest.mark.parametrize("is_held", [False, True], ids=["applied", "held"])
async def test_callers_that_wait_for_room_are_notified_whatever_makes_it(
    monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    monkeypatch.setattr(ordered_module, "UNAPPLIED_MAX", 3)
    directory = Directory()
    ordered = Ordered(directory, nothing, lambda: None)  # type: ignore[arg-type]
    effects = [effect(each) for each in range(4)]
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
        ordered.start_next()
        if is_held:
            # The task is woken for nothing: a takeover has ended before it continues.
            directory.has_room = True
            ordered.start_next()
        await trio.testing.wait_all_tasks_blocked()
        assert (directory.held, directory.applied) == ((effects, []) if is_held else ([], effects))
        assert waits.is_set()
        nursery.cancel_scope.cancel()


def test_a_confirmed_client_may_cause_the_next_commit_any_number_of_times() -> None:
    """A client writes its next message as soon as it hears of the last, without end. Each is held
    behind the last in the same turn, and none of them inside another."""
    directory, confirmed = Directory(), 0
    directory.has_room = True
    ordered = Ordered(directory, nothing, lambda: None)  # type: ignore[arg-type]
    effects: list[Apply] = []

    def write_next() -> None:
        nonlocal confirmed
        confirmed += 1
        if confirmed <= 5_000:
            effects.append(effect(confirmed, write_next))
            ordered.add(effects[-1])
            ordered.start_next()

    write_next()
    assert directory.held == effects
    assert len(effects) == 5_000


async def test_nothing_is_held_before_what_a_thread_applies_is_done() -> None:
    directory = Directory()
    ordered = Ordered(directory, nothing, lambda: None)  # type: ignore[arg-type]
    effects = [effect(each) for each in range(6)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ordered.run)
        directory.may_apply = trio.Event()
        ordered.add(effects[0])
        ordered.start_next()  # there is no room for it
        directory.has_room = True
        await trio.testing.wait_all_tasks_blocked()
        for each in effects[1:]:
            ordered.add(each)
            ordered.start_next()
        assert directory.done == []
        directory.may_apply.set()
        await trio.testing.wait_all_tasks_blocked()
        assert directory.done == effects
        nursery.cancel_scope.cancel()


async def test_what_cannot_be_held_stays_first() -> None:
    directory = Directory()
    ordered = Ordered(directory, nothing, lambda: None)  # type: ignore[arg-type]
    effects = [effect(each) for each in range(3)]
    for each in effects:
        ordered.add(each)
    ordered.start_next()  # tries the first
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ordered.run)
        await trio.testing.wait_all_tasks_blocked()
        assert directory.done == effects
        nursery.cancel_scope.cancel()


async def test_what_follows_an_action_is_held_once_the_action_is_done() -> None:
    """For example the end of leadership: what is written behind it belongs to another epoch."""
    directory = Directory()
    directory.has_room = True
    done: list[object] = []

    async def act(asked: Act) -> None:
        assert directory.done == effects[:1]
        done.append(asked)

    ordered = Ordered(directory, act, lambda: None)  # type: ignore[arg-type]
    effects = [effect(each) for each in range(2)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ordered.run)
        await trio.testing.wait_all_tasks_blocked()
        for each in (effects[0], Act.CLOSE, effects[1]):
            ordered.add(each)
        ordered.start_next()
        assert directory.done == effects[:1]
        await trio.testing.wait_all_tasks_blocked()
        assert directory.done == effects
        assert done == [Act.CLOSE]
        nursery.cancel_scope.cancel()
