"""Footprints: what of a vhost a change touches, so that others can change the rest meanwhile.

The rule: whoever changes a queue, or what leads to it, has the queue alone; a binding's source is
shared by all who bind to it. What may take along more than it names (an exchange with its
bindings, one that goes with its last binding) has everything alone.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from arneb_amqp.routing.exchange import DestinationKind
from arneb_amqp.routing.router import Router

BINDINGS_MAX: Final = 200
"""Of a queue that is changed beside others; more are removed in steps, and those alone."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a change has for itself, and what it shares."""

    alone: tuple[Hashable, ...] = ()
    shared: tuple[Hashable, ...] = ()


def of_queue(vhost: str, name: str) -> Footprint:
    """A queue; a name that the server gives is nobody else's."""
    return Footprint((("queue", vhost, name),) if name else ())


def of_removal(vhost: str, router: Router, name: str) -> Footprint | None:
    """A queue that goes, if nothing but its bindings goes with it."""
    bindings = router.bindings_to(name, DestinationKind.QUEUE)
    if len(bindings) > BINDINGS_MAX:
        return None
    if any(router.exchange(each.source).auto_delete for each in bindings):
        return None
    return of_queue(vhost, name)


def of_exchange(vhost: str, name: str) -> Footprint:
    """An exchange that comes."""
    return Footprint((("exchange", vhost, name),))


def of_binding(
    vhost: str, router: Router, source: str, kind: DestinationKind, destination: str, *, goes: bool
) -> Footprint | None:
    """A binding that comes or ``goes``."""
    exchange = router.exchanges.get(source)
    if goes and exchange is not None and exchange.auto_delete:
        return None
    what = "queue" if kind is DestinationKind.QUEUE else "exchange"
    end, beginning = (what, vhost, destination), ("exchange", vhost, source)
    return Footprint((end,), () if end == beginning else (beginning,))
