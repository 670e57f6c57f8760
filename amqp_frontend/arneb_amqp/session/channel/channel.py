"""A channel: carries out the client's methods, or closes with an error.

The rule: this module knows the methods; declaring, publishing and delivering have modules of their
own. An :class:`~arneb_amqp.errors.AmqpError` raised while a method is handled closes the channel or
connection, so every check here is a plain ``raise``.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Confirm, Tx
from pamqp.commands import Channel as Methods

from arneb_amqp.errors import (
    AmqpError,
    channel_error,
    command_invalid,
    not_allowed,
    not_implemented,
    precondition_failed,
)
from arneb_amqp.routing.reply_to import ReplyTo
from arneb_amqp.routing.stream_filter import StreamFilter
from arneb_amqp.session.channel.declarer import Declarer
from arneb_amqp.session.consume.consumer import ConsumerState
from arneb_amqp.session.consume.deliverer import Deliverer
from arneb_amqp.session.consume.stream_reader import StreamReader
from arneb_amqp.session.context import ChannelContext, Pause, VhostContext
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Cancel, Get, Leave
from arneb_amqp.session.events import Pulled
from arneb_amqp.session.publish.confirms import Confirms
from arneb_amqp.session.publish.publisher import Publisher
from arneb_amqp.session.rules import Asked, questions
from arneb_amqp.session.transaction import Transaction
from arneb_amqp.session.transitions import ChannelInput, ChannelState, next_channel_state
from arneb_amqp.wire.access import Access
from arneb_amqp.wire.constants import ChannelId, DeliveryTag
from arneb_amqp.wire.items import Ack, AckRun, Publish, RejectRun
from arneb_amqp.wire.replies import close_channel, make
from arneb_amqp.wire.tables import Table


class Channel:
    """One channel of a connection.

    The publisher and the deliverer are made at first use: together they are 1.5 KiB, and after
    100,000 channels that had only declared something or set a limit, 140 MiB stayed with the
    process. Their slots are empty until then, so a run of publishes or acknowledgements finds them
    without a call.

    Invariants: when ``state`` is not OPEN the channel has no consumers and nothing unanswered;
    ``_publisher`` and ``_deliverer`` are ``publisher`` and ``deliverer``, or None while those slots
    are empty; ``_prefetch`` and ``_limit`` are the deliverer's initial limits.
    """

    __slots__ = (
        "_context", "_declarer", "_deliverer", "_limit", "_prefetch", "_publisher", "_reply_to",
        "_vhost", "deliverer", "id", "publisher", "state",
    )  # fmt: skip

    publisher: Publisher
    deliverer: Deliverer

    def __init__(self, context: ChannelContext, vhost: VhostContext, id_: ChannelId) -> None:
        self._context = context
        self._vhost = vhost
        self.id = id_
        self.state = ChannelState.OPEN
        self._publisher: Publisher | None = None
        self._deliverer: Deliverer | None = None
        self._declarer: Declarer | None = None
        self._reply_to: ReplyTo | None = None
        self._prefetch = self._limit = 0

    def __repr__(self) -> str:
        unacked = len(self._deliverer.answers.unacked) if self._deliverer is not None else 0
        return f"<Channel {self.id} {self.state.value}, {unacked} unacked>"

    if not TYPE_CHECKING:  # else any name would be an attribute

        def __getattr__(self, name: str) -> Publisher | Deliverer:
            """Fill an empty slot with its half."""
            if name not in _HALVES:
                raise AttributeError(f"expected an attribute of a channel, got '{name}'")
            if self._reply_to is None:
                self._reply_to = ReplyTo()
            half = _HALVES[name](self._context, self._vhost, self.id, self._reply_to)
            setattr(self, name, half)
            setattr(self, f"_{name}", half)
            if name == "deliverer":
                half.prefetch, half.window.limit = self._prefetch, self._limit
            return half

    @property
    def halves(self) -> tuple[Publisher | None, Deliverer | None]:
        """The publisher and the deliverer, if they exist: looking makes none."""
        return self._publisher, self._deliverer

    @property
    def limits(self) -> tuple[int, int]:
        """The limits that ``basic.qos`` has set: for each later consumer, and for all together."""
        if self._deliverer is None:
            return self._prefetch, self._limit
        return self._deliverer.prefetch, self._deliverer.window.limit

    # Hot items. Like everything else, they are dropped while the channel is closing.

    def publish(self, item: Publish) -> None:
        """Handle a publish that must be inspected."""
        if self.state is ChannelState.OPEN:
            self.publisher.publish(item)

    def ack(self, item: Ack) -> None:
        """Handle a cumulative ack."""
        if self.state is not ChannelState.OPEN:
            return
        # Tag 0 means all that is unanswered now, not what is delivered before the next turn.
        tag = item.tag or self.deliverer.answers.unacked.last
        try:
            self.deliverer.answers.acknowledge_through(tag, self.publisher.transaction)
        except Pause:
            raise Pause(Ack(item.channel, DeliveryTag(tag))) from None

    def ack_run(self, item: AckRun) -> None:
        """Handle single acks."""
        if self.state is ChannelState.OPEN:
            self.deliverer.answers.acknowledge(item.tags, self.publisher.transaction)

    def reject_run(self, item: RejectRun) -> None:
        """Handle single rejects or nacks."""
        if self.state is ChannelState.OPEN:
            self.deliverer.answers.reject(item, self.publisher.transaction)

    def handle(self, method: Command) -> None:
        """Handle any other method."""
        if isinstance(method, Methods.Close):
            self._closed_by_peer()
        elif isinstance(method, Methods.CloseOk) and self.state is ChannelState.CLOSING:
            self._move(ChannelInput.PEER_CLOSE_OK)
        elif isinstance(method, Methods.Open):
            raise channel_error("second 'channel.open' seen")
        elif self.state is ChannelState.OPEN:
            self._do(method)

    def _require(self, method: Command) -> None:
        """Raises if a right that the method needs is missing; nothing is done yet."""
        asked = Asked(method, self._vhost)
        self._context.rights.require(questions(type(method), asked))

    def _do(self, method: Command) -> None:
        handler = _HANDLERS.get(type(method))
        if handler is not None:
            handler(self, method)
        elif not self._declaring().handle(method):
            raise command_invalid("unimplemented method")

    def _declaring(self) -> Declarer:
        if self._declarer is None:
            self._declarer = Declarer(self._context, self._send)
        return self._declarer

    def fail(self, error: AmqpError) -> None:
        """Close the channel with ``error`` and requeue all it holds."""
        if self.state is not ChannelState.OPEN:
            return
        self._end_halves()
        self._move(ChannelInput.FAIL)
        self._context.output.send(self.id, close_channel(error))
        self._context.ask(self._leave(), lambda _: None)

    def end(self) -> None:
        """End the channel with its connection."""
        self._end_halves()
        self.state = ChannelState.CLOSED
        self._leave()

    def _end_halves(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
        if self._declarer is not None:
            self._declarer.end()

    def _leave(self) -> Leave:
        return self._deliverer.leave() if self._deliverer is not None else Leave(self.id, ())

    def _closed_by_peer(self) -> None:
        if self.state is not ChannelState.OPEN:
            self._send_close_ok()
            return
        self._end_halves()
        self._move(ChannelInput.PEER_CLOSE)
        self._context.ask(self._leave(), lambda _: self._send_close_ok())

    def _send_close_ok(self) -> None:
        self._context.output.send(self.id, make(Methods.CloseOk))

    def _move(self, happened: ChannelInput) -> None:
        self.state = next_channel_state(self.state, happened)

    def _send(self, kind: type[Command], **fields: object) -> None:
        """Send a method, unless the channel is closing and the answer comes too late."""
        if self.state is ChannelState.OPEN:
            self._context.output.send(self.id, make(kind, **fields))

    def _send_unless(self, nowait: bool, kind: type[Command], **fields: object) -> None:
        if not nowait:
            self._send(kind, **fields)

    # The channel class.

    def _flow(self, method: Methods.Flow) -> None:
        if not method.active:
            raise not_implemented("active=false")
        self._send(Methods.FlowOk, active=True)

    def _access(self, _: Command) -> None:
        self._context.output.send(self.id, Access.RequestOk())

    # The basic class.

    def _qos(self, method: Basic.Qos) -> None:
        if method.prefetch_size:
            raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
        count = method.prefetch_count
        # As in RabbitMQ: a limit a consumer is for later consumers, and lifts the channel's.
        self._prefetch, self._limit = (self._prefetch, count) if method.global_ else (count, 0)
        if self._deliverer is not None:
            self._deliverer.limit_to(self._prefetch, self._limit)
        self._send(Basic.QosOk)

    def _consume(self, method: Basic.Consume) -> None:
        most = self._context.consumers_max
        if 0 <= most <= len(self.deliverer.consumers):
            raise not_allowed(f"reached maximum ({most}) of consumers per channel")
        method.queue = queue = self._declaring().expanded(method.queue)
        if method.consumer_tag not in self.deliverer.consumers:  # else the reused tag is the error
            self._require(method)
        consumer, request = self.deliverer.begin(
            method.consumer_tag, queue, no_ack=method.no_ack,
            exclusive=method.exclusive, arguments=_table(method.arguments),
        )  # fmt: skip

        def attached(filter_: object) -> None:
            self._send_unless(method.nowait, Basic.ConsumeOk, consumer_tag=consumer.tag)
            if isinstance(filter_, StreamFilter):
                consumer.stream = StreamReader(filter_)
            self.deliverer.attached(consumer)

        self._context.ask(request, attached)

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
            consumer.state = ConsumerState.LEAVING
            self._context.ask(Cancel(consumer.id), cancelled)

    def _get(self, method: Basic.Get) -> None:
        method.queue = queue = self._declaring().expanded(method.queue)
        no_ack = method.no_ack
        self._require(method)

        def pulled(value: object) -> None:
            if value is None:
                self.deliverer.got_nothing += 1
                self._send(Basic.GetEmpty, cluster_id="")
                return
            assert isinstance(value, Pulled)
            self.deliverer.send_pulled(queue, value, no_ack=no_ack)

        getter = self.deliverer.getter(queue, no_ack=no_ack)
        self._context.ask(Get(getter, queue, no_ack), pulled)

    def _nack(self, method: Basic.Nack) -> None:
        assert method.multiple, "others are runs"
        if not method.delivery_tag:
            # Tag 0 means all that is unanswered now: this same method is handled again after a
            # pause.
            method.delivery_tag = self.deliverer.answers.unacked.last
        self.deliverer.answers.reject_through(
            method.delivery_tag, self.publisher.transaction, requeue=method.requeue
        )

    def _recover_async(self, method: Basic.RecoverAsync | Basic.Recover) -> None:
        if not method.requeue:
            raise not_implemented("requeue=false")
        self.deliverer.answers.recover()

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
            self._begin_transaction()
        self._send(Tx.SelectOk)

    def _commit(self, _: Command) -> None:
        transaction = self._transaction()

        def committed(_: object) -> None:
            self._begin_transaction()
            self.deliverer.answers.committed(transaction)
            self._send(Tx.CommitOk)

        self.publisher.returns.send(transaction)
        self._context.ask(transaction.commit(self._context.now_ms), committed)

    def _rollback(self, _: Command) -> None:
        self.deliverer.answers.rollback(self._transaction())
        self._begin_transaction()
        self._send(Tx.RollbackOk)

    def _begin_transaction(self) -> None:
        if self.publisher.transaction is not None:
            self.publisher.transaction.end()
        self.publisher.transaction = Transaction(self._context.transaction_bytes)

    def _transaction(self) -> Transaction:
        if self.publisher.transaction is None:
            raise precondition_failed("channel is not transactional")
        return self.publisher.transaction

    def check_ack_timeouts(self, now: float, timeout_s: float) -> None:
        """Raises 406 when a delivery has waited for its answer for too long."""
        if self._deliverer is not None and self.state is ChannelState.OPEN:
            self._deliverer.check_ack_timeouts(now, timeout_s)

    def orphaned(self, owner: ConsumerId) -> None:
        """Note that the queue of a consumer, perhaps of another channel, is gone."""
        if self._deliverer is not None:
            self._deliverer.orphaned(owner)

    def consumer_closed(self, id_: ConsumerId) -> None:
        """Remove a consumer whose queue is gone, and tell the client if it asked for that."""
        for consumer in list(self.deliverer.consumers.values()):
            if consumer.id == id_:
                leaving = consumer.state is ConsumerState.LEAVING  # and its queue with it
                self.deliverer.remove(consumer)
                if self._context.cancel_notify and not leaving:
                    self._declaring().consumer_closed(consumer.tag)


_HALVES: Final = {"publisher": Publisher, "deliverer": Deliverer}


def _table(arguments: object) -> Table:
    """The decoder yields our tables, whatever pamqp's annotations say."""
    return cast("Table", arguments)


_Handler = Callable[[Channel, Any], None]

_HANDLERS: Final[Mapping[type[Command], _Handler]] = {
    Methods.Flow: Channel._flow,
    Access.Request: Channel._access,
    Basic.Qos: Channel._qos,
    Basic.Consume: Channel._consume,
    Basic.Cancel: Channel._cancel,
    Basic.Get: Channel._get,
    Basic.Nack: Channel._nack,
    Basic.RecoverAsync: Channel._recover_async,
    Basic.Recover: Channel._recover,
    Confirm.Select: Channel._select_confirms,
    Tx.Select: Channel._select_tx,
    Tx.Commit: Channel._commit,
    Tx.Rollback: Channel._rollback,
}
