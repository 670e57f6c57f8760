"""Answers: what a client acknowledges, rejects and requeues on one channel.

The rule: answers are handled by the run, and no more of them in a turn than its bounds allow: the
rest of a method is handled in the next turn. In a transaction they are only remembered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from arneb_amqp.session.consume.consumer import ChannelConsumer
from arneb_amqp.session.consume.stream_reader import check_no_stream
from arneb_amqp.session.consume.unacked import Unacked, unknown_tag
from arneb_amqp.session.context import ChannelContext, Pause
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_amqp.session.effects import Reject, Release, Wake
from arneb_amqp.session.transaction import Answer, Transaction
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.items import AckRun, RejectRun
from arneb_core.api.subscriptions.windows import Window

ANSWERS_PER_TURN: Final = 40_000
"""Deliveries that one method answers in a turn: some 2 ms."""

TRANSACTION_ANSWERS_PER_TURN: Final = 2_000
"""The same in a transaction, which remembers every answer until it ends."""

_ANSWERS: Final = {True: Answer.RELEASE, False: Answer.REJECT}  # by whether the client requeues


class Answers:
    """The deliveries of a channel that await an answer, and what the answers do.

    ``unacked`` has these deliveries; ``streams`` has the queues of the consumers that read streams,
    whose deliveries can only be acknowledged. The consumers and their shared window belong to the
    :class:`.Deliverer`.
    """

    __slots__ = (
        "_channel", "_consumers", "_context", "_given_back", "_orphans", "_window", "streams",
        "unacked",
    )  # fmt: skip

    def __init__(
        self,
        context: ChannelContext,
        channel: ChannelId,
        consumers: Mapping[str, ChannelConsumer],
        window: Window,
    ) -> None:
        self._context = context
        self._channel = channel
        self._consumers = consumers
        self._window = window
        self.unacked = Unacked()
        self.streams: dict[ConsumerId, str] = {}
        self._orphans: dict[ConsumerId, None] = {}  # a set takes three times the memory
        self._given_back = 0

    def __repr__(self) -> str:
        return f"<Answers on channel {self._channel}, {self.unacked!r}>"

    def acknowledged(self, transaction: Transaction | None) -> int:
        """Deliveries that need no answer any more and were not returned, except those in
        ``transaction``. Those that never needed one are included."""
        pending = 0 if transaction is None else len(transaction.pending)
        answered = self.unacked.next_tag - 1 - len(self.unacked)
        return answered - self._given_back - pending

    def take_unacked(self) -> Unacked:
        """Remove and return all that is unanswered: the channel ends."""
        unacked, self.unacked = self.unacked, Unacked()
        return unacked

    def orphaned(self, owner: ConsumerId) -> None:
        """Note that a consumer's queue is gone. Answers to its deliveries reach nobody, but as in
        RabbitMQ they fill the channel's prefetch until the client answers."""
        if owner not in self._orphans and (count := self.unacked.count(owner)):
            self._orphans[owner] = None
            self._window.in_flight += count

    def acknowledge(self, tags: Sequence[int], transaction: Transaction | None) -> None:
        """Acknowledge these deliveries. Raises 406 for an unknown tag; those before it count."""
        if transaction is not None:
            count = TRANSACTION_ANSWERS_PER_TURN
            self._add_answers(tags[:count], transaction, Answer.ACKNOWLEDGE)
            if rest := tags[count:]:
                self._context.work_left = 0
                raise Pause(AckRun(self._channel, list(rest)))
            return
        groups, unknown = self.unacked.pop(tags)
        for answered in groups:
            self._context.effects.acknowledge(answered)
        if self._orphans:
            self._free_prefetch(groups)
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
            self._free_prefetch(groups)
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
        for part in [[tag] for tag in tags] if self.streams else [tags]:
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

    def recover(self) -> None:
        """Requeue everything unanswered."""
        self._give_back(self.unacked.pop_all(), requeue=True)

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
            self._free_prefetch(list(groups.values()))

    def _give_back(self, groups: Sequence[AnsweredDeliveries], *, requeue: bool) -> None:
        check_no_stream(groups, self.streams)
        for answered in groups:
            self._given_back += answered.messages
            if requeue:
                self._context.effects.emit(Release(answered))
            else:
                self._context.effects.reject(answered)
        self._free_prefetch(groups)

    def _part_through(self, tag: int) -> int | None:
        """Return the tag at which this turn must stop; None = ``tag`` itself."""
        if tag and tag not in self.unacked:
            return None
        part = self.unacked.part_through(tag, ANSWERS_PER_TURN)
        if part is not None:
            self._context.work_left = 0
        return part

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
            check_no_stream(groups, self.streams)
        transaction.add_answers(groups, pending, answer)

    def _free_prefetch(self, groups: Sequence[AnsweredDeliveries]) -> None:
        """Free the room of answered orphans in the shared window: nobody else counts them."""
        freed = sum(each.messages for each in groups if each.consumer in self._orphans)
        if freed:
            self._window.in_flight -= freed
            if self._consumers:
                ids = tuple(consumer.id for consumer in self._consumers.values())
                self._context.effects.emit(Wake(ids))
