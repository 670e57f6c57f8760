"""Removals: what is removed along with a queue, an exchange or a binding, planned beforehand.

The rule: nothing is changed here. Auto-delete exchanges go with their last binding, which may go
with another exchange; :class:`.Router` removes exactly what was planned if nothing changes in
between.
"""

from collections import Counter
from collections.abc import Generator, Iterable

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.routing.router import STEP_BINDINGS, Removed, Router

Plan = Generator[None, None, Removed]
"""Taken in steps of some 2 ms."""


def queue_removal(router: Router, name: str) -> Plan:
    """Plan what :meth:`.Router.removing_queue` removes."""
    return _plan(router, list(router.bindings_to(name, DestinationKind.QUEUE)))


def exchange_removal(router: Router, name: str) -> Plan:
    """Plan what :meth:`.Router.deleting` removes."""
    exchange = router.exchanges.get(name)
    if exchange is None:
        return _plan(router, ())
    to_it = list(router.bindings_to(name, DestinationKind.EXCHANGE))
    return _plan(router, [*router.bindings_from(name), *to_it], exchange)


def binding_removal(router: Router, binding: Binding) -> Plan:
    """Plan what :meth:`.Router.unbinding` removes."""
    return _plan(router, [binding] if binding in router.bindings_from(binding.source) else ())


def _plan(router: Router, bindings: Iterable[Binding], exchange: Exchange | None = None) -> Plan:
    going = {} if exchange is None else {exchange.name: exchange}
    removed = dict.fromkeys(bindings)
    waiting = list(removed)
    left: Counter[str] = Counter()
    for number, binding in enumerate(waiting, 1):  # the list grows meanwhile
        if number % STEP_BINDINGS == 0:
            yield
        source = router.exchange(binding.source)
        left[source.name] += 1
        is_last = left[source.name] == len(router.bindings_from(source.name))
        if not is_last or not source.auto_delete or source.name in going:
            continue
        going[source.name] = source
        for each in router.bindings_to(source.name, DestinationKind.EXCHANGE):
            if each not in removed:
                removed[each] = None
                waiting.append(each)
    return Removed(tuple(going.values()), tuple(removed))
