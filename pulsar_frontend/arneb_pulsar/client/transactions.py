"""Transactions: messages and acknowledgements that take effect together, or not at all.

The rule: a topic joins a transaction before the first message to it is sent, and a subscription
before its first acknowledgement; a commit waits for all its sends and acknowledgements.

Arneb coordinates transactions; Apache Pulsar's brokers do if that is enabled
(``transactionCoordinatorEnabled``).
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

import anyio

from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import (
    ClientClosed,
    ConnectError,
    PulsarError,
    TopicNotFound,
    TransactionCoordinatorNotFound,
    TransactionEnded,
)
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import TransactionId
from arneb_pulsar.client.producer.building import Keywords
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.tasks.waiting import Outcome
from arneb_pulsar.names import TopicName
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    CommandNewTxn,
    CommandTcClientConnectRequest,
    Subscription,
)

T = TypeVar("T")

COORDINATORS: Final = TopicName("persistent", "pulsar/system", "transaction_coordinator_assign")
"""The topic whose partitions' owners are the coordinators."""

TIMEOUT_S: Final = 60.0


class State(Enum):
    """The state of a transaction."""

    OPEN = auto()
    FAILED = auto()
    """An operation in it failed: it can only be aborted."""
    COMMITTING = auto()
    """Its commit was requested. If :meth:`Transaction.commit` did not return, the transaction may
    or may not have taken effect; the commit may be requested again."""
    ABORTING = auto()
    COMMITTED = auto()
    ABORTED = auto()


MOVES: Final = {
    State.OPEN: frozenset({State.FAILED, State.COMMITTING, State.ABORTING}),
    State.FAILED: frozenset({State.ABORTING}),
    State.COMMITTING: frozenset({State.COMMITTING, State.COMMITTED}),
    State.ABORTING: frozenset({State.ABORTING, State.ABORTED}),
    State.COMMITTED: frozenset[State](),
    State.ABORTED: frozenset[State](),
}
"""The legal transitions."""


class Coordinators:
    """The coordinators of a service, and connections to those in use."""

    def __init__(self, context: ClientContext) -> None:
        self.tasks = context.tasks
        self._context = context
        self._count = 0
        self._next = 0
        self._greeted: dict[int, Connection] = {}

    def __repr__(self) -> str:
        return f"<Coordinators {self._count} known, {len(self._greeted)} met>"

    async def choose(self) -> int:
        """Return the next coordinator in turn. Raises :class:`TransactionCoordinatorNotFound` if
        there is none."""
        if not self._count:
            with suppress(TopicNotFound):  # Arneb's answer if it has no coordinators
                self._count = await self._context.lookup.partitions(COORDINATORS, create=False)
        if not self._count:
            raise TransactionCoordinatorNotFound(
                "expected a service that coordinates transactions, got one that does not"
            )
        self._next = (self._next + 1) % self._count
        return self._next

    async def ask(self, coordinator: int, command: Any, what: str) -> Any:
        """Send a command to a coordinator and return its response. Raises the coordinator's error
        and :class:`TimedOut`."""
        context, backoff = self._context, self._context.backoff()
        end = context.clock.now() + context.operation_timeout_s
        while True:
            try:
                connection = await self._connection(coordinator)
                left_s = max(end - context.clock.now(), 0.0)
                return await connection.request(command, what, left_s)
            except (ConnectError, TransactionCoordinatorNotFound):
                # The coordinator moved to another broker, or is not ready yet.
                self._greeted.pop(coordinator, None)
                if context.clock.now() >= end:
                    raise
            await anyio.sleep(backoff.next_s())

    async def _connection(self, coordinator: int) -> Connection:
        found = self._greeted.get(coordinator)
        if found is not None and found.is_open:
            return found
        broker = await self._context.lookup.broker_of(COORDINATORS.part(coordinator))
        found = await self._context.pool.to(broker.address, broker.through)
        hello = CommandTcClientConnectRequest(tc_id=coordinator)
        what = f"transaction coordinator {coordinator}"
        await found.request(hello, what, self._context.operation_timeout_s)
        self._greeted[coordinator] = found
        return found


class Transaction:
    """One transaction. Made by ``Client.begin_transaction``; its ``async with`` commits it at the
    end, or aborts it if the block raises."""

    def __init__(self, coordinators: Coordinators, coordinator: int, number: TransactionId) -> None:
        self.id = number
        self.state = State.OPEN
        self._coordinators = coordinators
        self._coordinator = coordinator
        self._topics: set[str] = set()
        self._subscriptions: set[tuple[str, str]] = set()
        self._lock = anyio.Lock()
        self._under_way = 0
        self._settled = anyio.Condition()
        self._asked: Outcome[None] | None = None
        """The outcome of the commit or abort under way."""

    def __repr__(self) -> str:
        return f"<Transaction {self.id} {self.state.name}, {self._under_way} under way>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.state in (State.COMMITTED, State.ABORTED):
            return
        if error is None:
            try:
                await self.commit()
            except TransactionEnded:
                await self._give_up()
                raise
        else:
            await self._give_up()

    async def _give_up(self) -> None:
        # If the abort fails, the transaction times out; the block's own error matters more.
        with anyio.move_on_after(TIMEOUT_S, shield=True), suppress(PulsarError):
            await self.abort()

    async def send(
        self, producer: Producing[T], value: T | None, **keywords: Unpack[Keywords]
    ) -> MessageId:
        """Send a message in the transaction; consumers get it only after the commit. Raises as
        :meth:`Producer.send`, and :class:`TransactionEnded`."""
        keywords["transaction"] = self
        return await self._do(lambda: self._send(producer, value, keywords))

    async def acknowledge(
        self, consumer: Consuming[T], message: Message[T], *, cumulative: bool = False
    ) -> None:
        """Acknowledge a message in the transaction; it is redelivered if the transaction aborts.
        Raises :class:`TransactionEnded` and the broker's error: :class:`TransactionConflict` if
        another transaction has acknowledged the message."""
        await self._do(lambda: self._acknowledge(consumer, message, cumulative))

    async def commit(self) -> None:
        """Make the transaction take effect. If cancelled, the commit continues, and may be
        requested again. Raises :class:`TransactionEnded` and the coordinator's error. After
        :class:`TimedOut`, or after :class:`TransactionNotFound` because an earlier response was
        lost, the transaction may or may not have taken effect."""
        await self._end(State.COMMITTING, State.COMMITTED, pb.COMMIT)

    async def abort(self) -> None:
        """Drop the transaction's messages and acknowledgements. Raises as :meth:`commit`."""
        await self._end(State.ABORTING, State.ABORTED, pb.ABORT)

    async def _end(self, ending: State, ended: State, action: "pb.TxnAction") -> None:
        self._check(ending)
        async with self._settled:
            while self._under_way:
                await self._settled.wait()
        self._move(ending)
        if self._asked is None:
            self._asked = Outcome()
            self._coordinators.tasks.start_soon(self._ask_for_end, self._asked, ended, action)
        await self._asked.wait()

    async def _ask_for_end(
        self, asked: "Outcome[None]", ended: State, action: "pb.TxnAction"
    ) -> None:
        """End the transaction, in a task of its own: a cancelled caller may ask again, and a
        coordinator refuses a second request while the first is under way."""
        command = CommandEndTxn(
            txnid_most_bits=self.id.most_bits,
            txnid_least_bits=self.id.least_bits,
            txn_action=action,
        )
        try:
            await self._ask(command, f"end of transaction {self.id}")
        except PulsarError as error:
            asked.fail(error)
        else:
            self._move(ended)
            asked.set(None)
        finally:
            self._asked = None
            asked.fail(ClientClosed(f"the client of transaction {self.id} was closed"))

    async def _do(self, do: Callable[[], Awaitable[T]]) -> T:
        self._check(State.FAILED)  # only an open transaction may become FAILED
        self._under_way += 1
        try:
            return await do()
        except PulsarError:
            if self.state is State.OPEN:
                self._move(State.FAILED)
            raise
        finally:
            self._under_way -= 1
            with anyio.CancelScope(shield=True):
                async with self._settled:
                    self._settled.notify_all()

    async def _send(self, producer: Producing[T], value: T | None, keywords: Keywords) -> MessageId:
        # Of a partitioned topic, only the message's partition joins.
        one = producer.chosen(keywords)
        async with self._lock:
            if one.topic not in self._topics:
                command = CommandAddPartitionToTxn(
                    txnid_most_bits=self.id.most_bits,
                    txnid_least_bits=self.id.least_bits,
                    partitions=[one.topic],
                )
                await self._ask(command, f"{one.topic} in transaction {self.id}")
                self._topics.add(one.topic)
        return await one.send(value, **keywords)

    async def _acknowledge(
        self, consumer: Consuming[T], message: Message[T], cumulative: bool
    ) -> None:
        part = message.topic, consumer.subscription
        async with self._lock:
            if part not in self._subscriptions:
                command = CommandAddSubscriptionToTxn(
                    txnid_most_bits=self.id.most_bits,
                    txnid_least_bits=self.id.least_bits,
                    subscription=[Subscription(topic=part[0], subscription=part[1])],
                )
                await self._ask(command, f"{part[1]!r} of {part[0]} in transaction {self.id}")
                self._subscriptions.add(part)
        await consumer.acknowledge_in(self, message, cumulative=cumulative)

    async def _ask(self, command: Any, what: str) -> None:
        await self._coordinators.ask(self._coordinator, command, what)

    def _check(self, wanted: State) -> None:
        """Raise :class:`TransactionEnded` if ``wanted`` is not a legal next state."""
        if wanted not in MOVES[self.state]:
            raise TransactionEnded(
                f"expected transaction {self.id} to be open, it is {self.state.name}"
            )

    def _move(self, wanted: State) -> None:
        self._check(wanted)
        self.state = wanted


async def begin(coordinators: Coordinators, timeout_s: float) -> Transaction:
    """Begin a transaction, which its coordinator aborts after ``timeout_s``. Raises
    :class:`PulsarError`."""
    coordinator = await coordinators.choose()
    command = CommandNewTxn(tc_id=coordinator, txn_ttl_seconds=int(timeout_s * 1_000))
    reply = await coordinators.ask(coordinator, command, "a new transaction")
    number = TransactionId(reply.txnid_most_bits, reply.txnid_least_bits)
    return Transaction(coordinators, coordinator, number)
