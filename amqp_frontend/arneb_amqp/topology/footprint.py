"""Footprints: the parts of a vhost that a change touches, so that others can change the rest
meanwhile.

The rule: a change to a queue, or to what leads to it, locks the queue alone; all who bind to an
exchange share it as a source. A change that may affect more than it names (an exchange with its
bindings, an auto-delete exchange with its last binding) locks everything.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from arneb_amqp.routing.exchange import DestinationKind
from arneb_amqp.routing.router import Router

BINDINGS_MAX: Final = 200
"""Bindings of a queue that is removed beside other changes; with more, removal takes steps and
locks everything."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a change locks alone, and what it shares."""

    alone: tuple[Hashable, ...] = ()
    shared: tuple[Hashable, ...] = ()


def of_queue(vhost: str, name: str) -> Footprint:
    """Return the footprint of a queue; a server-generated name conflicts with nothing."""
    return Footprint((("queue", vhost, name),) if name else ())


def of_removal(vhost: str, router: Router, name: str) -> Footprint | None:
    """Return the footprint of removing a queue, if only its bindings go with it."""
    bindings = router.bindings_to(name, DestinationKind.QUEUE)
    if len(bindings) > BINDINGS_MAX:
        return None
    if any(router.exchange(each.source).auto_delete for each in bindings):
        return None
    return of_queue(vhost, name)


def of_exchange(vhost: str, name: str) -> Footprint:
    """Return the footprint of a new exchange."""
    return Footprint((("exchange", vhost, name),))


def of_binding(
    vhost: str, router: Router, source: str, kind: DestinationKind, destination: str, *, goes: bool
) -> Footprint | None:
    """Return the footprint of a binding that comes or ``goes``."""
    exchange = router.exchanges.get(source)
    if goes and exchange is not None and exchange.auto_delete:
        return None
    what = "queue" if kind is DestinationKind.QUEUE else "exchange"
    end, beginning = (what, vhost, destination), ("exchange", vhost, source)
    return Footprint((end,), () if end == beginning else (beginning,))
