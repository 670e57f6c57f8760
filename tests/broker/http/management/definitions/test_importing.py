"""Importing: large files are imported little by little, while others get their turns."""

from pathlib import Path
from typing import Any

import pytest
import trio
from tests.broker.http.management.kit import managed

from arneb_amqp.topology.queues.queues import Queues

TOGETHER = 40
"""Somewhat more than are declared at the same time."""


async def test_few_queues_are_declared_at_a_time_and_others_get_turns_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass of the loop gives one turn to each that is being declared, and everybody else waits
    for all of them."""
    count, at_once, most, turns = 300, 0, 0, 0
    declare = Queues.declare

    async def counted(queues: Queues, *given: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await declare(queues, *given)
        finally:
            at_once -= 1

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(Queues, "declare", counted)
    rows = [{"vhost": "/", "name": f"q{number}", "durable": True} for number in range(count)]
    async with managed(tmp_path) as call, trio.open_nursery() as nursery:
        nursery.start_soon(somebody_else)
        await call.does("POST", "definitions", {"queues": rows})
        nursery.cancel_scope.cancel()
        vhost = call.site.topology.vhost("/")
        assert vhost is not None and len(vhost.queues) == count
    assert 2 <= most <= TOGETHER
    assert turns > count / TOGETHER
