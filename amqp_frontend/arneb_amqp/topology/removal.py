"""Removal: what goes with a queue, an exchange or a binding, taken back if it cannot be kept.

The rule: the router changes first, because only it knows what else goes (bindings, and
auto-delete exchanges that lose their last one); the store follows; and if the store refuses,
the router gets everything back.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arneb_amqp.routing.router import Removed, Router
from arneb_amqp.topology.records import binding_key, exchange_key
from arneb_core.interface import Unit


@asynccontextmanager
async def removal(router: Router, vhost: str, removed: Removed) -> AsyncIterator[Unit]:
    """A unit that forgets ``removed`` durably; the body adds to it and commits it.

    Must not be cancelled: a cancelled commit takes place all the same.
    """
    unit = Unit()
    unit.metadata += [(exchange_key(vhost, each.name), None) for each in removed.exchanges]
    unit.metadata += [(binding_key(vhost, each), None) for each in removed.bindings]
    try:
        yield unit
    except Exception:
        restore(router, removed)
        raise


def restore(router: Router, removed: Removed) -> None:
    """Put back what a removal took out of the router."""
    for exchange in removed.exchanges:
        router.declare(exchange)
    for binding in removed.bindings:
        router.bind(binding)
