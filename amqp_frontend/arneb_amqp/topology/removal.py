"""Removal: what goes with a queue, an exchange or a binding, taken back if it cannot be kept.

The rule: the router changes first, because only it knows what else goes (bindings, and
auto-delete exchanges that lose their last one); the store follows; and if the store refuses,
the router gets everything back.
"""

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.router import Removed, Router
from arneb_amqp.topology.records import binding_key, exchange_key
from arneb_core.api.core import Unit

BINDINGS_PER_TURN: Final = 200
"""Bindings that are named, or put back, between two checkpoints: some 2 ms."""


@asynccontextmanager
async def removal(
    router: Router, vhost: str, steps: Generator[None, None, Removed]
) -> AsyncIterator[Unit]:
    """Take the router's ``steps``; a unit that forgets durably what they removed; the body adds to
    it and commits it.

    Must not be cancelled: a cancelled commit takes place all the same.
    """
    removed = await _taken(steps)
    unit = Unit()
    unit.metadata += [(exchange_key(vhost, each.name), None) for each in removed.exchanges]
    for number, binding in enumerate(removed.bindings, 1):
        unit.metadata.append((binding_key(vhost, binding), None))
        if number % BINDINGS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
    try:
        yield unit
    except Exception:
        await restore(router, removed)
        raise


async def restore(router: Router, removed: Removed) -> None:
    """Put back what a removal took out of the router."""
    for exchange in removed.exchanges:
        if exchange.name not in router.exchanges:  # else somebody has just made it again
            router.declare(exchange)
    for number, binding in enumerate(removed.bindings, 1):
        with suppress(AmqpError):  # an end of it went meanwhile
            router.bind(binding)
        if number % BINDINGS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()


async def _taken(steps: Generator[None, None, Removed]) -> Removed:
    """What comes of ``steps``, with a turn for others between two of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            removed: Removed = end.value
            return removed
        await trio.lowlevel.checkpoint()
