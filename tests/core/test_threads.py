"""The threads hold nothing of what is done: a large commit or read must not stay in memory."""

import gc
import weakref
from pathlib import Path

import pytest
import trio

from arneb_core.engine.io_threads import Reader, in_loop
from arneb_core.store.changes import Changes
from arneb_core.store.commit.local import LocalCommitLog
from arneb_core.store.environment import Store

pytestmark = pytest.mark.real_time


class Waiter:
    """Whoever asked, with a place for the answer."""

    def __init__(self) -> None:
        self.answered = trio.Event()

    def take(self, _: object) -> None:
        self.answered.set()


async def test_a_thread_that_waits_for_work_holds_none(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        call_soon = in_loop(trio.lowlevel.current_trio_token())
        log, reader = LocalCommitLog(store, call_soon), Reader(store, call_soon)
        try:
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
        finally:
            log.close()
            reader.stop()
