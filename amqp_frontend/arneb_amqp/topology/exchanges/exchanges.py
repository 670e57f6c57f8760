"""The exchanges and bindings of one vhost, and the records of durable ones.

The rule: the router checks and holds them; this module adds what else RabbitMQ forbids, and stores
what must outlive the broker. The caller holds the topology's lock.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from arneb_amqp.errors import (
    exchange_in_words,
    precondition_failed,
)
from arneb_amqp.routing.checks import refuse_default, refuse_long, refuse_reserved, refuse_system
from arneb_amqp.routing.exchange import (
    ALTERNATE_EXCHANGE,
    Binding,
    DestinationKind,
    Exchange,
)
from arneb_amqp.routing.removals import Plan, binding_removal, exchange_removal
from arneb_amqp.routing.router import Removed, Router
from arneb_amqp.topology.arguments import (
    assert_equivalent,
    check_exchange_name_argument,
    inequivalent,
)
from arneb_amqp.topology.broker_events import SILENT, BrokerEvents
from arneb_amqp.topology.exchanges.delayed import DelayedExchanges
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.topology.records import (
    binding_key,
    encode_binding,
    encode_exchange,
    exchange_key,
)
from arneb_amqp.topology.removal import removal
from arneb_amqp.wire.erlang import render_atom, render_value
from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import CoreError


@dataclass(slots=True, eq=False)
class Exchanges:
    """The exchanges and bindings of one vhost."""

    vhost: str
    _core: Core
    _router: Router
    _queues: Queues
    _delayed_exchanges: DelayedExchanges
    _events: BrokerEvents = SILENT

    def __repr__(self) -> str:
        return f"<Exchanges of {self.vhost}, {len(self._router.exchanges)}>"

    def find(self, name: str) -> Exchange:
        """Return the exchange of that name, for a passive declaration. Raises 403 and 404."""
        refuse_default(name)
        return self._router.exchange(name)

    async def declare(self, wanted: Exchange) -> None:
        """Make the exchange if it does not exist; if durable, it is stored when this returns.
        Raises RabbitMQ's errors for one that differs or is invalid."""
        self._router.check_type(wanted.type)
        refuse_default(wanted.name)
        current = self._router.exchanges.get(wanted.name)
        if current is not None:
            self._check_equivalent(current, wanted)
            return
        refuse_long("exchange", wanted.name)
        refuse_reserved("exchange", wanted.name)
        words = exchange_in_words(wanted.name, self.vhost)
        check_exchange_name_argument(wanted.arguments, ALTERNATE_EXCHANGE, words)
        self._router.declare(wanted)
        self.apply_policies([wanted])
        unit = None
        if wanted.durable:
            key = exchange_key(self.vhost, wanted.name)
            unit = Unit(metadata=[(key, encode_exchange(self.vhost, wanted))])
        try:
            delayed = await self._delayed_exchanges.make(wanted, unit)
            if delayed is not None:
                delayed.begin()
            elif unit is not None:
                await self._core.committed(unit)
        except CoreError:
            self._router.delete(wanted.name)
            raise
        self._events.exchange_created(self.vhost, wanted)

    def apply_policies(self, exchanges: Iterable[Exchange]) -> None:
        """Apply the current policies to these exchanges."""
        for each in exchanges:
            applied = self._queues.policies.for_exchange(each.name)
            self._router.give_alternate(each.name, applied.definition.get(ALTERNATE_EXCHANGE))

    async def delete(self, name: str, *, if_unused: bool) -> None:
        """Remove the exchange with its bindings, if it exists."""
        refuse_system(name, self.vhost)
        if if_unused and self._router.bindings_from(name):
            raise precondition_failed(f"{exchange_in_words(name, self.vhost)} in use")
        await self._remove(exchange_removal(self._router, name), self._router.deleting(name))
        await self._delayed_exchanges.maintain()

    async def bind(self, binding: Binding, owner: ConnectionId) -> None:
        """Add the binding, durably if both its ends are durable."""
        self._refuse_default_ends(binding)
        durable = await self._check_ends(binding, owner)
        if not self._router.bind(binding):
            return
        if durable:
            row = binding_key(self.vhost, binding), encode_binding(self.vhost, binding)
            try:
                await self._core.committed(Unit(metadata=[row]))
            except CoreError:
                self._router.take_back(binding)
                raise
        self._events.bound(self.vhost, binding)

    async def unbind(self, binding: Binding, owner: ConnectionId) -> None:
        """Remove the binding, if it exists."""
        self._refuse_default_ends(binding)
        if binding not in self._router.bindings_from(binding.source):
            return
        if binding.kind is DestinationKind.QUEUE:
            await self._queues.access(binding.destination, owner)
        await self._remove(binding_removal(self._router, binding), self._router.unbinding(binding))

    async def _check_ends(self, binding: Binding, owner: ConnectionId) -> bool:
        """Return whether both ends are durable. Raises 404 for a missing one, source first."""
        source = self._router.exchange(binding.source)
        if binding.kind is DestinationKind.EXCHANGE:
            return source.durable and self._router.exchange(binding.destination).durable
        queue = await self._queues.access(binding.destination, owner)
        return source.durable and queue.durable and queue.owner is None

    async def _remove(self, plan: Plan, steps: Generator[None, None, Removed]) -> None:
        async with removal(self.vhost, plan, steps, self._events) as unit:
            if unit.metadata:
                await self._core.committed(unit)

    def _refuse_default_ends(self, binding: Binding) -> None:
        refuse_default(binding.source)
        if binding.kind is DestinationKind.EXCHANGE:
            refuse_default(binding.destination)

    def _check_equivalent(self, current: Exchange, wanted: Exchange) -> None:
        words = exchange_in_words(wanted.name, self.vhost)
        for name in ("type", "durable", "auto_delete", "internal"):
            old, new = getattr(current, name), getattr(wanted, name)
            if old != new:
                raise inequivalent(name, words, _quoted(new), _quoted(old))
        assert_equivalent(current.arguments, wanted.arguments, ALTERNATE_EXCHANGE, words)


def _quoted(value: bool | str) -> str:
    """Quote a value as RabbitMQ does: types are Erlang atoms, with quotes of their own if
    needed."""
    return f"'{render_value(value) if isinstance(value, bool) else render_atom(value)}'"
