"""Requests that name very many messages: carried out piece by piece, in order, answered once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.session.playbook import received

from arneb_core.api.entries.position import Position, position_at
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.packing.message_ids import IDS_PER_TURN
from arneb_pulsar.session.connection.connection import ConnectionSession
from arneb_pulsar.session.interface.effects import (
    Acknowledge,
    AddPermits,
    AttachConsumer,
    Redeliver,
)
from arneb_pulsar.session.interface.events import ConsumerAttached
from arneb_pulsar.wire.ack_sets import ALL_MESSAGES
from arneb_pulsar.wire.proto import pulsar_pb2 as pb


def attached() -> ConnectionSession:
    """A session with a consumer of a shared subscription."""
    session = ConnectionSession(PulsarConfig(), "test", 0.0)
    opening = received(
        pb.CommandConnect(client_version="t", protocol_version=20),
        pb.CommandSubscribe(
            topic="t", subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1,
            request_id=1,
        ),
    )  # fmt: skip
    effects = session.receive_data(opening.data, 0.0, 0)
    while session.has_more:
        effects += session.handle_more(0.0, 0)
    [key] = [each.key for each in effects if isinstance(each, AttachConsumer)]
    session.handle(ConsumerAttached(key), 0.0)
    session.data_to_send()
    return session


def carried_out(session: ConnectionSession, *commands: object) -> list[list[object]]:
    """The effects of each turn."""
    data = received(*commands).data  # type: ignore[arg-type]
    turns: list[list[object]] = [list(session.receive_data(data, 0.0, 0))]
    while session.has_more:
        turns.append(list(session.handle_more(0.0, 0)))
    return turns


FLOW = pb.CommandFlow(consumer_id=1, messagePermits=5)


@given(count=st.integers(1, 4 * IDS_PER_TURN), has_sets=st.booleans(), asks=st.booleans())
def test_acknowledgements_are_cut_and_answered_once(
    count: int, *, has_sets: bool, asks: bool
) -> None:
    command = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    if asks:
        command.request_id = 9
    positions = [position_at(1, 2 * number) for number in range(count)]
    for number in range(count):
        command.message_id.add(ledgerId=1, entryId=2 * number, ack_set=[5] if has_sets else [])
    turns = carried_out(attached(), command, FLOW)
    effects = [each for turn in turns for each in turn]
    assert isinstance(effects.pop(), AddPermits), "later commands must be handled after it"
    parts: list[Acknowledge] = [each for each in effects if isinstance(each, Acknowledge)]
    assert parts == effects
    assert all(len(each.whole) + len(each.partial) <= IDS_PER_TURN for each in parts)
    whole = [position for each in parts for position in each.whole]
    partial = [part for each in parts for part in each.partial]
    assert whole == ([] if has_sets else positions)
    assert partial == (
        [(position, ALL_MESSAGES & ~5) for position in positions] if has_sets else []
    )
    assert [each.request_id for each in parts[:-1]] == [None] * (len(parts) - 1)
    assert parts[-1].request_id == (9 if asks else None)
    assert max(sum(isinstance(one, Acknowledge) for one in turn) for turn in turns) == 1


@pytest.mark.parametrize("count", [1, IDS_PER_TURN, IDS_PER_TURN + 1, 5 * IDS_PER_TURN - 3])
def test_redeliveries_are_cut(count: int) -> None:
    command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
    for number in range(count):
        command.message_ids.add(ledgerId=1, entryId=number)
    turns = carried_out(attached(), command, FLOW)
    effects = [each for turn in turns for each in turn]
    assert isinstance(effects.pop(), AddPermits)
    positions: list[Position] = []
    for each in effects:
        assert isinstance(each, Redeliver)
        assert each.positions is not None
        assert len(each.positions) <= IDS_PER_TURN
        positions += each.positions
    assert positions == [position_at(1, number) for number in range(count)]
    assert max(sum(isinstance(one, Redeliver) for one in turn) for turn in turns) == 1


def test_a_connection_that_breaks_the_protocol_after_it_is_answered_when_it_is_done() -> None:
    command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
    for number in range(2 * IDS_PER_TURN):
        command.message_ids.add(ledgerId=1, entryId=number)
    session = attached()
    data = received(command).data + b"\xff" * 8
    effects = list(session.receive_data(data, 0.0, 0))
    while session.has_more:
        effects += session.handle_more(0.0, 0)
    kinds = [type(each).__name__ for each in effects]
    assert kinds[0] == "Redeliver"
    assert kinds[-1] == "Close"
    assert kinds.count("Redeliver") == 2
