"""The threads hold nothing of what is done: a large commit or read must not stay in memory."""

import gc
import weakref
from pathlib import Path

import pytest
import trio

from arneb_core.engine.io_threads import Reader, Writer
from arneb_core.store.changes import Changes
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
        token = trio.lowlevel.current_trio_token()
        writer, reader = Writer(store, token), Reader(store, token)
        try:
            for submit in (
                lambda waiter: writer.submit(Changes(), waiter.take),
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
            writer.stop()
            reader.stop()
