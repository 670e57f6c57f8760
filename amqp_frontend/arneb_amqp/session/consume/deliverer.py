"""Delivering: the consumers of one channel and what is sent to them.

The rule: deliveries are handled by the run. Messages are handled one by one only where it is
necessary: a batch of another protocol, or a run of which some are redelivered. What the client
answers is handled by :mod:`arneb_amqp.session.consume.answers`.
"""

from functools import partial
from operator import itemgetter
from typing import Final

from arneb_amqp.consumption import Consumption
from arneb_amqp.errors import not_allowed
from arneb_amqp.routing.reply_to import REPLY_TO, ReplyTo
from arneb_amqp.session.compressed_runs import Messages
from arneb_amqp.session.consume.ack_timeouts import AckTimeouts, timed_out
from arneb_amqp.session.consume.answers import Answers
from arneb_amqp.session.consume.consumer import ChannelConsumer, ConsumerState
from arneb_amqp.session.consume.stream_reader import of_stream
from arneb_amqp.session.consume.unbatching import unbatched
from arneb_amqp.session.context import ChannelContext, VhostContext
from arneb_amqp.session.deliveries import ConsumerId, consumer_of
from arneb_amqp.session.effects import Consume, Leave, Wake
from arneb_amqp.session.events import Pulled
from arneb_amqp.session.transaction import Transaction
from arneb_amqp.traffic import QueueTraffic
from arneb_amqp.wire.constants import ChannelId, DeliveryTag
from arneb_amqp.wire.deliver import DeliverEncoder, encode_get_ok
from arneb_amqp.wire.tables import Table
from arneb_core.api.entries.entry import Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import Window

_ORIGIN: Final = itemgetter(1)
_AMQP: Final = bytes((Origin.AMQP,))


class Deliverer:
    """The consuming half of a channel.

    ``window`` is the prefetch limit that the channel's consumers share; ``prefetch`` is the limit
    of each later consumer.
    """

    __slots__ = (
        "_ack_timeouts", "_context", "_getters", "_no_ack", "_vhost", "answers", "channel",
        "consumers", "got", "got_no_ack", "got_nothing", "prefetch", "redelivered", "reply_to",
        "window",
    )  # fmt: skip

    def __init__(
        self, context: ChannelContext, vhost: VhostContext, channel: ChannelId, reply_to: ReplyTo
    ) -> None:
        self._context = context
        self._vhost = vhost
        self.reply_to = reply_to
        self.channel = channel
        self._getters: dict[tuple[str, bool], ConsumerId] = {}
        self.consumers: dict[str, ChannelConsumer] = {}
        self.prefetch = 0
        self._ack_timeouts = AckTimeouts()
        self.window = Window()
        self.answers = Answers(context, channel, self.consumers, self.window)
        self.got = self.got_no_ack = self.got_nothing = self.redelivered = 0
        self._no_ack = 0

    def __repr__(self) -> str:
        count = len(self.consumers)
        return f"<Deliverer of channel {self.channel}, {count} consumers, {self.answers.unacked!r}>"

    @property
    def delivered_no_ack(self) -> int:
        """Messages delivered to consumers that do not acknowledge."""
        return self._no_ack - self.got_no_ack

    @property
    def delivered(self) -> int:
        """Messages delivered to consumers that acknowledge."""
        return self.answers.unacked.next_tag - 1 - self._no_ack - self.got

    def acknowledged(self, transaction: Transaction | None) -> int:
        """Messages that the client has acknowledged, except those in ``transaction``."""
        return self.answers.acknowledged(transaction) - self._no_ack

    def limit_to(self, prefetch: int, limit: int) -> None:
        """Set the limit of each later consumer, and the shared one; 0 = no limit."""
        before = self.window.limit
        self.prefetch, self.window.limit = prefetch, limit
        if before and not 0 < limit <= before:
            ids = tuple(consumer.id for consumer in self.consumers.values())
            self._context.effects.emit(Wake(ids))

    def begin(
        self, tag: str, queue: str, *, no_ack: bool, exclusive: bool, arguments: Table
    ) -> tuple[ChannelConsumer, Consume]:
        """Return a new consumer and the request that attaches it. Raises 530 for a tag in use."""
        answers = queue == REPLY_TO
        if tag in self.consumers and not (answers and tag == self.reply_to.tag):
            raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
        if answers:
            self.reply_to.check(no_ack=no_ack)
        tag = tag or f"amq.ctag-{self._context.new_name()}"
        if answers:
            # RabbitMQ ignores arguments here: it has no queue to apply them to.
            queue, arguments = self.reply_to.begin(self._context.new_name(), tag), {}
        consumer = ChannelConsumer(
            self._context.next_consumer(), self.channel, tag, queue, no_ack,
            DeliverEncoder(self.channel, tag, self._context.frame_bytes_max), self.deliver,
            ConsumerState.ATTACHING, [], QueueTraffic(),
        )  # fmt: skip
        windows = (Window(self.prefetch), self.window)
        wanted = Consumption(
            queue, tag, no_ack, exclusive, arguments, windows, self.channel, answers
        )
        request = Consume(consumer.id, wanted)
        self.consumers[tag] = consumer
        self._context.register(consumer)
        return consumer, request

    def attached(self, consumer: ChannelConsumer) -> None:
        """Activate a consumer whose ``basic.consume`` has been answered."""
        if consumer.state is not ConsumerState.ATTACHING:
            return
        consumer.state = ConsumerState.ACTIVE
        consumer.traffic = self._vhost.queue_traffic(consumer.queue)
        if consumer.stream is not None:
            self.answers.streams[consumer.id] = consumer.stream.filter.queue
        self._time(consumer.id, consumer.queue)
        early, consumer.early = consumer.early, []
        for owner, run in early:
            self.deliver(consumer, owner, run)

    def remove(self, consumer: ChannelConsumer) -> None:
        """Remove a consumer; its deliveries may still be answered."""
        consumer.state = ConsumerState.CANCELLED
        self.reply_to.ended(consumer.tag)
        if self.consumers.get(consumer.tag) is consumer:
            del self.consumers[consumer.tag]
        self._context.forget(consumer.id)

    def orphaned(self, owner: ConsumerId) -> None:
        """Note that a consumer's queue is gone."""
        if consumer_of(owner) not in self._getters.values():
            self.answers.orphaned(owner)

    def leave(self) -> Leave:
        """End consuming and return the request that requeues all that the core has not back."""
        ids = (*(consumer.id for consumer in self.consumers.values()), *self._getters.values())
        for consumer in list(self.consumers.values()):
            self.remove(consumer)
        self._context.output.compressed.forget(self.channel)
        unacked = self.answers.take_unacked()
        self._context.discarded.add(unacked)
        return Leave(self.channel, ids)

    def deliver(self, consumer: ChannelConsumer, owner: ConsumerId, run: Deliveries) -> None:
        """Send a run of deliveries that ``owner`` has in flight, once it is opened."""
        compressed = self._context.output.compressed
        is_foreign = bool(bytes(map(_ORIGIN, run.entries)).strip(_AMQP))
        if (is_foreign or compressed) and compressed.takes(self.channel, run):
            compressed.put(self.channel, consumer.queue, run, partial(self._send, consumer, owner))
            return
        whole: Messages = (run.positions, run.entries, {})
        self._send(consumer, owner, run, unbatched(run, consumer.queue) if is_foreign else whole)

    def _send(
        self, consumer: ChannelConsumer, owner: ConsumerId, run: Deliveries, messages: Messages
    ) -> None:
        if consumer.state is ConsumerState.CANCELLED:
            return  # the core has taken them back
        positions, entries, parts = messages
        if consumer.stream is not None:
            positions, entries, parts, passed = of_stream(consumer.stream, owner, run, messages)
            if passed is not None:
                self._context.effects.acknowledge(passed)
            if not entries:
                return
        seen = run.redelivered
        redelivered = [position in seen for position in positions] if seen else []
        again = sum(redelivered)
        self.redelivered += again
        consumer.traffic.deliver(len(positions), again, no_ack=consumer.no_ack)
        first = self._tags(owner, positions, parts, no_ack=consumer.no_ack)
        chunks = consumer.encoder.encode_run(DeliveryTag(first), entries, redelivered or False)
        self._context.output.send_chunks(chunks)

    def check_ack_timeouts(self, now: float, timeout_s: float) -> None:
        """Raise 406 when a delivery has waited too long for its answer. The queues' own timeouts
        are read again: they may have changed."""
        for consumer in self.consumers.values():
            own_s = self._vhost.ack_timeout_s(consumer.queue)
            self._ack_timeouts.change(consumer.id, own_s)
            if own_s is not None:
                self._context.check_ack_timeouts_within(own_s)
        here = {each.id for each in self.consumers.values()} | set(self._getters.values())
        if self._ack_timeouts.is_over(self.answers.unacked, here, now, timeout_s):
            raise timed_out(self.channel, self._ack_timeouts.timeout_s)

    def _time(self, owner: ConsumerId, queue: str) -> None:
        """Apply the acknowledgement timeout of ``queue``, if any, to ``owner``."""
        timeout_s = self._vhost.ack_timeout_s(queue)
        if timeout_s is not None:
            self._ack_timeouts.begin(owner, timeout_s)
            self._context.check_ack_timeouts_within(timeout_s)

    def getter(self, queue: str, *, no_ack: bool) -> ConsumerId:
        """Return the consumer id that holds what ``basic.get`` takes from ``queue``."""
        key = (queue, no_ack)
        if key not in self._getters:
            self._getters[key] = self._context.next_consumer()
            self._time(self._getters[key], queue)
        return self._getters[key]

    def send_pulled(self, queue: str, pulled: Pulled, *, no_ack: bool) -> None:
        """Send ``basic.get-ok`` with the one message that was pulled."""
        run = pulled.run
        positions, entries = run.positions, run.entries
        parts: dict[int, int] = {}
        if entries[0][1] != Origin.AMQP:
            positions, entries, parts = pulled.messages or unbatched(run, queue)
        assert len(entries) == 1, "basic.get pulls one message"
        redelivered = run.redelivered is not None and positions[0] in run.redelivered
        self.redelivered += redelivered
        if no_ack:
            self.got_no_ack += 1
        else:
            self.got += 1
        first = self._tags(pulled.owner, positions, parts, no_ack=no_ack)
        chunks = encode_get_ok(
            self.channel, DeliveryTag(first), redelivered, entries[0], pulled.message_count,
            self._context.frame_bytes_max,
        )  # fmt: skip
        self._context.output.send_chunks(chunks)

    def _tags(
        self, owner: ConsumerId, positions: list[Position], parts: dict[int, int], *, no_ack: bool
    ) -> int:
        unacked = self.answers.unacked
        if no_ack:
            self._no_ack += len(positions)
            return unacked.skip(len(positions))
        if parts:
            return unacked.add_parts(owner, positions, parts)
        return unacked.add(owner, positions)
