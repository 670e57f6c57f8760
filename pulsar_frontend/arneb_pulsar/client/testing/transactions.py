"""Transactions in memory: the fake broker's coordinators, and the parts of each transaction.

The rule: an ended transaction is forgotten, as by Pulsar's coordinators: a client that asks again,
because the response was lost, is told that there is no such transaction. Expired transactions are
aborted before any request is served.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from google.protobuf.message import Message as Command

from arneb_pulsar.client.errors import (
    ServerRefused,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
)
from arneb_pulsar.client.messages import TransactionId
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandAddPartitionToTxn,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxn,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxn,
    CommandEndTxnResponse,
    CommandNewTxn,
    CommandNewTxnResponse,
    CommandTcClientConnectRequest,
    CommandTcClientConnectResponse,
    ServerError,
)

COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign"
"""The topic whose partitions' owners are the coordinators."""


class Part(Protocol):
    """A topic or a subscription that takes part in a transaction."""

    def end_transaction(self, transaction: TransactionId, *, commit: bool) -> None:
        """Commit or abort its part of a transaction."""


@dataclass(slots=True, eq=False)
class FakeTransaction:
    """An open transaction."""

    until_ms: int
    parts: list[Part] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<FakeTransaction until {self.until_ms} with {len(self.parts)} parts>"


class FakeTransactions:
    """All transactions of a fake broker. ``part_of`` finds a topic, or one of its subscriptions."""

    def __init__(self, part_of: Callable[[str, str], Part]) -> None:
        self.committed: set[TransactionId] = set()
        """The committed transactions, for tests."""
        self._part_of = part_of
        self._open: dict[TransactionId, FakeTransaction] = {}
        self._numbers = 0

    def __repr__(self) -> str:
        return f"<FakeTransactions {len(self._open)} open, {len(self.committed)} committed>"

    def is_open(self, transaction: TransactionId) -> bool:
        """Return whether a transaction still accepts messages and acknowledgements."""
        return transaction in self._open

    def begin(self, coordinator: int, until_ms: int) -> TransactionId:
        """Begin a transaction."""
        number = TransactionId(coordinator, self._numbers)
        self._numbers += 1
        self._open[number] = FakeTransaction(until_ms)
        return number

    def add(self, transaction: TransactionId, topic: str, subscription: str = "") -> None:
        """Add a topic or a subscription to a transaction. Raises :class:`TransactionNotFound`."""
        found = self._find(transaction)
        part = self._part_of(topic, subscription)
        if part not in found.parts:
            found.parts.append(part)

    def end(self, transaction: TransactionId, *, commit: bool) -> None:
        """Commit or abort a transaction. Raises :class:`TransactionNotFound`."""
        found = self._find(transaction)
        del self._open[transaction]
        if commit:
            self.committed.add(transaction)
        for part in found.parts:
            part.end_transaction(transaction, commit=commit)

    def expire(self, now_ms: int) -> None:
        """Abort expired transactions."""
        for number in [each for each, found in self._open.items() if now_ms >= found.until_ms]:
            self.end(number, commit=False)

    def _find(self, transaction: TransactionId) -> FakeTransaction:
        if (found := self._open.get(transaction)) is None:
            raise TransactionNotFound(f"no transaction {transaction}")
        return found


class Coordinating(Protocol):
    """The broker, as its coordinators see it."""

    @property
    def transactions(self) -> FakeTransactions: ...

    def partitions(self, name: str) -> int: ...

    def owner(self, name: str) -> str: ...

    def now_ms(self) -> int: ...


def coordinated(broker: Coordinating, url: str, command: Any) -> Command | None:
    """Answer a command for a coordinator at ``url``; return None for any other command."""
    kind = _ANSWERS.get(type(command))
    if kind is None:
        return None
    reply: Any = kind(request_id=command.request_id)
    try:
        _do(broker, url, command, reply)
    except ServerRefused as error:
        reply.error = ServerError.ValueType(error.code)
        reply.message = str(error)
    return reply  # type: ignore[no-any-return]


def _do(broker: Coordinating, url: str, command: Any, reply: Any) -> None:
    transactions = broker.transactions
    match command:
        case CommandTcClientConnectRequest():
            _check_here(broker, url, command.tc_id)
        case CommandNewTxn():
            _check_here(broker, url, command.tc_id)
            made = transactions.begin(command.tc_id, broker.now_ms() + command.txn_ttl_seconds)
            reply.txnid_most_bits, reply.txnid_least_bits = made.most_bits, made.least_bits
        case CommandAddPartitionToTxn():
            for topic in command.partitions:
                transactions.add(_named(broker, url, command), topic)
        case CommandAddSubscriptionToTxn():
            for each in command.subscription:
                transactions.add(_named(broker, url, command), each.topic, each.subscription)
        case CommandEndTxn():
            number = _named(broker, url, command)
            transactions.end(number, commit=command.txn_action == pb.COMMIT)


def _named(broker: Coordinating, url: str, command: Any) -> TransactionId:
    _check_here(broker, url, command.txnid_most_bits)
    return TransactionId(command.txnid_most_bits, command.txnid_least_bits)


def _check_here(broker: Coordinating, url: str, coordinator: int) -> None:
    topic = f"{COORDINATORS}-partition-{coordinator}"
    if coordinator >= broker.partitions(COORDINATORS) or broker.owner(topic) != url:
        raise TransactionCoordinatorNotFound(f"no coordinator {coordinator} at {url}")


_ANSWERS: Final[dict[type[Any], type[Any]]] = {
    CommandTcClientConnectRequest: CommandTcClientConnectResponse,
    CommandNewTxn: CommandNewTxnResponse,
    CommandAddPartitionToTxn: CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxn: CommandAddSubscriptionToTxnResponse,
    CommandEndTxn: CommandEndTxnResponse,
}
