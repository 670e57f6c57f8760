"""The flusher: calls each flush once, soon, with one task for all connections."""

import weakref
from functools import partial
from itertools import pairwise

import trio

from arneb_amqp.server.transport.flusher import FLUSHES_PER_TURN, FLUSHES_PER_TURN_END, Flusher


async def test_each_is_called_once_for_everything_that_a_turn_adds() -> None:
    flusher, calls = Flusher(), []

    def first() -> None:
        calls.append("first")

    def second() -> None:
        calls.append("second")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        await trio.testing.wait_all_tasks_blocked()
        for flush in (first, second, first, first):
            flusher.add(flush)
        assert calls == []
        await trio.testing.wait_all_tasks_blocked()
        assert calls == ["first", "second"]
        flusher.add(second)
        await trio.testing.wait_all_tasks_blocked()
        assert calls == ["first", "second", "second"]
        nursery.cancel_scope.cancel()


async def test_what_is_added_while_it_works_is_called_too() -> None:
    flusher, calls = Flusher(), []

    def last() -> None:
        calls.append("last")

    def first() -> None:
        calls.append("first")
        flusher.add(last)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        flusher.add(first)
        await trio.testing.wait_all_tasks_blocked()
        assert calls == ["first", "last"]
        nursery.cancel_scope.cancel()


async def test_what_was_flushed_is_not_kept_alive_while_there_is_nothing_to_do() -> None:
    """Otherwise the last connection that wrote something would stay, with everything in flight on
    it."""

    class Connection:
        def flush(self) -> None:
            pass

    flusher = Flusher()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        connection = Connection()
        alive = weakref.ref(connection)
        flusher.add(connection.flush)
        del connection
        await trio.testing.wait_all_tasks_blocked()
        assert alive() is None
        nursery.cancel_scope.cancel()


async def test_others_get_turns_while_a_thousand_connections_write() -> None:
    flusher, written = Flusher(), list[int]()
    seen: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(1000):
            flusher.add(partial(written.append, number))
        while len(written) < 1000:
            await trio.lowlevel.checkpoint()
            seen.append(len(written))
        nursery.cancel_scope.cancel()
    assert written == list(range(1000))
    steps = [late - early for early, late in pairwise([0, *seen])]
    assert max(steps) <= 2 * FLUSHES_PER_TURN, "within a pass trio promises no order"


async def test_at_the_end_of_a_turn_a_few_added_flushes_are_called() -> None:
    flusher, written = Flusher(), list[int]()
    added = [partial(written.append, number) for number in range(2 * FLUSHES_PER_TURN_END)]
    flusher.add(added[0])
    for flush in added[:4]:
        flusher.add(flush)
    flusher.flush_few(1)
    assert written == [1, 2, 3] and flusher.count == 1
    flusher.flush_few(1)
    for flush in added[1 : 2 + FLUSHES_PER_TURN_END]:
        flusher.add(flush)
    flusher.flush_few(1)
    assert written == [1, 2, 3], "many flushes alone do not end a turn"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        await trio.testing.wait_all_tasks_blocked()
        assert written[3:] == list(range(2 + FLUSHES_PER_TURN_END))
        nursery.cancel_scope.cancel()
