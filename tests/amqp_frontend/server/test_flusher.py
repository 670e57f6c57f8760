"""The flusher: each once, soon, and one task for all."""

import trio

from arneb_amqp.server.flusher import Flusher


async def test_each_is_called_once_for_everything_a_turn_brings() -> None:
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
