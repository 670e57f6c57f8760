"""Turns of the topology: objects with thousands of bindings are deleted in steps, or restored
whole."""

from collections.abc import Awaitable
from functools import partial

import pytest
import trio
from tests.amqp_frontend.topology.conftest import Opener, RunningVhost
from tests.counting import calls_of

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.routing.router import STEP_BINDINGS, Router, finished
from arneb_core.api.errors import CommitFailed

TYPES = ("direct", "fanout", "topic", "headers", "x-consistent-hash")


def router_with(count: int, kind: str = "direct") -> Router:
    """One exchange with ``count`` bindings, to ten queues."""
    router = Router()
    router.declare(Exchange("x", kind))
    for at in range(10):
        router.add_queue(f"q{at}")
    for at in range(count):
        router.bind(Binding("x", f"q{at % 10}", str(at + 1)))
    return router


def test_an_exchange_is_deleted_in_steps_whatever_its_type() -> None:
    for kind in TYPES:
        router = router_with(5_000, kind)
        steps = router.deleting("x")
        work = [calls_of(partial(next, steps, None)) for _ in range(5_000 // STEP_BINDINGS + 1)]
        assert not router.bindings_to("q0", DestinationKind.QUEUE)
        assert max(work) < STEP_BINDINGS * 12


def test_an_exchange_that_is_being_deleted_routes_nothing() -> None:
    router = router_with(5_000)
    router.declare(Exchange("front", "fanout"))
    router.bind(Binding("front", "x", kind=DestinationKind.EXCHANGE))
    assert router.route("front", "7").queues == ("q6",)
    steps = router.deleting("x")
    next(steps)
    assert "x" not in router.exchanges
    assert router.route("front", "7").queues == ()
    removed = finished(steps)
    assert [each.name for each in removed.exchanges] == ["x"]
    assert len(removed.bindings) == 5_001
    assert not router.bindings_to("q0", DestinationKind.QUEUE)
    assert not router.bindings_from("front")


def test_a_queue_is_deleted_in_steps_with_the_exchanges_that_lose_their_last_binding() -> None:
    router = router_with(5_000)
    router.declare(Exchange("once", "direct", auto_delete=True))
    router.bind(Binding("once", "q3"))
    steps = router.removing_queue("q3")
    next(steps)
    assert router.route("", "q3").queues == ()
    removed = finished(steps)
    assert [each.name for each in removed.exchanges] == ["once"]
    assert len(removed.bindings) == 501
    assert router.route("x", "4").queues == ()
    assert router.route("x", "5").queues == ("q4",)


class Steps(trio.abc.Instrument):
    """Counts the turns of the task that creates it."""

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self._task


async def turns_of(work: Awaitable[object]) -> int:
    """In how many turns ``work`` is done, including what it waits for."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    try:
        await work
    finally:
        trio.lowlevel.remove_instrument(steps)
    return steps.count


async def bound(place: RunningVhost, count: int) -> None:
    """The exchange ``x``, not durable, with so many bindings to ``q``."""
    await place.declare("q")
    async with place.topology.changing():
        await place.vhost.exchanges.declare(Exchange("x", "x-consistent-hash", durable=True))
    for at in range(count):
        place.vhost.router.bind(Binding("x", "q", str(at + 1)))


@pytest.mark.real_time
async def test_others_get_turns_while_an_exchange_or_a_queue_is_deleted(broker: Opener) -> None:
    async with broker() as place:
        topology, vhost = place.topology, place.vhost

        async def delete_exchange() -> None:
            async with topology.changing():
                await vhost.exchanges.delete("x", if_unused=False)

        async def delete_queue() -> None:
            async with topology.changing():
                await vhost.queues.delete(await vhost.queues.find("q"))

        for delete in (delete_exchange, delete_queue):
            await bound(place, 4_000)
            turns = await turns_of(delete())
            assert turns >= 2 * 4_000 // STEP_BINDINGS - 2
            assert not vhost.router.bindings_to("q", DestinationKind.QUEUE)


@pytest.mark.real_time
async def test_an_exchange_whose_deletion_fails_has_all_its_bindings(broker: Opener) -> None:
    async with broker() as place:
        await bound(place, 1_000)
        place.faults.fail_next()
        async with place.topology.changing():
            with pytest.raises(CommitFailed):
                await place.vhost.exchanges.delete("x", if_unused=False)
        assert len(place.vhost.router.bindings_from("x")) == 1_000
        assert place.vhost.router.route("x", "any").queues == ("q",)
