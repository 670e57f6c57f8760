"""Requests that wait are counted, with what they were asked with, however they end."""

import pytest
import trio

from arneb_pulsar.server import request_tasks
from arneb_pulsar.server.request_tasks import RequestTasks


async def test_what_waits_is_counted_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_tasks, "REQUESTS_MAX", 2)
    tasks, go = RequestTasks(), {"one": trio.Event(), "two": trio.Event()}
    finished: list[str] = []

    async def request(name: str) -> None:
        await go[name].wait()
        finished.append(name)

    async with trio.open_nursery() as nursery:
        tasks.nursery = nursery
        tasks.spawn(request, "one", 100)
        assert not tasks.is_full
        tasks.spawn(request, "two", 30)
        assert tasks.is_full
        assert tasks.pending_bytes == 130
        go["two"].set()
        await tasks.one_done()
        assert finished == ["two"]
        assert not tasks.is_full
        assert tasks.pending_bytes == 100
        go["one"].set()
    assert tasks.pending_bytes == 0


async def test_a_request_that_fails_counts_no_more() -> None:
    tasks = RequestTasks()

    async def fail(effect: object) -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        async with trio.open_nursery() as nursery:
            tasks.nursery = nursery
            tasks.spawn(fail, None, 50)
    assert tasks.pending_bytes == 0
