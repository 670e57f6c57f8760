"""Declaring: the methods of the exchange and queue classes, on one channel.

The rule: the topology does the work; this module expands names as RabbitMQ does and sends the
answers that the client waits for.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Exchange, Queue

from arneb_amqp.errors import not_found
from arneb_amqp.session.context import ChannelContext
from arneb_amqp.session.effects import Perform
from arneb_amqp.session.events import QueueDeclared


class MethodSender(Protocol):
    """Sends a method to the client, unless the channel is closing."""

    def __call__(self, kind: type[Command], **fields: object) -> None: ...


class Declarer:
    """The declaring half of a channel."""

    __slots__ = ("_context", "_last_queue", "_late", "_send")

    def __init__(self, context: ChannelContext, send: MethodSender) -> None:
        self._context = context
        self._send = send
        self._last_queue = ""
        self._late: list[str] | None = None
        """Consumers whose cancellation is sent after the pending ``queue.delete-ok``. Clients wait
        for that, and some fail when a ``basic.cancel`` comes first."""

    def __repr__(self) -> str:
        return f"<Declarer, last of {self._last_queue!r}>"

    def expanded(self, queue: str) -> str:
        """Expand an empty name to the queue declared last on this channel. Raises 404."""
        if not queue and not self._last_queue:
            raise not_found("no previously declared queue")
        return queue or self._last_queue

    def consumer_closed(self, tag: str) -> None:
        """Tell the client that a consumer's queue is gone."""
        if self._late is None:
            self._send(Basic.Cancel, consumer_tag=tag, nowait=True)
        else:
            self._late.append(tag)

    def end(self) -> None:
        """Drop the reference to a channel that is not open any more: the cycle would stay until a
        full garbage collection."""
        self._send = _say_nothing

    def handle(self, method: Command) -> bool:
        """Carry out the method; False when it is of another class."""
        handler = _HANDLERS.get(type(method))
        if handler is None:
            return False
        handler(self, method)
        return True

    def _declare_exchange(self, method: Exchange.Declare) -> None:
        method.exchange = _stripped(method.exchange)
        self._perform(method, Exchange.DeclareOk, method.nowait)

    def _delete_exchange(self, method: Exchange.Delete) -> None:
        method.exchange = _stripped(method.exchange)
        self._perform(method, Exchange.DeleteOk, method.nowait)

    def _bind_exchange(self, method: Exchange.Bind) -> None:
        method.source, method.destination = _stripped(method.source), _stripped(method.destination)
        self._perform(method, Exchange.BindOk, method.nowait)

    def _unbind_exchange(self, method: Exchange.Unbind) -> None:
        method.source, method.destination = _stripped(method.source), _stripped(method.destination)
        self._perform(method, Exchange.UnbindOk, method.nowait)

    def _declare_queue(self, method: Queue.Declare) -> None:
        method.queue = _stripped(method.queue)

        def declared(value: object) -> None:
            assert isinstance(value, QueueDeclared)
            self._last_queue = value.name
            self._send_unless(
                method.nowait, Queue.DeclareOk, queue=value.name,
                message_count=value.message_count, consumer_count=value.consumer_count,
            )  # fmt: skip

        self._context.ask(Perform(method), declared)

    def _delete_queue(self, method: Queue.Delete) -> None:
        method.queue = _stripped(self.expanded(method.queue))

        def deleted(count: object) -> None:
            self._send_unless(method.nowait, Queue.DeleteOk, message_count=count)
            late, self._late = self._late or (), None
            for tag in late:
                self._send(Basic.Cancel, consumer_tag=tag, nowait=True)

        self._late = []
        self._context.ask(Perform(method), deleted)

    def _purge_queue(self, method: Queue.Purge) -> None:
        method.queue = self.expanded(method.queue)
        self._context.ask(
            Perform(method),
            lambda count: self._send_unless(method.nowait, Queue.PurgeOk, message_count=count),
        )

    def _bind_queue(self, method: Queue.Bind) -> None:
        self._expand_binding(method)
        self._perform(method, Queue.BindOk, method.nowait)

    def _unbind_queue(self, method: Queue.Unbind) -> None:
        self._expand_binding(method)
        self._perform(method, Queue.UnbindOk, nowait=False)

    def _expand_binding(self, method: Queue.Bind | Queue.Unbind) -> None:
        if not method.queue and not method.routing_key:
            method.routing_key = self.expanded("")
        method.queue = _stripped(self.expanded(method.queue))
        method.exchange = _stripped(method.exchange)

    def _perform(self, method: Command, ok: type[Command], nowait: bool) -> None:
        self._context.ask(Perform(method), lambda _: self._send_unless(nowait, ok))

    def _send_unless(self, nowait: bool, kind: type[Command], **fields: object) -> None:
        if not nowait:
            self._send(kind, **fields)


def _say_nothing(kind: type[Command], **fields: object) -> None:
    """Send nothing: the channel is not open any more."""


def _stripped(name: str) -> str:
    """Remove line ends, as RabbitMQ does."""
    return name.replace("\r", "").replace("\n", "")


_HANDLERS: Final[Mapping[type[Command], Callable[[Declarer, Any], None]]] = {
    Exchange.Declare: Declarer._declare_exchange,
    Exchange.Delete: Declarer._delete_exchange,
    Exchange.Bind: Declarer._bind_exchange,
    Exchange.Unbind: Declarer._unbind_exchange,
    Queue.Declare: Declarer._declare_queue,
    Queue.Delete: Declarer._delete_queue,
    Queue.Purge: Declarer._purge_queue,
    Queue.Bind: Declarer._bind_queue,
    Queue.Unbind: Declarer._unbind_queue,
}
