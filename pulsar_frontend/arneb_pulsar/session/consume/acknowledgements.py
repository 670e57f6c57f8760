"""Acknowledgements: ACK in the core's terms, and the receipts for those that ask for one.

The rule: a receipt says that the acknowledgement is durable, or why it failed; a client that asks
for none hears nothing either way.
"""

from collections.abc import Iterator

from arneb_core.api.entries.position import Position
from arneb_pulsar.packing.message_ids import IDS_PER_TURN, position_of, split_acks
from arneb_pulsar.session.consume.consumer import Consumer
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.effects import (
    Acknowledge,
    AcknowledgeInTransaction,
    AcknowledgeUntil,
)
from arneb_pulsar.session.output import Output
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.ack_sets import done_mask
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandAck


def acknowledge(output: Output, consumer: Consumer, command: CommandAck, raw: bytes) -> None:
    """Handle ACK of an attached consumer, which came in the bytes ``raw``. A client that found a
    message broken acknowledges it too."""
    request_id = command.request_id if command.HasField("request_id") else None
    consumer_id = consumer.consumer_id
    if command.txnid_most_bits or command.txnid_least_bits:
        _acknowledge_in(output, consumer, command, raw, request_id)
    elif command.ack_type == CommandAck.Individual and len(command.message_id) > IDS_PER_TURN:
        output.do_in_pieces(_in_pieces(consumer, command, raw, request_id))
    elif command.ack_type == CommandAck.Individual:
        whole, partial = split_acks(command.message_id, raw, consumer.ledger_ids)
        output.do(Acknowledge(consumer.key, consumer_id, whole, partial, request_id))
    else:
        _acknowledge_until(output, consumer, command, request_id)


def _in_pieces(
    consumer: Consumer, command: CommandAck, raw: bytes, request_id: int | None
) -> Iterator[Acknowledge]:
    """Split an ACK into acknowledgements of one turn each. The last brings the receipt: the cursor
    written for it has all the earlier ones too."""
    key, consumer_id, ids = consumer.key, consumer.consumer_id, command.message_id
    for start in range(0, len(ids), IDS_PER_TURN):
        behind = start + IDS_PER_TURN
        whole, partial = split_acks(ids[start:behind], raw, consumer.ledger_ids)
        answered = request_id if behind >= len(ids) else None
        yield Acknowledge(key, consumer_id, whole, partial, answered)


def answer_ack(
    output: Output, consumer_id: int, request_id: int | None, failure: Failure | None
) -> None:
    """Send the receipt, or the failure, if the client asked for one."""
    if request_id is None:
        return
    if failure is None:
        output.send(commands.ack_response(consumer_id, request_id))
    else:
        output.send(commands.ack_response(consumer_id, request_id, failure.code, failure.text))


def _acknowledge_in(
    output: Output, consumer: Consumer, command: CommandAck, raw: bytes, request_id: int | None
) -> None:
    """Handle an ACK that is part of a transaction."""
    transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    key, consumer_id = consumer.key, consumer.consumer_id
    ids = command.message_id
    failure = None
    if command.ack_type == CommandAck.Individual:
        if len(ids) > IDS_PER_TURN:
            text = f"expected at most {IDS_PER_TURN} messages in one ACK of a transaction"
            failure = Failure(pb.NotAllowedError, text)
        whole, partial = split_acks(ids[:IDS_PER_TURN], raw, consumer.ledger_ids)
        effect = AcknowledgeInTransaction(
            key, consumer_id, transaction, whole, partial, None, request_id
        )
    else:
        position, failure = _cumulative(consumer, command)
        words = ids[0].ack_set if ids else ()
        partial = [(position, done_mask(words))] if words and position is not None else []
        effect = AcknowledgeInTransaction(
            key, consumer_id, transaction, [], partial, position, request_id
        )
    if failure is None:
        output.do(effect)
    else:
        answer_ack(output, consumer_id, request_id, failure)


def _cumulative(consumer: Consumer, command: CommandAck) -> tuple[Position | None, Failure | None]:
    """Return up to where a consumer acknowledges, or why it may not."""
    position = None
    if len(command.message_id) == 1:
        position = position_of(command.message_id[0], consumer.ledger_ids)
    if consumer.shares:
        text = "Cumulative acknowledgement on a shared subscription"
        return None, Failure(pb.NotAllowedError, text)
    if position is None:
        text = "A cumulative acknowledgement names one message"
        return None, Failure(pb.NotAllowedError, text)
    return position, None


def _acknowledge_until(
    output: Output, consumer: Consumer, command: CommandAck, request_id: int | None
) -> None:
    position, failure = _cumulative(consumer, command)
    consumer_id = consumer.consumer_id
    if position is None:
        answer_ack(output, consumer_id, request_id, failure)
    else:
        words = command.message_id[0].ack_set
        mask = done_mask(words) if words else None
        output.do(AcknowledgeUntil(consumer.key, consumer_id, position, mask, request_id))
