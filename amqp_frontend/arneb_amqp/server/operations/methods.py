"""Methods of the exchange and queue classes, carried into the topology.

The rule: one call per method, holding the topology's locks on what it touches; names are already
expanded. Only here are pamqp's methods turned into our values.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from pamqp.base import Frame as Command
from pamqp.commands import Exchange as ExchangeMethods
from pamqp.commands import Queue as QueueMethods

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.routing.reply_to import REPLY_TO, is_reply_queue
from arneb_amqp.session.effects import Authorize
from arneb_amqp.session.events import QueueDeclared
from arneb_amqp.session.rights import Rights, RightUndecided
from arneb_amqp.session.rules import Asked, questions
from arneb_amqp.topology.footprint import (
    Footprint,
    of_binding,
    of_exchange,
    of_queue,
    of_removal,
)
from arneb_amqp.topology.queues.declaration import ConnectionId, Declaration
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.access.acting import acting_as


class MethodContext(Protocol):
    """The user and vhost for whom methods are carried out."""

    @property
    def topology(self) -> Topology: ...

    @property
    def vhost(self) -> Vhost: ...

    @property
    def rights(self) -> Rights: ...

    @property
    def owner(self) -> ConnectionId:
        """The owner of exclusive queues."""
        ...

    async def authorize(self, order: Authorize) -> None:
        """Fetch a verdict that is not known at once."""
        ...


class Methods:
    """Carries out the methods of one connection, or of a user without one."""

    def __init__(self, context: MethodContext) -> None:
        self._context = context
        self._owner = context.owner
        self._wanted = Declaration(context.owner, "")
        """The queue being declared."""
        self._made_exclusive = False
        """Whether it has declared exclusive queues."""

    def __repr__(self) -> str:
        return f"<Methods of connection {self._owner}>"

    async def perform(self, method: Command) -> object:
        """Carry ``method`` out; return what its ok says. Raises RabbitMQ's errors."""
        vhost, topology = self._context.vhost, self._context.topology
        if isinstance(method, QueueMethods.Declare):
            self._wanted = self._declaration(vhost, method)
        while True:
            try:
                async with topology.changing(lambda: touched_by(vhost, method)):
                    self._require(vhost, method)
                    with acting_as(self._context.rights.principal.name):
                        return await _METHODS[type(method)](self, vhost, method)
            except RightUndecided as undecided:
                # Fetched while no lock is held: the answer may take long.
                await self._context.authorize(Authorize(undecided.question))

    def _require(self, vhost: Vhost, method: Command) -> None:
        """Check the rights that the method needs now. Raises 403, or :class:`.RightUndecided`."""
        rights = self._context.rights
        asked = Asked(method, vhost, self._wanted.name, rights.limits_keys)
        rights.require(questions(type(method), asked))

    async def delete_exclusive(self) -> None:
        """Delete the connection's exclusive queues: it has ended. Idempotent."""
        if self._made_exclusive:
            async with self._context.topology.changing():
                await self._context.vhost.queues.delete_exclusive(self._owner)
            self._made_exclusive = False  # not before: who waits for the lock may be cancelled

    async def _declare_exchange(self, vhost: Vhost, method: ExchangeMethods.Declare) -> None:
        if method.passive:
            vhost.exchanges.find(method.exchange)
            return
        await vhost.exchanges.declare(
            Exchange(
                method.exchange,
                method.exchange_type,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=_table(method.arguments),
            )
        )

    async def _delete_exchange(self, vhost: Vhost, method: ExchangeMethods.Delete) -> None:
        await vhost.exchanges.delete(method.exchange, if_unused=method.if_unused)

    async def _bind_exchange(self, vhost: Vhost, method: ExchangeMethods.Bind) -> None:
        await vhost.exchanges.bind(_exchange_binding(method), self._owner)

    async def _unbind_exchange(self, vhost: Vhost, method: ExchangeMethods.Unbind) -> None:
        await vhost.exchanges.unbind(_exchange_binding(method), self._owner)

    async def _declare_queue(self, vhost: Vhost, method: QueueMethods.Declare) -> QueueDeclared:
        queues = vhost.queues
        if method.queue == REPLY_TO or is_reply_queue(method.queue):
            queues.check_reply_queue(method.queue)
            return QueueDeclared(method.queue, 0, 1)
        if method.passive:
            queue = await queues.access(method.queue, self._owner)
            queue.used()
        else:
            queue = await queues.declare(self._wanted)
            self._made_exclusive = self._made_exclusive or method.exclusive
        return QueueDeclared(queue.name, queue.message_count, queue.consumer_count)

    def _declaration(self, vhost: Vhost, method: QueueMethods.Declare) -> Declaration:
        wanted = Declaration(
            self._owner,
            method.queue,
            durable=method.durable and not method.exclusive,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=_table(method.arguments),
        )
        if method.passive or method.queue == REPLY_TO or is_reply_queue(method.queue):
            return wanted
        default = self._context.topology.default_queue_type(vhost.name)
        return wanted.of_type(default).named(vhost.queues.new_name)

    async def _delete_queue(self, vhost: Vhost, method: QueueMethods.Delete) -> int:
        return await vhost.queues.delete_by_name(
            method.queue, self._owner, if_unused=method.if_unused, if_empty=method.if_empty
        )

    async def _purge_queue(self, vhost: Vhost, method: QueueMethods.Purge) -> int:
        queue = await vhost.queues.access(method.queue, self._owner)
        return await queue.purge()

    async def _bind_queue(self, vhost: Vhost, method: QueueMethods.Bind) -> None:
        await vhost.exchanges.bind(_queue_binding(method), self._owner)

    async def _unbind_queue(self, vhost: Vhost, method: QueueMethods.Unbind) -> None:
        await vhost.exchanges.unbind(_queue_binding(method), self._owner)


_METHODS: Final[Mapping[type[Command], Callable[[Methods, Vhost, Any], Awaitable[object]]]] = {
    ExchangeMethods.Declare: Methods._declare_exchange,
    ExchangeMethods.Delete: Methods._delete_exchange,
    ExchangeMethods.Bind: Methods._bind_exchange,
    ExchangeMethods.Unbind: Methods._unbind_exchange,
    QueueMethods.Declare: Methods._declare_queue,
    QueueMethods.Delete: Methods._delete_queue,
    QueueMethods.Purge: Methods._purge_queue,
    QueueMethods.Bind: Methods._bind_queue,
    QueueMethods.Unbind: Methods._unbind_queue,
}


def touched_by(vhost: Vhost, method: Command) -> Footprint | None:
    """Return what a method may change in ``vhost``; None = anything."""
    name, router = vhost.name, vhost.router
    match method:
        case QueueMethods.Declare() | QueueMethods.Purge():
            return of_queue(name, method.queue)
        case QueueMethods.Delete():
            return of_removal(name, router, method.queue)
        case QueueMethods.Bind() | QueueMethods.Unbind():
            binding, goes = _queue_binding(method), isinstance(method, QueueMethods.Unbind)
        case ExchangeMethods.Bind() | ExchangeMethods.Unbind():
            binding, goes = _exchange_binding(method), isinstance(method, ExchangeMethods.Unbind)
        case ExchangeMethods.Declare():
            return of_exchange(name, method.exchange)
        case _:
            return None
    source, destination = binding.source, binding.destination
    return of_binding(name, router, source, binding.kind, destination, goes=goes)


def _exchange_binding(method: ExchangeMethods.Bind | ExchangeMethods.Unbind) -> Binding:
    """Return the binding between exchanges that a method names."""
    return Binding(
        method.source,
        method.destination,
        method.routing_key,
        _table(method.arguments),
        DestinationKind.EXCHANGE,
    )


def _queue_binding(method: QueueMethods.Bind | QueueMethods.Unbind) -> Binding:
    """Return the binding of a queue that a method names."""
    return Binding(method.exchange, method.queue, method.routing_key, _table(method.arguments))


def _table(arguments: Any) -> Any:
    """The decoder yields our tables, whatever pamqp's annotations say."""
    return arguments
