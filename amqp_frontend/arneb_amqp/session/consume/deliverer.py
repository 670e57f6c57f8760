"""Delivering: consumers, deliveries and their acknowledgement, on one channel.

The rule: deliveries and acks are handled by the run. Messages are handled one by one only where it
is necessary: a batch of another protocol, or a run of which some are redelivered.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Final

from arneb_amqp.consumption import Consumption
from arneb_amqp.errors import not_allowed
from arneb_amqp.routing.reply_to import REPLY_TO, ReplyTo
from arneb_amqp.session.compressed_runs import Messages
from arneb_amqp.session.consume.ack_timeouts import AckTimeouts, timed_out
from arneb_amqp.session.consume.consumer import ChannelConsumer, ConsumerState
from arneb_amqp.session.consume.stream_reader import check_no_stream, of_stream
from arneb_amqp.session.consume.unacked import Unacked, unknown_tag
from arneb_amqp.session.consume.unbatching import unbatched
from arneb_amqp.session.context import ChannelContext, Pause, VhostContext
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId, consumer_of
from arneb_amqp.session.effects import Consume, Leave, Reject, Release, Wake
from arneb_amqp.session.events import Pulled
from arneb_amqp.session.transaction import Answer, Transaction
from arneb_amqp.traffic import QueueTraffic
from arneb_amqp.wire.constants import ChannelId, DeliveryTag
from arneb_amqp.wire.deliver import DeliverEncoder, encode_get_ok
from arneb_amqp.wire.items import AckRun, RejectRun
from arneb_amqp.wire.tables import Table
from arneb_core.api.entries.entry import Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import Window

ANSWERS_PER_TURN: Final = 40_000
"""Deliveries that one method answers in a turn: some 2 ms."""

TRANSACTION_ANSWERS_PER_TURN: Final = 2_000
"""The same in a transaction, which remembers every answer until it ends."""

_ANSWERS: Final = {True: Answer.RELEASE, False: Answer.REJECT}  # by whether the client requeues

_ORIGIN: Final = itemgetter(1)
_AMQP: Final = bytes((Origin.AMQP,))


class Deliverer:
    """The consuming half of a channel.

    ``window`` is the prefetch limit that the channel's consumers share; ``prefetch`` is the limit
    of each later consumer.
    """

    __slots__ = (
        "_ack_timeouts", "_context", "_getters", "_given_back", "_no_ack", "_orphans", "_streams",
        "_vhost", "channel", "consumers", "got", "got_no_ack", "got_nothing", "prefetch",
        "redelivered", "reply_to", "unacked", "window",
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
        self._streams: dict[ConsumerId, str] = {}
        self._orphans: dict[ConsumerId, None] = {}  # a set takes three times the memory
        self.prefetch = 0
        self.unacked = Unacked()
        self._ack_timeouts = AckTimeouts()
        self.window = Window()
        self.got = self.got_no_ack = self.got_nothing = self.redelivered = 0
        self._no_ack = 0
        self._given_back = 0

    def __repr__(self) -> str:
        count = len(self.consumers)
        return f"<Deliverer of channel {self.channel}, {count} consumers, {self.unacked!r}>"

    @property
    def delivered_no_ack(self) -> int:
        """Messages delivered to consumers that do not acknowledge."""
        return self._no_ack - self.got_no_ack

    @property
    def delivered(self) -> int:
        """Messages delivered to consumers that acknowledge."""
        return self.unacked.next_tag - 1 - self._no_ack - self.got

    def acknowledged(self, transaction: Transaction | None) -> int:
        """Messages that the client has acknowledged, except those in ``transaction``: those that
        needed an answer, were answered and were not returned."""
        pending = 0 if transaction is None else len(transaction.pending)
        answered = self.unacked.next_tag - 1 - self._no_ack - len(self.unacked)
        return answered - self._given_back - pending

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
            self._streams[consumer.id] = consumer.stream.filter.queue
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
        """Note that a consumer's queue is gone. Answers to its deliveries reach nobody, but as in
        RabbitMQ they fill the channel's prefetch until the client answers."""
        if owner in self._orphans or consumer_of(owner) in self._getters.values():
            return
        if count := self.unacked.count(owner):
            self._orphans[owner] = None
            self.window.in_flight += count

    def _answered(self, groups: Sequence[AnsweredDeliveries]) -> None:
        """Free the room of answered orphans in the shared window: nobody else counts them."""
        freed = sum(each.messages for each in groups if each.consumer in self._orphans)
        if freed:
            self.window.in_flight -= freed
            if self.consumers:
                ids = tuple(consumer.id for consumer in self.consumers.values())
                self._context.effects.emit(Wake(ids))

    def leave(self) -> Leave:
        """End consuming and return the request that requeues all that the core has not back."""
        ids = (*(consumer.id for consumer in self.consumers.values()), *self._getters.values())
        for consumer in list(self.consumers.values()):
            self.remove(consumer)
        self._context.output.compressed.forget(self.channel)
        unacked, self.unacked = self.unacked, Unacked()
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

    def acknowledge(self, tags: Sequence[int], transaction: Transaction | None) -> None:
        """Acknowledge these deliveries. Raises 406 for an unknown tag; those before it count."""
        if transaction is not None:
            count = TRANSACTION_ANSWERS_PER_TURN
            self._add_answers(tags[:count], transaction, Answer.ACKNOWLEDGE)
            if rest := tags[count:]:
                self._context.work_left = 0
                raise Pause(AckRun(self.channel, list(rest)))
            return
        groups, unknown = self.unacked.pop(tags)
        for answered in groups:
            self._context.effects.acknowledge(answered)
        if self._orphans:
            self._answered(groups)
        if unknown is not None:
            raise unknown_tag(unknown)

    def acknowledge_through(self, tag: int, transaction: Transaction | None) -> None:
        """Acknowledge everything up to ``tag``; 0 means all."""
        if transaction is not None:
            self._add_answers_through(tag, transaction, Answer.ACKNOWLEDGE)
            return
        part = self._part_through(tag)
        groups, unknown = self.unacked.pop_through(tag if part is None else part)
        if unknown is not None:
            raise unknown_tag(unknown)
        for answered in groups:
            self._context.effects.acknowledge(answered)
        if self._orphans:
            self._answered(groups)
        if part is not None:
            raise Pause

    def reject(self, run: RejectRun, transaction: Transaction | None) -> None:
        """Requeue or discard these deliveries. Raises 406 for an unknown tag and 540 for a delivery
        of a stream; those before it count."""
        tags = run.tags
        if transaction is not None:
            count = TRANSACTION_ANSWERS_PER_TURN
            self._add_answers(tags[:count], transaction, _ANSWERS[run.requeue])
            if rest := tags[count:]:
                self._context.work_left = 0
                raise Pause(replace(run, tags=rest))
            return
        for part in [[tag] for tag in tags] if self._streams else [tags]:
            groups, unknown = self.unacked.pop(part)
            self._give_back(groups, requeue=run.requeue)
            if unknown is not None:
                raise unknown_tag(unknown)

    def reject_through(self, tag: int, transaction: Transaction | None, *, requeue: bool) -> None:
        """Requeue or discard everything up to ``tag``; 0 means all."""
        if transaction is not None:
            self._add_answers_through(tag, transaction, _ANSWERS[requeue])
            return
        part = self._part_through(tag)
        groups, unknown = self.unacked.pop_through(tag if part is None else part)
        if unknown is not None:
            raise unknown_tag(unknown)
        self._give_back(groups, requeue=requeue)
        if part is not None:
            raise Pause

    def _give_back(self, groups: Sequence[AnsweredDeliveries], *, requeue: bool) -> None:
        check_no_stream(groups, self._streams)
        for answered in groups:
            self._given_back += answered.messages
            if requeue:
                self._context.effects.emit(Release(answered))
            else:
                self._context.effects.reject(answered)
        self._answered(groups)

    def _part_through(self, tag: int) -> int | None:
        """Return the tag at which this turn must stop; None = ``tag`` itself."""
        if tag and tag not in self.unacked:
            return None
        part = self.unacked.part_through(tag, ANSWERS_PER_TURN)
        if part is not None:
            self._context.work_left = 0
        return part

    def check_ack_timeouts(self, now: float, timeout_s: float) -> None:
        """Raise 406 when a delivery has waited too long for its answer. The queues' own timeouts
        are read again: they may have changed."""
        for consumer in self.consumers.values():
            own_s = self._vhost.ack_timeout_s(consumer.queue)
            self._ack_timeouts.change(consumer.id, own_s)
            if own_s is not None:
                self._context.check_ack_timeouts_within(own_s)
        here = {each.id for each in self.consumers.values()} | set(self._getters.values())
        if self._ack_timeouts.is_over(self.unacked, here, now, timeout_s):
            raise timed_out(self.channel, self._ack_timeouts.timeout_s)

    def _time(self, owner: ConsumerId, queue: str) -> None:
        """Apply the acknowledgement timeout of ``queue``, if any, to ``owner``."""
        timeout_s = self._vhost.ack_timeout_s(queue)
        if timeout_s is not None:
            self._ack_timeouts.begin(owner, timeout_s)
            self._context.check_ack_timeouts_within(timeout_s)

    def recover(self) -> None:
        """Requeue everything unanswered."""
        self._give_back(self.unacked.pop_all(), requeue=True)

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
        if no_ack:
            self._no_ack += len(positions)
            return self.unacked.skip(len(positions))
        if parts:
            return self.unacked.add_parts(owner, positions, parts)
        return self.unacked.add(owner, positions)

    def _add_answers_through(self, tag: int, transaction: Transaction, answer: Answer) -> None:
        """Answer everything up to ``tag`` in a transaction, or as much as a turn may."""
        if tag and tag not in self.unacked:
            raise unknown_tag(tag)
        tags = self.unacked.tags_through(tag, TRANSACTION_ANSWERS_PER_TURN)
        self._add_answers(tags, transaction, answer)
        if tags and tags[-1] < tag:
            self._context.work_left = 0
            raise Pause

    def _add_answers(self, tags: Sequence[int], transaction: Transaction, answer: Answer) -> None:
        transaction.expect(len(tags))
        self._context.work_left -= len(tags)
        pending = self.unacked.snapshot(tags)
        groups, unknown = self.unacked.pop(tags)
        if unknown is not None:
            raise unknown_tag(unknown)
        if answer is not Answer.ACKNOWLEDGE:
            check_no_stream(groups, self._streams)
        transaction.add_answers(groups, pending, answer)

    def rollback(self, transaction: Transaction) -> None:
        """Restore the deliveries that the transaction answered. Raises :class:`.Pause` when they
        are too many for a turn; the next call continues."""
        pending = transaction.pending
        while pending:
            if (work_left := self._context.work_left) <= 0:
                raise Pause
            count = min(len(pending), work_left)
            self.unacked.restore([pending.popleft() for _ in range(count)])
            self._context.work_left -= count

    def committed(self, transaction: Transaction) -> None:
        """Requeue and reject what the committed transaction answered so."""
        for answer, effect in ((Answer.RELEASE, Release), (Answer.REJECT, Reject)):
            for each in transaction.answers[answer].values():
                self._given_back += each.messages
                self._context.effects.emit(effect(each))
        for groups in transaction.answers.values():
            self._answered(list(groups.values()))
