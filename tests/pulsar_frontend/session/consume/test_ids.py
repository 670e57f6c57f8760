"""Message ids: those of the topic that a consumer was attached to."""

from tests.pulsar_frontend.session.consume.test_consumers import subscribe
from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import BEFORE_ALL, position_at
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.session.interface.effects import (
    Acknowledge,
    AcknowledgeUntil,
    AttachConsumer,
    ReadLast,
    Redeliver,
    Seek,
)
from arneb_pulsar.session.interface.events import ConsumerAttached, Delivered, LastRead
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandAck, CommandSubscribe, MessageIdData

IDS = LedgerIds(9)
PLACE = position_at(3, 4)
OWN = MessageIdData(ledgerId=IDS.of(3), entryId=4)
OF_ANOTHER = MessageIdData(ledgerId=LedgerIds(8).of(3), entryId=4)
ENTRY = EntryHeader(Origin.PULSAR).pack() + b"body"


def attached(kind: "CommandSubscribe.SubType.ValueType", **fields: object) -> tuple[Playbook, int]:
    play = Playbook() >> received(subscribe(subType=kind, **fields))
    key = play.take(AttachConsumer).key
    play >> ConsumerAttached(key, IDS) << sent(pb.CommandSuccess(request_id=5))
    return play, key


def test_messages_have_them_in_every_epoch() -> None:
    play, key = attached(CommandSubscribe.Exclusive, consumer_epoch=1)
    play >> Delivered(key, Deliveries([PLACE], [ENTRY]))
    first = play.heard().command
    assert (first.consumer_epoch, first.message_id.ledgerId) == (1, IDS.of(3))
    play >> received(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=2))
    play.take(Redeliver)
    play >> Delivered(key, Deliveries([PLACE], [ENTRY]))
    again = play.heard().command
    assert (again.consumer_epoch, again.message_id) == (2, first.message_id)


def test_commands_name_messages_by_them() -> None:
    play, _ = attached(CommandSubscribe.Shared)
    play >> received(
        CommandAck(consumer_id=1, ack_type=CommandAck.Individual, message_id=[OF_ANOTHER, OWN])
    )
    assert play.take(Acknowledge).whole == [PLACE]
    play >> received(
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=[OWN, OF_ANOTHER])
    )
    assert play.take(Redeliver).positions == [PLACE]
    play >> received(pb.CommandSeek(consumer_id=1, request_id=6, message_id=OWN))
    assert play.take(Seek).position == PLACE


def test_a_seek_to_an_earlier_topics_message_goes_to_the_beginning() -> None:
    play, _ = attached(CommandSubscribe.Shared)
    play >> received(pb.CommandSeek(consumer_id=1, request_id=6, message_id=OF_ANOTHER))
    assert play.take(Seek).position == BEFORE_ALL


def test_a_cumulative_acknowledgement_names_its_message_by_them() -> None:
    play, _ = attached(CommandSubscribe.Exclusive)
    play >> received(
        CommandAck(consumer_id=1, ack_type=CommandAck.Cumulative, message_id=[OWN])
    )  # fmt: skip
    assert play.take(AcknowledgeUntil).position == PLACE


def test_the_last_message_is_named_by_them() -> None:
    play, key = attached(CommandSubscribe.Shared)
    play >> received(pb.CommandGetLastMessageId(consumer_id=1, request_id=6))
    play.take(ReadLast)
    play >> LastRead(key, 6, PLACE, 0, position_at(3, -1))
    answer = play.heard().command
    assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == (IDS.of(3), 4)
    mark = answer.consumer_mark_delete_position
    assert (mark.ledgerId, mark.entryId) == (IDS.of(3), (1 << 64) - 1)
