"""Removal: deletes a queue, an exchange or a binding, with dependents, durably.

The rule: first the removal is planned, then the store forgets it, then the router does. If the
store refuses, nothing has changed, and messages published meanwhile are routed as before.
"""

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Final

import trio

from arneb_amqp.routing.router import Removed
from arneb_amqp.topology.broker_events import BrokerEvents
from arneb_amqp.topology.records import binding_key, exchange_key
from arneb_core.api.core import Unit

BINDINGS_PER_TURN: Final = 200
"""Bindings handled between two checkpoints: some 2 ms."""


@asynccontextmanager
async def removal(
    vhost: str,
    plan: Generator[None, None, Removed],
    steps: Generator[None, None, Removed],
    events: BrokerEvents,
    *,
    with_queue: bool = False,
) -> AsyncIterator[Unit]:
    """Yield a unit that durably forgets what is in ``plan``; the body adds to it and commits it.
    Then the router's ``steps`` are taken, and ``events`` reports them.

    Must not be cancelled: a cancelled commit still takes place.
    """
    planned = await _taken(plan)
    unit = Unit()
    unit.metadata += [(exchange_key(vhost, each.name), None) for each in planned.exchanges]
    for number, binding in enumerate(planned.bindings, 1):
        unit.metadata.append((binding_key(vhost, binding), None))
        if number % BINDINGS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
    yield unit
    removed = await _taken(steps)
    events.removed(vhost, removed, with_queue=with_queue)


async def _taken(steps: Generator[None, None, Removed]) -> Removed:
    """Run ``steps``, with a turn for others between two of them, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            removed: Removed = end.value
            return removed
        await trio.lowlevel.checkpoint()
