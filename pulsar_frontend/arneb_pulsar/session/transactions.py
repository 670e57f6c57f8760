"""Transactions of one connection: what a client asks of the coordinator, and the answers.

The rule: the broker keeps the transactions, not the connection: a client may continue with one over
another connection. The commands that Apache Pulsar's brokers send each other are refused: a
transaction ends in one place.
"""

from typing import Any, Final

from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.effects import BeginTransaction, EndTransaction, JoinTransaction
from arneb_pulsar.session.interface.events import TransactionAnswered, TransactionRequest
from arneb_pulsar.session.output import Output
from arneb_pulsar.transactions.states import COORDINATOR, TransactionId
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    CommandNewTxn,
    CommandTcClientConnectRequest,
)

SMALL: Final = frozenset(
    {
        BaseCommand.NEW_TXN,
        BaseCommand.ADD_PARTITION_TO_TXN,
        BaseCommand.ADD_SUBSCRIPTION_TO_TXN,
        BaseCommand.END_TXN,
    }
)
"""Requests that cost about as much as a message, with answers as small. Many threads of a client
make them over one connection, so that a read brings several."""

BETWEEN_BROKERS = Failure(
    pb.NotAllowedError, "expected END_TXN: a transaction ends at its coordinator, all of it at once"
)


class Transactions:
    """Answers what a client asks of the coordinator."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __repr__(self) -> str:
        return f"<Transactions over {self._output!r}>"

    def connect(self, command: CommandTcClientConnectRequest) -> None:
        """TC_CLIENT_CONNECT_REQUEST."""
        failure = _elsewhere(command.tc_id)
        kind = TransactionRequest.CONNECT
        self.answered(TransactionAnswered(command.request_id, kind, None, failure))

    def begin(self, command: CommandNewTxn) -> None:
        """NEW_TXN. The protocol's field says seconds, but holds milliseconds."""
        if (failure := _elsewhere(command.tc_id)) is not None:
            kind = TransactionRequest.NEW
            self.answered(TransactionAnswered(command.request_id, kind, None, failure))
            return
        self._output.do(BeginTransaction(command.request_id, command.txn_ttl_seconds))

    def add_partitions(self, command: CommandAddPartitionToTxn) -> None:
        """ADD_PARTITION_TO_TXN."""
        self._output.do(
            JoinTransaction(command.request_id, id_of(command), partitions=[*command.partitions])
        )

    def add_subscriptions(self, command: CommandAddSubscriptionToTxn) -> None:
        """ADD_SUBSCRIPTION_TO_TXN."""
        joined = [(each.topic, each.subscription) for each in command.subscription]
        self._output.do(JoinTransaction(command.request_id, id_of(command), subscriptions=joined))

    def end(self, command: CommandEndTxn) -> None:
        """END_TXN."""
        commit = command.txn_action == pb.COMMIT
        self._output.do(EndTransaction(command.request_id, id_of(command), commit=commit))

    def end_on_partition(self, command: Any) -> None:
        """END_TXN_ON_PARTITION."""
        self._refuse(command, TransactionRequest.END_ON_PARTITION)

    def end_on_subscription(self, command: Any) -> None:
        """END_TXN_ON_SUBSCRIPTION."""
        self._refuse(command, TransactionRequest.END_ON_SUBSCRIPTION)

    def answered(self, event: TransactionAnswered) -> None:
        """Send the coordinator's answer."""
        failure = event.failure
        self._output.send(
            commands.transaction_response(
                event.kind.value,
                event.request_id,
                None if event.transaction is None else (
                    event.transaction.most_bits, event.transaction.least_bits
                ),
                None if failure is None else (failure.code, failure.text),
            )
        )  # fmt: skip

    def _refuse(self, command: Any, kind: TransactionRequest) -> None:
        answer = TransactionAnswered(command.request_id, kind, id_of(command), BETWEEN_BROKERS)
        self.answered(answer)


def id_of(command: Any) -> TransactionId:
    """Return the transaction that a command names."""
    return TransactionId(command.txnid_most_bits, command.txnid_least_bits)


def _elsewhere(coordinator: int) -> Failure | None:
    if coordinator == COORDINATOR:
        return None
    text = f"expected coordinator {COORDINATOR}, the only one, got {coordinator}"
    return Failure(pb.TransactionCoordinatorNotFound, text)
