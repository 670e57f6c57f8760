"""Consumers: subscribing, delivering, acknowledging, seeking, leaving."""

import pytest
from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, position_at
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType as Type
from arneb_pulsar.codec import CODEC
from arneb_pulsar.names import parse_topic
from arneb_pulsar.packing.counts import ConsumerCounts
from arneb_pulsar.session.consume.consumer import Consumer
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.effects import (
    Acknowledge,
    AcknowledgeInTransaction,
    AcknowledgeUntil,
    AddPermits,
    AttachConsumer,
    DescribeConsumer,
    DetachConsumer,
    ReadLast,
    Redeliver,
    Seek,
    Unsubscribe,
)
from arneb_pulsar.session.interface.events import (
    Acknowledged,
    ConsumerAttached,
    ConsumerClosed,
    ConsumerDescribed,
    ConsumerRefused,
    Delivered,
    LastRead,
    LastUnread,
    SeekDone,
    Unsubscribed,
)
from arneb_pulsar.session.transitions import CONSUMER_MOVES, ConsumerInput, ConsumerState
from arneb_pulsar.session.translation import UNREADABLE
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire.ack_sets import ALL_MESSAGES
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandAck, CommandSubscribe, MessageIdData

MINUS_ONE = (1 << 64) - 1
LARGEST = (1 << 63) - 1
FIRST = position_at(1, 0)
CLOSED_BY_BROKER = sent(pb.CommandCloseConsumer(consumer_id=1, request_id=MINUS_ONE))


def subscribe(**fields: object) -> CommandSubscribe:
    values = {
        "topic": "t",
        "subscription": "s",
        "subType": CommandSubscribe.Shared,
        "consumer_id": 1,
        "request_id": 5,
        "consumer_name": "me",
    }
    return CommandSubscribe(**(values | fields))


def attach(play: Playbook, **fields: object) -> int:
    """Attach a consumer; its key."""
    play >> received(subscribe(**fields))
    key = play.take(AttachConsumer).key
    play >> ConsumerAttached(key) << sent(pb.CommandSuccess(request_id=5))
    return key


def success(request_id: int) -> object:
    return sent(pb.CommandSuccess(request_id=request_id))


def error(request_id: int, code: int, text: str) -> object:
    return sent(pb.CommandError(request_id=request_id, error=code, message=text))


# Coming and going


def test_subscribe_asks_for_an_attachment() -> None:
    play = Playbook() >> received(
        subscribe(
            priority_level=3,
            force_topic_creation=False,
            initialPosition=CommandSubscribe.Earliest,
            metadata=[{"key": "a", "value": "b"}],
            subscription_properties=[{"key": "c", "value": "d"}],
        )
    )
    play << AttachConsumer(
        key=1, topic=parse_topic("t"), subscription="s", type=Type.SHARED, name="me", priority=3,
        durable=True, create_topic=False, initial=InitialPosition.EARLIEST, start=None,
        rollback_s=0, compacted=False, sharing=KeySharing(), properties={"a": "b"},
        subscription_properties={"c": "d"},
    )  # fmt: skip
    play.over()


@pytest.mark.parametrize(
    ("meta", "sharing"),
    [
        (None, KeySharing()),
        ({"keySharedMode": pb.AUTO_SPLIT}, KeySharing(KeySharingMode.CONSISTENT_HASHING)),
        (
            {"keySharedMode": pb.AUTO_SPLIT, "allowOutOfOrderDelivery": True},
            KeySharing(KeySharingMode.CONSISTENT_HASHING, in_order=False),
        ),
        (
            {
                "keySharedMode": pb.STICKY,
                "hashRanges": [{"start": 0, "end": 9}, {"start": 20, "end": 29}],
            },
            KeySharing(KeySharingMode.STICKY, ((0, 9), (20, 29))),
        ),
    ],
)
def test_subscribe_says_how_keys_are_shared_out(
    meta: dict[str, object] | None, sharing: KeySharing
) -> None:
    fields = {} if meta is None else {"keySharedMeta": meta}
    play = Playbook() >> received(subscribe(subType=CommandSubscribe.Key_Shared, **fields))
    effect = play.take(AttachConsumer)
    assert (effect.type, effect.sharing) == (Type.KEY_SHARED, sharing)


@pytest.mark.parametrize(
    ("place", "initial", "start"),
    [
        (None, InitialPosition.LATEST, None),
        ((MINUS_ONE, MINUS_ONE), InitialPosition.EARLIEST, None),
        ((LARGEST, LARGEST), InitialPosition.LATEST, None),
        ((3, 7), InitialPosition.LATEST, (3, 7)),
        ((3, MINUS_ONE), InitialPosition.LATEST, (3, -1)),
    ],
)
def test_a_reader_starts_at_its_message_inclusively(
    place: tuple[int, int] | None, initial: InitialPosition, start: tuple[int, int] | None
) -> None:
    command = subscribe(durable=False)
    if place is not None:
        command.start_message_id.ledgerId, command.start_message_id.entryId = place
    play = Playbook() >> received(command)
    effect = play.take(AttachConsumer)
    assert (effect.durable, effect.initial, effect.start) == (False, initial, start)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"read_compacted": True}, pb.NotAllowedError),
        ({"topic": " "}, pb.InvalidTopicName),
        ({"subscription": ""}, pb.NotAllowedError),
        ({"subscription": "x" * 1100}, pb.NotAllowedError),
    ],
)
def test_what_there_is_not_is_refused_at_once(fields: dict[str, object], code: int) -> None:
    play = Playbook() >> received(subscribe(**fields))
    answer = play.heard().command
    assert (answer.request_id, answer.error) == (5, code)
    play.over()


def test_a_refused_consumer_gets_the_reason() -> None:
    play = Playbook() >> received(subscribe())
    key = play.take(AttachConsumer).key
    play >> ConsumerRefused(key, Failure(pb.ConsumerBusy, "taken"))
    play << error(5, pb.ConsumerBusy, "taken")
    play.over()


def test_subscribing_again_is_answered_at_once() -> None:
    play = Playbook() >> received(subscribe(), subscribe(request_id=6))
    assert play.heard().command.error == pb.ServiceNotReady
    play >> ConsumerAttached(play.take(AttachConsumer).key) << success(5)
    play >> received(subscribe(request_id=7)) << success(7)
    play.over()


def test_closing_detaches() -> None:
    play = Playbook()
    key = attach(play)
    close = pb.CommandCloseConsumer(consumer_id=1, request_id=9)
    play >> received(close) << DetachConsumer(key) << success(9)
    play >> received(close) << success(9)
    play >> Delivered(key, Deliveries([FIRST], [pulsar_entry()]))
    play.over()


def test_closing_while_attaching_gives_up_what_is_attached() -> None:
    play = Playbook() >> received(subscribe())
    key = play.take(AttachConsumer).key
    play >> received(pb.CommandCloseConsumer(consumer_id=1, request_id=9)) << success(9)
    play >> ConsumerAttached(key) << DetachConsumer(key)
    play.over()


def test_a_consumer_that_the_core_detached_has_to_subscribe_again() -> None:
    play = Playbook()
    key = attach(play)
    play >> ConsumerClosed(key) << CLOSED_BY_BROKER
    play >> received(pb.CommandFlow(consumer_id=1, messagePermits=5))
    play.over()
    assert attach(play) != key


def test_unsubscribing() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandUnsubscribe(consumer_id=1, request_id=9, force=True))
    play << Unsubscribe(key, True)
    play >> ConsumerClosed(key)
    play.over()
    play >> Unsubscribed(key, None) << success(9)
    play.over()


def test_unsubscribing_in_vain_leaves_the_consumer() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandUnsubscribe(consumer_id=1, request_id=9)) << Unsubscribe(key, False)
    play >> Unsubscribed(key, Failure(pb.MetadataError, "others"))
    play << error(9, pb.MetadataError, "others")
    play >> received(pb.CommandFlow(consumer_id=1, messagePermits=5)) << AddPermits(key, 5)
    play.over()


def test_unsubscribing_that_fails_late_sends_the_consumer_back() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandUnsubscribe(consumer_id=1, request_id=9))
    play.take(Unsubscribe)
    play >> ConsumerClosed(key) >> Unsubscribed(key, Failure(pb.PersistenceError, "disk"))
    play << error(9, pb.PersistenceError, "disk") << CLOSED_BY_BROKER
    play.over()


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandUnsubscribe(consumer_id=1, request_id=9),
        pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=1),
        pb.CommandGetLastMessageId(consumer_id=1, request_id=9),
    ],
)
def test_requests_for_no_consumer_are_refused(command: object) -> None:
    play = Playbook() >> received(command) << error(9, pb.MetadataError, "Consumer not found")
    play.over()


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandFlow(consumer_id=1, messagePermits=5),
        CommandAck(consumer_id=1, ack_type=CommandAck.Individual, request_id=3),
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1),
    ],
)
def test_what_needs_no_answer_is_dropped_for_no_consumer(command: object) -> None:
    (Playbook() >> received(command)).over()
    attaching = Playbook() >> received(subscribe())
    attaching.take(AttachConsumer)
    (attaching >> received(command)).over()


# Delivering


def pulsar_entry(body: bytes = b"body") -> bytes:
    return EntryHeader(Origin.PULSAR).pack() + body


def message(entry: int, body: bytes, **fields: object) -> object:
    place = MessageIdData(ledgerId=1, entryId=entry)
    return sent(pb.CommandMessage(consumer_id=1, message_id=place, **fields), body)


def test_deliveries_become_messages() -> None:
    play = Playbook()
    key = attach(play)
    positions = [position_at(1, 4), position_at(1, 5)]
    run = Deliveries(positions, [pulsar_entry(b"a"), pulsar_entry(b"b")])
    play >> Delivered(key, run) << message(4, b"a") << message(5, b"b")
    play.over()


def test_redelivered_and_half_acknowledged_entries_say_so() -> None:
    play = Playbook()
    key = attach(play)
    run = Deliveries(
        [position_at(1, 4), position_at(1, 5)],
        [pulsar_entry(b"a"), pulsar_entry(b"b")],
        redelivered={position_at(1, 4)},
        redelivery_counts={position_at(1, 4): 3},
        masks={position_at(1, 5): 0b101},
    )
    play >> Delivered(key, run)
    play << message(4, b"a", redelivery_count=3) << message(5, b"b", ack_set=[5])
    play.over()


def test_a_partitions_messages_carry_its_index() -> None:
    play = Playbook()
    key = attach(play, topic="t-partition-3")
    play >> Delivered(key, Deliveries([position_at(1, 4)], [pulsar_entry()]))
    assert play.heard().command.message_id.partition == 3


def test_an_entry_that_cannot_be_translated_is_delivered_as_it_is() -> None:
    """No codec for that origin is a defect, but a message is never skipped for it."""
    play = Playbook()
    key = attach(play)
    foreign = EntryHeader(Origin.AMQP).pack() + b"not AMQP"
    entries = [pulsar_entry(), foreign]
    play >> Delivered(key, Deliveries([position_at(1, 4), position_at(1, 5)], entries))
    play << message(4, b"body")
    body = play.heard().payload
    (decoded,) = CODEC.decode(EntryHeader(Origin.PULSAR).pack() + body)
    assert decoded.value == b"not AMQP"
    assert UNREADABLE in decoded.properties


def test_permits_are_passed_on() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandFlow(consumer_id=1, messagePermits=1000)) << AddPermits(key, 1000)
    play >> received(pb.CommandFlow(consumer_id=1, messagePermits=0))
    play.over()


def test_redelivery_on_a_shared_subscription_is_by_message_and_counts() -> None:
    play = Playbook()
    key = attach(play)
    command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
    play >> received(command) << Redeliver(key, None, count=True)
    command.message_ids.add(ledgerId=1, entryId=7)
    command.message_ids.add(ledgerId=MINUS_ONE, entryId=7)
    play >> received(command) << Redeliver(key, [position_at(1, 7)], count=True)
    command.message_ids.add(ledgerId=1, entryId=7)  # once more, and counted once
    play >> received(command) << Redeliver(key, [position_at(1, 7)], count=True)
    play.over()


def test_redelivery_on_an_exclusive_subscription_is_a_rewind() -> None:
    play = Playbook()
    key = attach(play, subType=CommandSubscribe.Exclusive)
    command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
    command.message_ids.add(ledgerId=1, entryId=7)
    play >> received(command) << Redeliver(key, None, count=False)
    play.over()


def test_messages_carry_the_epoch_of_the_last_redelivery() -> None:
    play = Playbook()
    key = attach(play, subType=CommandSubscribe.Exclusive, consumer_epoch=1)
    run = Deliveries([position_at(1, 4)], [pulsar_entry()])
    play >> Delivered(key, run)
    assert play.heard().command.consumer_epoch == 1
    command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=2)
    play >> received(command) << Redeliver(key, None, count=False)
    play >> Delivered(key, run)
    assert play.heard().command.consumer_epoch == 2


# Acknowledging


def ack(kind: int, *ids: tuple[int, int, list[int]], **fields: object) -> CommandAck:
    command = CommandAck(consumer_id=1, ack_type=kind, **fields)
    for ledger, entry, words in ids:
        command.message_id.add(ledgerId=ledger, entryId=entry, ack_set=words)
    return command


def test_individual_acks_are_whole_entries_and_parts_of_batches() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(ack(CommandAck.Individual, (1, 2, []), (1, 3, [0b1001]), (1, 5, [])))
    partly = [(position_at(1, 3), ALL_MESSAGES & ~0b1001)]
    play << Acknowledge(key, 1, [position_at(1, 2), position_at(1, 5)], partly, None)
    play.over()


def test_a_receipt_comes_only_when_the_ack_is_durable() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(ack(CommandAck.Individual, (1, 2, []), request_id=8))
    play << Acknowledge(key, 1, [position_at(1, 2)], [], 8)
    play.over()
    play >> Acknowledged(1, 8, None) << sent(pb.CommandAckResponse(consumer_id=1, request_id=8))
    play.over()


def test_a_failed_ack_is_reported() -> None:
    play = Playbook()
    attach(play)
    play >> Acknowledged(1, 8, Failure(pb.PersistenceError, "disk"))
    answer = play.heard().command
    assert (answer.request_id, answer.error, answer.message) == (8, pb.PersistenceError, "disk")


def test_cumulative_acks_on_an_exclusive_subscription() -> None:
    play = Playbook()
    key = attach(play, subType=CommandSubscribe.Exclusive)
    play >> received(ack(CommandAck.Cumulative, (1, 7, [])))
    play << AcknowledgeUntil(key, 1, position_at(1, 7), None, None)
    play >> received(ack(CommandAck.Cumulative, (1, 8, [0b100]), request_id=3))
    play << AcknowledgeUntil(key, 1, position_at(1, 8), ALL_MESSAGES & ~0b100, 3)
    play.over()


@pytest.mark.parametrize(
    ("subscription_type", "ids"),
    [
        (CommandSubscribe.Shared, [(1, 7, [])]),
        (CommandSubscribe.Exclusive, []),
        (CommandSubscribe.Exclusive, [(1, 7, []), (1, 8, [])]),
        (CommandSubscribe.Exclusive, [(MINUS_ONE, 7, [])]),
    ],
)
def test_cumulative_acks_that_cannot_be_are_refused(
    subscription_type: int, ids: list[tuple[int, int, list[int]]]
) -> None:
    play = Playbook()
    attach(play, subType=subscription_type)
    play >> received(ack(CommandAck.Cumulative, *ids, request_id=3))
    assert play.heard().command.error == pb.NotAllowedError
    play >> received(ack(CommandAck.Cumulative, *ids))
    play.over()


def test_acks_of_a_transaction_name_it() -> None:
    play = Playbook()
    attach(play)
    of = {"txnid_most_bits": 0, "txnid_least_bits": 1}
    play >> received(ack(CommandAck.Individual, (1, 2, []), (1, 3, [6]), request_id=3, **of))
    effect = play.take(AcknowledgeInTransaction)
    assert effect.transaction == TransactionId(0, 1)
    assert (effect.whole, effect.until) == ([position_at(1, 2)], None)
    assert [place for place, _ in effect.partial] == [position_at(1, 3)]
    too_many = [(1, number, []) for number in range(1_001)]
    play >> received(ack(CommandAck.Individual, *too_many, request_id=4, **of))
    assert play.heard().command.error == pb.NotAllowedError
    play.over()


# Seeking and asking


@pytest.mark.parametrize(
    ("message_id", "place", "mask"),
    [
        (MessageIdData(ledgerId=2, entryId=3), position_at(2, 3), None),
        (MessageIdData(ledgerId=2, entryId=3, ack_set=[6]), position_at(2, 3), 6),
        (MessageIdData(ledgerId=2, entryId=3, ack_set=[0]), position_at(2, 4), None),
        (MessageIdData(ledgerId=MINUS_ONE, entryId=MINUS_ONE), BEFORE_ALL, None),
        (MessageIdData(ledgerId=LARGEST, entryId=LARGEST), AFTER_ALL, None),
    ],
)
def test_seeking_to_a_message(message_id: MessageIdData, place: int, mask: int | None) -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandSeek(consumer_id=1, request_id=9, message_id=message_id))
    play << Seek(key, 9, place, mask, None)
    play.over()


def test_a_time_before_1970_is_before_everything() -> None:
    """Java's client sends -60,000 ms as an unsigned number."""
    play = Playbook()
    key = attach(play)
    time_ms = (1 << 64) - 60_000
    play >> received(pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=time_ms))
    play << Seek(key, 9, None, None, 0)
    play.over()


def test_all_consumers_are_sent_back_before_the_seek_is_answered() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=77))
    play << Seek(key, 9, None, None, 77)
    play >> ConsumerClosed(key) << CLOSED_BY_BROKER
    play >> SeekDone(key, 9, None) << success(9)
    play.over()
    attach(play)


def test_a_consumer_may_come_back_before_the_seek_is_answered() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=77))
    play.take(Seek)
    play >> ConsumerClosed(key) << CLOSED_BY_BROKER
    again = attach(play)
    play >> SeekDone(key, 9, None) << success(9)
    play >> Delivered(again, Deliveries([FIRST], [pulsar_entry()])) << message(0, b"body")
    play.over()


def test_a_failed_seek_is_an_unknown_error_and_leaves_the_consumer() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=77))
    play.take(Seek)
    play >> SeekDone(key, 9, Failure(pb.UnknownError, "no")) << error(9, pb.UnknownError, "no")
    play >> received(pb.CommandFlow(consumer_id=1, messagePermits=5)) << AddPermits(key, 5)


def test_a_second_seek_at_once_is_an_unknown_error() -> None:
    play = Playbook()
    attach(play)
    seek = pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=77)
    play >> received(seek, pb.CommandSeek(consumer_id=1, request_id=10, message_publish_time=7))
    play.take(Seek)
    answer = play.heard().command
    assert (answer.request_id, answer.error) == (10, pb.UnknownError)


def test_a_seek_to_nowhere_is_refused() -> None:
    play = Playbook()
    attach(play)
    play >> received(pb.CommandSeek(consumer_id=1, request_id=9))
    assert play.heard().command.error == pb.MetadataError
    play.over()


def test_closing_during_a_seek() -> None:
    play = Playbook()
    key = attach(play)
    play >> received(pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=77))
    play.take(Seek)
    play >> received(pb.CommandCloseConsumer(consumer_id=1, request_id=10))
    play << DetachConsumer(key) << success(10)
    play >> SeekDone(key, 9, None) << success(9)
    play.over()


@pytest.mark.parametrize(("size", "index"), [(-1, -1), (1, 0), (10, 9)])
def test_the_last_message_id(size: int, index: int) -> None:
    play = Playbook()
    key = attach(play, topic="t-partition-2")
    play >> received(pb.CommandGetLastMessageId(consumer_id=1, request_id=9)) << ReadLast(key, 9)
    play >> LastRead(key, 9, position_at(4, 5), size, position_at(4, 2))
    answer = play.heard().command
    last, before = answer.last_message_id, answer.consumer_mark_delete_position
    assert (last.ledgerId, last.entryId, last.partition, last.batch_index) == (4, 5, 2, index)
    assert (before.ledgerId, before.entryId) == (4, 2)
    play >> LastUnread(9, Failure(pb.UnknownError, "no")) << error(9, pb.UnknownError, "no")
    play.over()


@pytest.mark.parametrize(
    ("kind", "name", "unacked"),
    [
        (CommandSubscribe.Shared, "Shared", 10),
        (CommandSubscribe.Key_Shared, "Key_Shared", 10),
        (CommandSubscribe.Exclusive, "Exclusive", 0),
        (CommandSubscribe.Failover, "Failover", 0),
    ],
)
def test_statistics_of_a_consumer(kind: int, name: str, unacked: int) -> None:
    """What it has not acknowledged is counted where several share, as in Pulsar."""
    play = Playbook()
    key = attach(play, subType=kind)
    play >> received(pb.CommandConsumerStats(request_id=9, consumer_id=1))
    play << DescribeConsumer(key, 9)
    known = SubscriptionStatistics("s", Type.SHARED, True, 1, 12, 2, 10, 0, FIRST, 0, 0, 0)
    since = "2026-01-02T03:04:05.678Z"
    play >> ConsumerDescribed(key, 9, known, 10, -3, True, "127.0.0.1:9", since)
    answer = play.heard().command
    assert answer.connectedSince == since
    assert (answer.consumerName, answer.type, answer.address) == ("me", name, "127.0.0.1:9")
    assert (answer.msgBacklog, answer.unackedMessages, answer.availablePermits) == (12, unacked, 0)
    assert answer.blockedConsumerOnUnackedMsgs
    play >> received(pb.CommandConsumerStats(request_id=10, consumer_id=2))
    assert play.heard().command.error_code == pb.ConsumerNotFound


@pytest.mark.parametrize("state", ConsumerState)
@pytest.mark.parametrize("happened", ConsumerInput)
def test_a_consumer_moves_along_the_table_only(
    state: ConsumerState, happened: ConsumerInput
) -> None:
    consumer = Consumer(1, 1, 1, Type.SHARED, "me", -1, None, ConsumerCounts())
    consumer.state = state
    assert consumer.may(happened) == ((state, happened) in CONSUMER_MOVES)
    if consumer.may(happened):
        consumer.move(happened)
        assert consumer.state is CONSUMER_MOVES[state, happened]
    else:
        with pytest.raises(KeyError):
            consumer.move(happened)
        assert consumer.state is state
