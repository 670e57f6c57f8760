"""A channel: takes methods, does what they say, or closes with the error they deserve.

The rule: this module knows the methods; publishing and delivering have their own modules.
An :class:`~arneb_amqp.errors.AmqpError` raised while a method is handled closes what the
method belongs to, so every check here is a plain ``raise``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Confirm, Exchange, Queue, Tx
from pamqp.commands import Channel as Methods

from arneb_amqp.errors import (
    AmqpError,
    channel_error,
    command_invalid,
    not_found,
    not_implemented,
    precondition_failed,
)
from arneb_amqp.session.confirms import Confirms
from arneb_amqp.session.delivering import ChannelConsumer, Deliverer
from arneb_amqp.session.effects import Cancel, Get, Perform, Wake
from arneb_amqp.session.events import Pulled, QueueDeclared
from arneb_amqp.session.host import Host
from arneb_amqp.session.publishing import Publisher
from arneb_amqp.session.replies import close_channel, make
from arneb_amqp.session.reply_to import ReplyTo
from arneb_amqp.session.stream import Reading, StreamReader
from arneb_amqp.session.transaction import Transaction
from arneb_amqp.session.transitions import ChannelInput, ChannelState, next_channel_state
from arneb_amqp.wire.access import Access
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.items import Ack, AckRun, Publish, PublishRun
from arneb_amqp.wire.tables import Table


class Channel:
    """One channel of a connection.

    Invariant: when ``state`` is not OPEN the channel has no consumers and nothing unanswered.
    """

    __slots__ = ("_host", "_last_queue", "_late", "deliverer", "id", "publisher", "state")

    def __init__(self, host: Host, id_: ChannelId) -> None:
        self._host = host
        self.id = id_
        self.state = ChannelState.OPEN
        reply_to = ReplyTo()
        self.publisher = Publisher(host, id_, reply_to)
        self.deliverer = Deliverer(host, id_, reply_to)
        self._last_queue = ""
        self._late: list[str] | None = None
        """Consumers to be told after the ``queue.delete-ok`` that is due. Clients wait for that,
        and some fail when they hear of the end of a consumer in between."""

    def __repr__(self) -> str:
        return f"<Channel {self.id} {self.state.value}, {len(self.deliverer.unacked)} unacked>"

    # Hot items. Each is dropped while the channel is closing, as everything is.

    def publish_run(self, item: PublishRun) -> None:
        """Publishes that differ in content only."""
        if self.state is ChannelState.OPEN:
            self.publisher.publish_run(item)

    def publish(self, item: Publish) -> None:
        """A publish that must be looked at."""
        if self.state is ChannelState.OPEN:
            self.publisher.publish(item)

    def ack_run(self, item: AckRun) -> None:
        """Acks of single deliveries."""
        if self.state is ChannelState.OPEN:
            self.deliverer.acknowledge(item.tags, self.publisher.transaction)

    def ack(self, item: Ack) -> None:
        """A cumulative ack."""
        if self.state is not ChannelState.OPEN:
            return
        if item.multiple:
            self.deliverer.acknowledge_through(item.tag, self.publisher.transaction)
        else:
            self.deliverer.acknowledge((item.tag,), self.publisher.transaction)

    def handle(self, method: Command) -> None:
        """Any other method."""
        if isinstance(method, Methods.Close):
            self._closed_by_peer()
        elif isinstance(method, Methods.CloseOk) and self.state is ChannelState.CLOSING:
            self._move(ChannelInput.PEER_CLOSE_OK)
        elif isinstance(method, Methods.Open):
            raise channel_error("second 'channel.open' seen")
        elif self.state is ChannelState.OPEN:
            handler = _HANDLERS.get(type(method))
            if handler is None:
                raise command_invalid("unimplemented method")
            handler(self, method)

    def fail(self, error: AmqpError) -> None:
        """Close the channel with ``error``; all it holds goes back."""
        if self.state is not ChannelState.OPEN:
            return
        self.publisher.close()
        self._move(ChannelInput.FAIL)
        self._host.outbox.send(self.id, close_channel(error))
        self._host.ask(self.deliverer.leave(), lambda _: None)

    def end(self) -> None:
        """The connection ends, and the channel with it."""
        self.publisher.close()
        self.state = ChannelState.CLOSED
        self.deliverer.leave()

    def _closed_by_peer(self) -> None:
        if self.state is ChannelState.CLOSING:
            self._send_close_ok()
            return
        self.publisher.close()
        self._move(ChannelInput.PEER_CLOSE)
        self._host.ask(self.deliverer.leave(), lambda _: self._send_close_ok())

    def _send_close_ok(self) -> None:
        self._host.outbox.send(self.id, make(Methods.CloseOk))

    def _move(self, happened: ChannelInput) -> None:
        self.state = next_channel_state(self.state, happened)

    def _send(self, kind: type[Command], **fields: object) -> None:
        """Send a method, unless the channel is closing: what was asked before is answered late."""
        if self.state is ChannelState.OPEN:
            self._host.outbox.send(self.id, make(kind, **fields))

    def _send_unless(self, nowait: bool, kind: type[Command], **fields: object) -> None:
        if not nowait:
            self._send(kind, **fields)

    # The channel class.

    def _flow(self, method: Methods.Flow) -> None:
        if not method.active:
            raise not_implemented("active=false")
        self._send(Methods.FlowOk, active=True)

    def _access(self, _: Command) -> None:
        self._host.outbox.send(self.id, Access.RequestOk())

    # The exchange and queue classes. The topology does the work; names are expanded here.

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

        self._host.ask(Perform(method), declared)

    def _delete_queue(self, method: Queue.Delete) -> None:
        method.queue = _stripped(self._expanded(method.queue))

        def deleted(count: object) -> None:
            self._send_unless(method.nowait, Queue.DeleteOk, message_count=count)
            late, self._late = self._late or (), None
            for tag in late:
                self._send(Basic.Cancel, consumer_tag=tag, nowait=True)

        self._late = []
        self._host.ask(Perform(method), deleted)

    def _purge_queue(self, method: Queue.Purge) -> None:
        method.queue = self._expanded(method.queue)
        self._host.ask(
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
            method.routing_key = self._expanded("")
        method.queue = _stripped(self._expanded(method.queue))
        method.exchange = _stripped(method.exchange)

    def _perform(self, method: Command, ok: type[Command], nowait: bool) -> None:
        self._host.ask(Perform(method), lambda _: self._send_unless(nowait, ok))

    def _expanded(self, queue: str) -> str:
        """An empty name is the queue that was declared last on this channel."""
        if not queue and not self._last_queue:
            raise not_found("no previously declared queue")
        return queue or self._last_queue

    # The basic class.

    def _qos(self, method: Basic.Qos) -> None:
        if method.prefetch_size:
            raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
        deliverer = self.deliverer
        before = deliverer.window.limit
        if method.global_:
            deliverer.window.limit = method.prefetch_count
        else:
            # As in RabbitMQ: this sets the limit of later consumers and lifts the channel's.
            deliverer.prefetch, deliverer.window.limit = method.prefetch_count, 0
        if before and not 0 < deliverer.window.limit <= before:
            ids = tuple(consumer.id for consumer in deliverer.consumers.values())
            self._host.agenda.emit(Wake(ids))
        self._send(Basic.QosOk)

    def _consume(self, method: Basic.Consume) -> None:
        consumer, request = self.deliverer.begin(
            method.consumer_tag, self._expanded(method.queue), no_ack=method.no_ack,
            exclusive=method.exclusive, arguments=_table(method.arguments),
        )  # fmt: skip

        def attached(reading: object) -> None:
            self._send_unless(method.nowait, Basic.ConsumeOk, consumer_tag=consumer.tag)
            if isinstance(reading, Reading):
                consumer.stream = StreamReader(reading)
            self.deliverer.attached(consumer)

        self._host.ask(request, attached)

    def _cancel(self, method: Basic.Cancel) -> None:
        tag, nowait = cast("str", method.consumer_tag), method.nowait
        consumer = self.deliverer.consumers.get(tag)

        def cancelled(_: object) -> None:
            if consumer is not None:
                self.deliverer.remove(consumer)
            self._send_unless(nowait, Basic.CancelOk, consumer_tag=tag)

        if consumer is None:
            cancelled(None)
        else:
            self._host.ask(Cancel(consumer.id), cancelled)

    def _get(self, method: Basic.Get) -> None:
        queue, no_ack = self._expanded(method.queue), method.no_ack

        def pulled(value: object) -> None:
            if value is None:
                self._send(Basic.GetEmpty, cluster_id="")
                return
            assert isinstance(value, Pulled)
            self.deliverer.send_pulled(queue, value.run, value.message_count, no_ack=no_ack)

        getter = self.deliverer.getter(queue, no_ack=no_ack)
        self._host.ask(Get(getter, queue, no_ack), pulled)

    def _nack(self, method: Basic.Nack) -> None:
        self.deliverer.reject(
            method.delivery_tag, self.publisher.transaction,
            multiple=method.multiple, requeue=method.requeue,
        )  # fmt: skip

    def _reject(self, method: Basic.Reject) -> None:
        tag = cast("int", method.delivery_tag)
        transaction = self.publisher.transaction
        self.deliverer.reject(tag, transaction, multiple=False, requeue=method.requeue)

    def _recover_async(self, method: Basic.RecoverAsync | Basic.Recover) -> None:
        if not method.requeue:
            raise not_implemented("requeue=false")
        self.deliverer.recover()

    def _recover(self, method: Basic.Recover) -> None:
        self._recover_async(method)
        self._send(Basic.RecoverOk)

    # The confirm and tx classes.

    def _select_confirms(self, method: Confirm.Select) -> None:
        if self.publisher.transaction is not None:
            raise precondition_failed("cannot switch from tx to confirm mode")
        if self.publisher.confirms is None:
            self.publisher.end_run()
            self.publisher.confirms = Confirms()
        self._send_unless(method.nowait, Confirm.SelectOk)

    def _select_tx(self, _: Command) -> None:
        if self.publisher.confirms is not None:
            raise precondition_failed("cannot switch from confirm to tx mode")
        if self.publisher.transaction is None:
            self.publisher.end_run()
            self.publisher.transaction = Transaction()
        self._send(Tx.SelectOk)

    def _commit(self, _: Command) -> None:
        transaction = self._transaction()

        def committed(_: object) -> None:
            self.publisher.transaction = Transaction()
            self.deliverer.settle(transaction)
            self._send(Tx.CommitOk)

        self.publisher.send_returns(transaction)
        self._host.ask(transaction.commit(self._host.now_ms), committed)

    def _rollback(self, _: Command) -> None:
        self.deliverer.rollback(self._transaction())
        self.publisher.transaction = Transaction()
        self._send(Tx.RollbackOk)

    def _transaction(self) -> Transaction:
        if self.publisher.transaction is None:
            raise precondition_failed("channel is not transactional")
        return self.publisher.transaction

    def consumer_closed(self, consumer: ChannelConsumer) -> None:
        """The queue of a consumer went away."""
        known = self.deliverer.consumers.get(consumer.tag) is consumer
        self.deliverer.remove(consumer)
        if not (known and self._host.cancel_notify):
            return
        if self._late is None:
            self._send(Basic.Cancel, consumer_tag=consumer.tag, nowait=True)
        else:
            self._late.append(consumer.tag)


def _stripped(name: str) -> str:
    """RabbitMQ takes line ends out of names."""
    return name.replace("\r", "").replace("\n", "")


def _table(arguments: object) -> Table:
    """The decoder's tables are ours, whatever pamqp's annotations say."""
    return cast("Table", arguments)


_Handler = Callable[[Channel, Any], None]

_HANDLERS: Final[Mapping[type[Command], _Handler]] = {
    Methods.Flow: Channel._flow,
    Access.Request: Channel._access,
    Exchange.Declare: Channel._declare_exchange,
    Exchange.Delete: Channel._delete_exchange,
    Exchange.Bind: Channel._bind_exchange,
    Exchange.Unbind: Channel._unbind_exchange,
    Queue.Declare: Channel._declare_queue,
    Queue.Delete: Channel._delete_queue,
    Queue.Purge: Channel._purge_queue,
    Queue.Bind: Channel._bind_queue,
    Queue.Unbind: Channel._unbind_queue,
    Basic.Qos: Channel._qos,
    Basic.Consume: Channel._consume,
    Basic.Cancel: Channel._cancel,
    Basic.Get: Channel._get,
    Basic.Nack: Channel._nack,
    Basic.Reject: Channel._reject,
    Basic.RecoverAsync: Channel._recover_async,
    Basic.Recover: Channel._recover,
    Confirm.Select: Channel._select_confirms,
    Tx.Select: Channel._select_tx,
    Tx.Commit: Channel._commit,
    Tx.Rollback: Channel._rollback,
}
