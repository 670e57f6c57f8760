"""The threads: what they have called in the loop, and that they hold nothing of what is done (a
large commit or read must not stay in memory)."""

import gc
import os
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread, current_thread, main_thread

import pytest
import trio
import trio.testing

from arneb_core.api.entries.position import Position, position_at
from arneb_core.engine.threads import reader as reader_module
from arneb_core.engine.threads.loop_calls import LoopCalls
from arneb_core.engine.threads.reader import Reader, runs_of
from arneb_core.store.commit.local import LocalCommitLog
from arneb_core.store.environment import Store
from arneb_core.store.format.block import BlockCorrupt, encode_block
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.stored_blocks import StoredBlock

pytestmark = pytest.mark.real_time


class Waiter:
    """Whoever asked, with a place for the answer."""

    def __init__(self) -> None:
        self.answered = trio.Event()

    def take(self, _: object) -> None:
        self.answered.set()


@asynccontextmanager
async def calling(calls: LoopCalls) -> AsyncIterator[None]:
    """Have calls made, until the block ends."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(calls.run)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()
    calls.close()


async def test_a_thread_that_waits_for_work_holds_none(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        calls = LoopCalls()
        log, reader = LocalCommitLog(store, calls), Reader(store, calls)
        async with calling(calls):
            for submit in (
                lambda waiter: log.submit(Changes(), waiter.take),
                lambda waiter: reader.ask("nothing", lambda snapshot: None, waiter.take),
            ):
                waiter = Waiter()
                submit(waiter)
                await waiter.answered.wait()
                alive = weakref.ref(waiter)
                del waiter
                with trio.fail_after(5):
                    while alive() is not None:  # the thread is on its way to wait again
                        gc.collect()
                        await trio.lowlevel.checkpoint()
            log.close()
            reader.stop()


async def test_the_calls_of_each_thread_are_made_in_their_order() -> None:
    calls, made, all_made = LoopCalls(), [], trio.Event()

    def note(thread: int, number: int) -> None:
        made.append((thread, number))
        if len(made) == 4 * 500:
            all_made.set()

    def ask(thread: int) -> None:
        for number in range(500):
            calls(note, thread, number)

    threads = [Thread(target=ask, args=(thread,)) for thread in range(4)]
    async with calling(calls):
        for each in threads:
            each.start()
        await all_made.wait()
        for each in threads:
            each.join()
    for thread in range(4):
        assert [number for by, number in made if by == thread] == list(range(500))


async def test_many_calls_ring_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rings = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: rings.append(fd) or write(fd, data))
    calls, made = LoopCalls(), []
    async with calling(calls):
        for first in (0, 100):
            for number in range(first, first + 100):
                calls(made.append, number)
            assert made == list(range(first)), "answers must not come before the call has returned"
            await trio.testing.wait_all_tasks_blocked()
    assert made == list(range(200))
    assert len(rings) == 2


class Passes(trio.abc.Instrument):
    """Counts the passes of the loop."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


@pytest.mark.parametrize("waits", [True, False])
async def test_calls_go_to_the_thread_with_less_to_do(*, waits: bool) -> None:
    """Who is ready in the same pass has its turn in that."""
    calls, passes, seen = LoopCalls(), Passes(), list[int]()

    def waits_for_others() -> bool:
        seen.append(passes.number)
        return waits

    calls.waits_for_others = waits_for_others
    trio.lowlevel.add_instrument(passes)
    async with calling(calls):
        await trio.testing.wait_all_tasks_blocked()
        calls(lambda: seen.append(passes.number))
        await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(passes)
    asked, made = seen
    assert made - asked == waits


async def test_a_call_that_fails_costs_no_other() -> None:
    calls, made = LoopCalls(), []
    calls(lambda: 1 // 0)
    calls(made.append, 1)
    with pytest.raises(ZeroDivisionError):
        await calls.run()
    assert made == []
    async with calling(calls):  # as a supervised task is begun again
        await trio.testing.wait_all_tasks_blocked()
        assert made == [1]


def test_after_the_end_nothing_is_written_to_what_may_be_another_file() -> None:
    calls = LoopCalls()
    calls.close()
    reader, writer = os.pipe()  # which get the numbers that have become free
    try:
        calls(print, "never")
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)


def block(first: int, count: int) -> StoredBlock:
    """A block of ledger 1, whose entries say where they stand."""
    entries = [b"entry %d" % number for number in range(first, first + count)]
    value = bytes(encode_block(position_at(1, first), entries))
    return StoredBlock(position_at(1, first + count - 1), value)


def damaged(good: StoredBlock) -> StoredBlock:
    return StoredBlock(good.last, good.value[:-1] + b"?")


def test_runs_are_what_was_asked_for() -> None:
    runs = runs_of([block(0, 3), block(3, 3)], position_at(1, 1), position_at(1, 4))
    assert runs == [
        (position_at(1, 1), [b"entry 1", b"entry 2"]),
        (position_at(1, 3), [b"entry 3", b"entry 4"]),
    ]


def test_what_stands_before_a_damaged_block_can_be_had() -> None:
    whole, bad = block(0, 3), damaged(block(3, 3))
    both = runs_of([whole, bad, block(6, 3)], position_at(1, 0), position_at(1, 8))
    assert [position for position, _ in both] == [position_at(1, 0)]
    with pytest.raises(BlockCorrupt):
        runs_of([bad, block(6, 3)], position_at(1, 3), position_at(1, 8))


def test_one_read_at_a_time_is_made_in_the_loop_and_several_are_not(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One costs the loop no more than it saves; the loop's turns do not grow with what waits."""
    makers: list[Thread] = []

    def noted(blocks: list[StoredBlock], first: Position, last: Position) -> object:
        makers.append(current_thread())
        return runs_of(blocks, first, last)

    monkeypatch.setattr(reader_module, "runs_of", noted)
    calls: SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = SimpleQueue()
    with Store.open(data_dir) as store:
        reader = Reader(store, lambda function, *args: calls.put((function, args)))
        found: list[object] = []

        def answer(count: int) -> None:
            # None is answered before all are read, or fewer would be asked for at the last.
            for function, args in [calls.get(timeout=5) for _ in range(count)]:
                function(*args)

        def read() -> None:
            reader.read(TopicId(1), position_at(1, 0), position_at(1, 8), 1000, found.append)

        read()
        answer(1)
        go_on = Event()
        reader.ask("a long one", lambda snapshot: go_on.wait(5), found.append)
        read()
        read()
        go_on.set()
        answer(3)
        read()
        answer(1)
        reader.stop()
    assert found == [[], True, [], [], []]
    assert [each is main_thread() for each in makers] == [True, False, False, True]
    assert (reader.requests_open, reader.reads_total, reader.entries_total) == (0, 4, 0)


def test_what_cannot_be_made_in_the_loop_is_an_answer(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(blocks: list[StoredBlock], first: Position, last: Position) -> object:
        raise BlockCorrupt("expected this, got that")

    monkeypatch.setattr(reader_module, "runs_of", fails)
    calls: SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = SimpleQueue()
    with Store.open(data_dir) as store:
        reader = Reader(store, lambda function, *args: calls.put((function, args)))
        found: list[object] = []
        reader.read(TopicId(1), position_at(1, 0), position_at(1, 8), 1000, found.append)
        function, args = calls.get(timeout=5)
        function(*args)
        reader.stop()
    assert str(found[0]) == "cannot read topic 1 from 1:0 on: expected this, got that"
    assert reader.requests_open == 0
