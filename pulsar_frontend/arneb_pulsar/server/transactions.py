"""Transactions of one connection: what its session asks of the coordinator, carried out.

The rule: each request is answered by one event, whatever goes wrong. What belongs to a transaction
is counted before its task begins, so that no commit asked for later overtakes it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, CoreError
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.names import InvalidTopicName, parse_topic
from arneb_pulsar.server.request_tasks import RequestTasks
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.services.clients.consumers import ClientConsumer
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.topic_lifecycle import tell_if_ended
from arneb_pulsar.services.transactions.open_transaction import ACKS_MAX, OpenTransaction
from arneb_pulsar.session.errors import Failure, RequestRefused, refusal_of
from arneb_pulsar.session.interface.effects import (
    AcknowledgeInTransaction,
    BeginTransaction,
    EndTransaction,
    JoinTransaction,
)
from arneb_pulsar.session.interface.events import (
    Acknowledged,
    TransactionAnswered,
    TransactionRequest,
)
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

Spawn = Callable[[Callable[[], Awaitable[None]]], None]
"""Runs something in a task of the connection, as one of its requests."""

Parts = dict[Position, tuple[int, int]]

REQUEST_BYTES: Final = 32
"""The size of a NEW_TXN or END_TXN command."""


class ConnectionTransactions:
    """Carries out what a connection's transactions ask for."""

    def __init__(
        self, context: BrokerContext, connection: ClientConnection, tasks: RequestTasks
    ) -> None:
        self._context = context
        self._connection = connection
        self._tasks = tasks
        self.units_left = 0
        """How much more may be done in this turn, in small requests."""

    def __repr__(self) -> str:
        return f"<ConnectionTransactions {self._context.transactions!r}>"

    @property
    def _owner(self) -> Caller | None:
        """Whose transactions this client may extend and end; None: everybody's. As in Pulsar, only
        a super user may do so with another's; what is sent and acknowledged is its owner's."""
        return self._context.rights.owner(self._connection.caller)

    def begin(self, effect: BeginTransaction) -> None:
        """Begin a transaction."""
        if self._context.transactions.is_ready:
            self._begin(effect)
        else:
            self._tasks.spawn(self._prepare, effect, 0)

    async def _prepare(self, effect: BeginTransaction) -> None:
        try:
            await self._context.transactions.prepare()
        except CoreError as error:
            kind = TransactionRequest.NEW
            self._answer(TransactionAnswered(effect.request_id, kind, None, refusal_of(error)))
        else:
            self._begin(effect)

    def _begin(self, effect: BeginTransaction) -> None:
        kind = TransactionRequest.NEW
        self.units_left -= 1

        def begun(error: CommitFailed | None, made: TransactionId) -> None:
            self._tasks.ended(REQUEST_BYTES)
            if error is None:
                self._answer(TransactionAnswered(effect.request_id, kind, made, None))
            else:
                failure = refusal_of(error)
                self._answer(TransactionAnswered(effect.request_id, kind, None, failure))

        self._tasks.begun(REQUEST_BYTES)
        try:
            self._context.transactions.begin(effect.timeout_ms, self._connection.caller, begun)
        except RequestRefused as error:
            self._tasks.ended(REQUEST_BYTES)
            self._answer(TransactionAnswered(effect.request_id, kind, None, error.failure))

    def join(self, effect: JoinTransaction) -> None:
        """Let topics or subscriptions take part."""
        kind, failure = TransactionRequest.ADD_PARTITION, None
        self.units_left -= 1 + len(effect.partitions) + len(effect.subscriptions)
        if effect.subscriptions:
            kind = TransactionRequest.ADD_SUBSCRIPTION
        try:
            names = [_full(each) for each in effect.partitions]
            others = [(_full(topic), name) for topic, name in effect.subscriptions]
            together = (*names, *(topic for topic, _ in others))
            self._context.ownership.check_together(map(parse_topic, together))
            self._context.transactions.join(effect.transaction, self._owner, names, others)
        except (InvalidTopicName, RequestRefused) as error:
            failure = (
                refusal_of(error)
                if isinstance(error, RequestRefused)
                else Failure(pb.InvalidTopicName, str(error))
            )
        self._answer(TransactionAnswered(effect.request_id, kind, effect.transaction, failure))

    def end(self, effect: EndTransaction) -> None:
        """Commit or abort."""

        def ended(error: CommitFailed | None) -> None:
            self._tasks.ended(REQUEST_BYTES)
            self._ended(effect, None if error is None else refusal_of(error))

        self.units_left -= 1 + self._context.transactions.units(effect.transaction)
        try:
            is_begun = self._context.transactions.end_at_once(
                effect.transaction, self._owner, commit=effect.commit, done=ended
            )
        except RequestRefused as error:
            self._ended(effect, error.failure)
            return
        if is_begun:
            self._tasks.begun(REQUEST_BYTES)
        else:
            self._tasks.spawn(self._end, effect, REQUEST_BYTES)

    async def _end(self, effect: EndTransaction) -> None:
        """As :meth:`end`, when there is more to wait for than a commit."""
        failure = None
        try:
            await self._context.transactions.end(
                effect.transaction, self._owner, commit=effect.commit
            )
        except (CoreError, RequestRefused) as error:
            failure = refusal_of(error)
        self._ended(effect, failure)

    def _ended(self, effect: EndTransaction, failure: Failure | None) -> None:
        kind = TransactionRequest.END
        self._answer(TransactionAnswered(effect.request_id, kind, effect.transaction, failure))

    # Acknowledgements

    def acknowledge(
        self, effect: AcknowledgeInTransaction, attached: ClientConsumer, spawn: Spawn
    ) -> None:
        """Acknowledge as part of a transaction."""
        try:
            found = self._context.transactions.find(effect.transaction, self._connection.caller)
        except RequestRefused as refused:
            self._receipt(effect, refused.failure)
            return
        found.begin_one()

        async def carry_out() -> None:
            failure = None
            try:
                await self._acknowledge(found, effect, attached)
            except (CoreError, RequestRefused) as error:
                failure = refusal_of(error)
            finally:
                found.end_one()
            self._receipt(effect, failure)
            if attached.topic.id in self._context.namespaces.ended:
                tell_if_ended(self._context, attached.topic, attached.subscription)

        spawn(carry_out)

    async def _acknowledge(
        self,
        found: OpenTransaction,
        effect: AcknowledgeInTransaction,
        attached: ClientConsumer,
    ) -> None:
        topic, subscription = attached.topic, attached.subscription
        last = topic.last
        whole = [*effect.whole]
        masks: dict[Position, int] = {}
        for (
            position,
            mask,
        ) in effect.partial:  # Java's client names each message of a batch by itself
            masks[position] = masks.get(position, 0) | mask
        if effect.until is not None:
            whole, masks = _through(subscription, effect.until, masks)
        whole = [position for position in whole if last is not None and position <= last]
        parts: Parts = {}
        for position, mask in masks.items():
            entry = await topic.entry_at(position)
            if entry is not None:
                size = messages_in(entry)
                mask &= (1 << size) - 1
                if mask or effect.until is None:
                    parts[position] = mask, size
        if effect.until is not None and not (whole or parts):
            named = LedgerIds(topic.id).render(effect.until)
            text = f"everything up to {named} is acknowledged already"
            raise RequestRefused(pb.TransactionConflict, text)
        await self._context.transactions.acknowledge(
            found, topic, subscription, whole, parts, is_cumulative=effect.until is not None
        )

    def _receipt(self, effect: AcknowledgeInTransaction, failure: Failure | None) -> None:
        if effect.request_id is not None:
            self._connection.tell(Acknowledged(effect.consumer_id, effect.request_id, failure))

    def _answer(self, event: TransactionAnswered) -> None:
        self._connection.tell(event)


def _through(
    subscription: Subscription, until: Position, masks: Mapping[Position, int]
) -> tuple[list[Position], dict[Position, int]]:
    """Return what is neither acknowledged nor withheld up to ``until``: whole entries, and messages
    of batches; of those in ``masks``, only these messages."""
    whole: list[Position] = []
    parts: dict[Position, int] = {}
    for position in subscription.unacknowledged(ACKS_MAX + 1):
        if position > until:
            break
        mask = ~subscription.withheld_of(position)
        if mask == -1 and position not in masks:
            whole.append(position)
        elif mask:
            mask &= subscription.masks.get(position, -1) & masks.get(position, -1)
            if mask:
                parts[position] = mask
    return whole, parts


def _full(topic: str) -> str:
    """Return the full topic name. Raises :class:`InvalidTopicName`."""
    return str(parse_topic(topic))
