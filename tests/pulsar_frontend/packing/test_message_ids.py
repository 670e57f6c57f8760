"""Message ids and positions, ack sets and masks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, position_at
from arneb_pulsar.packing.message_ids import (
    message_id_of,
    position_of,
    split_acks,
    start_position_of,
)
from arneb_pulsar.wire.ack_sets import ALL_MESSAGES
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandAck, MessageIdData

LARGEST = (1 << 63) - 1
MINUS_ONE = (1 << 64) - 1


@pytest.mark.parametrize(
    ("ledger", "entry", "position"),
    [
        (1, 0, position_at(1, 0)),
        (5, 17, position_at(5, 17)),
        (MINUS_ONE, MINUS_ONE, BEFORE_ALL),
        (LARGEST, LARGEST, AFTER_ALL),
        (5, MINUS_ONE, position_at(5, 0)),
        (5, LARGEST, position_at(5, (1 << 32) - 1)),
        (1 << 62, 3, AFTER_ALL),
    ],
)
def test_a_place_to_read_from(ledger: int, entry: int, position: int) -> None:
    assert start_position_of(MessageIdData(ledgerId=ledger, entryId=entry)) == position


@given(st.integers(0, MINUS_ONE), st.integers(0, MINUS_ONE))
def test_any_id_is_a_place_between_the_ends(ledger: int, entry: int) -> None:
    message_id = MessageIdData(ledgerId=ledger, entryId=entry)
    assert 0 <= start_position_of(message_id) <= AFTER_ALL
    found = position_of(message_id)
    is_a_topics = ledger < 1 << 62 and not ledger >> 16 & (1 << 32) - 1
    assert (found is not None) == (is_a_topics and entry < 1 << 32)


def test_acks_are_split_into_whole_entries_and_parts() -> None:
    ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual)
    ack.message_id.add(ledgerId=2, entryId=3)
    ack.message_id.add(ledgerId=2, entryId=4, ack_set=[0b0110])
    ack.message_id.add(ledgerId=MINUS_ONE, entryId=0)
    ack.message_id.add(ledgerId=2, entryId=1 << 32)
    ack.message_id.add(ledgerId=2, entryId=1)
    whole, partial = split_acks(ack.message_id, ack.SerializeToString())
    assert whole == [position_at(2, 3), position_at(2, 1)]
    assert partial == [(position_at(2, 4), ALL_MESSAGES & ~0b0110)]


@st.composite
def acks(draw: st.DrawFn) -> CommandAck:
    """Neighbours, mostly, with now and then a stranger among them."""
    ack = CommandAck(consumer_id=draw(st.integers(0, 300)), ack_type=CommandAck.Individual)
    topic = draw(st.integers(0, 3)) << 16
    ledger = draw(st.integers(0, 1 << 16)) + topic
    first = draw(st.one_of(st.integers(0, 300), st.integers(0, 1 << 33)))
    count, step = draw(st.integers(0, 200)), draw(st.sampled_from([1, 1, 3, 101]))
    rolls = draw(st.integers(1, 200))
    for index in range(count):
        # What came due lies here and there, in several ledgers.
        ack.message_id.add(ledgerId=ledger + index // rolls, entryId=first + step * index)
    for _ in range(draw(st.integers(0, 2))):
        if ack.message_id:
            strange = draw(st.sampled_from(list(ack.message_id)))
            match draw(st.sampled_from(["ledger", "entry", "set", "partition"])):
                case "ledger":
                    strange.ledgerId += 1
                case "entry":
                    strange.entryId += 1
                case "set":
                    strange.ack_set.append(draw(st.integers(-5, 5)))
                case _:
                    strange.partition = draw(st.integers(-1, 3))
    return ack


@given(acks(), st.integers(1, 4).map(LedgerIds))
def test_many_are_split_as_one_by_one(ack: CommandAck, ids: LedgerIds) -> None:
    together = split_acks(ack.message_id, ack.SerializeToString(), ids)
    one_by_one = [split_acks([each], b"", ids) for each in ack.message_id]
    assert together[0] == [position for whole, _ in one_by_one for position in whole]
    assert together[1] == [part for _, partial in one_by_one for part in partial]


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20), st.integers(0, 1 << 30))
def test_acks_are_for_the_topic_whose_ids_they_have(topic: int, ledger: int, entry: int) -> None:
    ids = LedgerIds(topic)
    places = [position_at(ledger, entry + 3 * index) for index in range(20)]
    ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual)
    ack.message_id.extend(message_id_of(each, ids=ids) for each in places)
    raw = ack.SerializeToString()
    assert split_acks(ack.message_id, raw, ids) == (places, [])
    if topic > 1:
        assert split_acks(ack.message_id, raw, LedgerIds(topic + 1)) == ([], [])
