"""Acknowledgements: ACK in the core's words, and the receipts of those that ask for one.

The rule: a receipt says that the acknowledgement is durable, or why it is none; whoever asks for
none hears nothing either way.
"""

from collections.abc import Iterator

from arneb_pulsar.packing.places import IDS_PER_TURN, position_of, split_acks
from arneb_pulsar.session.consumer import Consumer
from arneb_pulsar.session.effects import Acknowledge, AcknowledgeUntil
from arneb_pulsar.session.errors import NO_TRANSACTIONS, Failure
from arneb_pulsar.session.output import Output
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.ack_sets import done_mask
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandAck


def acknowledge(output: Output, consumer: Consumer, command: CommandAck, raw: bytes) -> None:
    """ACK of an attached consumer, which came in the bytes ``raw``. A client that found a message
    broken acknowledges it too."""
    request_id = command.request_id if command.HasField("request_id") else None
    consumer_id = consumer.consumer_id
    if command.txnid_most_bits or command.txnid_least_bits:
        answer_ack(output, consumer_id, request_id, NO_TRANSACTIONS)
    elif command.ack_type == CommandAck.Individual and len(command.message_id) > IDS_PER_TURN:
        output.do_in_pieces(_in_pieces(consumer, command, raw, request_id))
    elif command.ack_type == CommandAck.Individual:
        whole, partial = split_acks(command.message_id, raw)
        output.do(Acknowledge(consumer.key, consumer_id, whole, partial, request_id))
    else:
        _acknowledge_until(output, consumer, command, request_id)


def _in_pieces(
    consumer: Consumer, command: CommandAck, raw: bytes, request_id: int | None
) -> Iterator[Acknowledge]:
    """So many acknowledgements that others have their turn meanwhile. The receipt is that of the
    last: the cursor that is written for it has all before it too."""
    key, consumer_id, ids = consumer.key, consumer.consumer_id, command.message_id
    for start in range(0, len(ids), IDS_PER_TURN):
        behind = start + IDS_PER_TURN
        whole, partial = split_acks(ids[start:behind], raw)
        answered = request_id if behind >= len(ids) else None
        yield Acknowledge(key, consumer_id, whole, partial, answered)


def answer_ack(
    output: Output, consumer_id: int, request_id: int | None, failure: Failure | None
) -> None:
    """The receipt, or that there is none; nothing, if nobody asked."""
    if request_id is None:
        return
    if failure is None:
        output.send(commands.ack_response(consumer_id, request_id))
    else:
        output.send(commands.ack_response(consumer_id, request_id, failure.code, failure.text))


def _acknowledge_until(
    output: Output, consumer: Consumer, command: CommandAck, request_id: int | None
) -> None:
    place = position_of(command.message_id[0]) if len(command.message_id) == 1 else None
    consumer_id = consumer.consumer_id
    if consumer.shares:
        text = "Cumulative acknowledgement on a shared subscription"
        answer_ack(output, consumer_id, request_id, Failure(pb.NotAllowedError, text))
    elif place is None:
        text = "A cumulative acknowledgement names one message"
        answer_ack(output, consumer_id, request_id, Failure(pb.NotAllowedError, text))
    else:
        words = command.message_id[0].ack_set
        mask = done_mask(words) if words else None
        output.do(AcknowledgeUntil(consumer.key, consumer_id, place, mask, request_id))
