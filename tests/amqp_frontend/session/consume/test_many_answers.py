"""One method that acknowledges very many deliveries does so in parts, one per turn."""

import pytest
from pamqp.commands import Basic, Channel, Tx
from tests.amqp_frontend.session.playbook import (
    Bytes,
    Playbook,
    client,
    make,
    opened,
    run_of,
    sent,
)
from tests.counting import calls_of

from arneb_amqp.server.operations.effects import POSITIONS_PER_TURN, in_pieces
from arneb_amqp.session.connection.session import TURN_WORK
from arneb_amqp.session.consume.answers import ANSWERS_PER_TURN, TRANSACTION_ANSWERS_PER_TURN
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_amqp.session.discarded import SHED_PER_TURN
from arneb_amqp.session.effects import Acknowledge, Commit, Leave, Reject, Release
from arneb_amqp.session.events import RequestDone
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.methods import encode_method
from arneb_core.api.entries.position import Position, position_at

MANY = 3 * ANSWERS_PER_TURN


CLOSE = client(Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)


def with_unanswered(count: int) -> Playbook:
    """A consumer to which so many messages were delivered."""
    play = opened()
    play >> client(Basic.Consume, queue="q", consumer_tag="t")
    play.effects.clear()
    play >> RequestDone(None) << sent(Basic.ConsumeOk, consumer_tag="t")
    for first in range(0, count, 20_000):
        play.session.deliver(ConsumerId(1), run_of(first, min(20_000, count - first)))
    play.session.output.drain()
    return play


def places(first: int, after: int) -> list[Position]:
    return [position_at(1, number) for number in range(first, after)]


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (client(Basic.Ack, delivery_tag=0, multiple=True), Acknowledge),
        (client(Basic.Ack, delivery_tag=MANY - 1, multiple=True), Acknowledge),
        (client(Basic.Nack, delivery_tag=MANY - 1, multiple=True, requeue=True), Release),
        (client(Basic.Nack, delivery_tag=0, multiple=True, requeue=False), Reject),
    ],
    ids=["ack all", "ack most", "requeue", "reject"],
)
def test_many_are_acknowledged_in_turns_and_in_order(method: object, kind: type[Release]) -> None:
    play = with_unanswered(MANY)
    play >> method
    assert play.pauses >= 2
    answered: list[Position] = []
    for effect in play.effects:
        assert isinstance(effect, kind)
        answered += effect.answered.positions
    play.effects.clear()
    assert answered[: MANY - 1] == places(0, MANY - 1)
    # No part looks at the tags of the parts before it.
    assert play.session._channel(ChannelId(1)).deliverer.answers.unacked._low >= MANY


def test_an_unknown_tag_acknowledges_nothing_however_many_there_are() -> None:
    play = with_unanswered(MANY)
    play >> client(Basic.Ack, delivery_tag=MANY + 1, multiple=True)
    assert play.pauses == 0
    assert play.frame(Channel.Close).reply_code == 406
    assert [type(each) for each in play.effects] == [Leave]
    play.effects.clear()


def test_few_are_acknowledged_at_once() -> None:
    play = with_unanswered(ANSWERS_PER_TURN)
    play >> client(Basic.Ack, delivery_tag=0, multiple=True)
    assert play.pauses == 0
    assert play.effect(Acknowledge).answered.positions == places(0, ANSWERS_PER_TURN)


def test_a_channel_that_ends_visits_none_of_them() -> None:
    play = with_unanswered(MANY)
    assert calls_of(lambda: play >> CLOSE) < 1_000
    assert play.effect(Leave).consumers == (1,)


@pytest.mark.parametrize("requeue", [None, True])
def test_all_does_not_include_later_deliveries(requeue: bool | None) -> None:
    play = with_unanswered(MANY)
    method = client(Basic.Ack, delivery_tag=0, multiple=True)
    if requeue is not None:
        method = client(Basic.Nack, delivery_tag=0, multiple=True, requeue=requeue)
    session = play.session
    session.receive_data(encode_method(ChannelId(1), method.command), play.now, play.later_ms)
    assert session.has_more
    session.deliver(ConsumerId(1), run_of(MANY, 10))
    while session.has_more:
        session.handle_more(play.now, play.later_ms)
    answered = sum(len(each.answered.positions) for each in session.take_effects())  # type: ignore[union-attr]
    assert answered == MANY


@pytest.mark.parametrize("kind", [Acknowledge, Reject, Release])
def test_the_core_receives_them_in_pieces(kind: type[Release]) -> None:
    count = 2 * POSITIONS_PER_TURN + 5
    masks = {position_at(2, 1): 3}
    found = list(in_pieces(kind(AnsweredDeliveries(ConsumerId(7), places(0, count), masks))))
    assert all(isinstance(each, kind) for each in found)
    assert {each.answered.consumer for each in found} == {7}
    assert max(len(each.answered.positions) for each in found) == POSITIONS_PER_TURN
    assert [place for each in found for place in each.answered.positions] == places(0, count)
    assert found[-1].answered.masks == masks


@pytest.mark.parametrize("several", [False, True], ids=["one consumer", "several"])
def test_the_unacknowledged_deliveries_of_an_ended_channel_are_forgotten_in_pieces(
    several: bool,
) -> None:
    """To forget millions at once would be a long turn."""
    play = with_unanswered(MANY)
    unacked = play.session._channel(ChannelId(1)).deliverer.answers.unacked
    if several:
        unacked.add(ConsumerId(2), places(MANY, MANY + 1))
    count = len(unacked)
    play >> CLOSE
    play.effects.clear()
    assert len(unacked) == count
    steps = 0
    while play.session.discarded:
        play.session.discarded.shed()
        steps += 1
        assert len(unacked) == max(0, count - steps * SHED_PER_TURN)
    assert steps == -(-count // SHED_PER_TURN)


def test_few_are_forgotten_at_once() -> None:
    play = with_unanswered(SHED_PER_TURN)
    play >> CLOSE
    play.effects.clear()
    assert not play.session.discarded


FEW_TURNS = 5 * TRANSACTION_ANSWERS_PER_TURN


def ack_of(tag: int) -> bytes:
    return encode_method(ChannelId(1), make(Basic.Ack, delivery_tag=tag))


def in_transaction(count: int) -> Playbook:
    play = with_unanswered(count)
    play >> client(Tx.Select) << sent(Tx.SelectOk)
    return play


@pytest.mark.parametrize("undone", [False, True], ids=["in order", "after a rollback"])
@pytest.mark.parametrize("requeue", [None, True, False])
def test_a_transaction_takes_many_acknowledgements_in_turns(
    requeue: bool | None, undone: bool
) -> None:
    play = in_transaction(FEW_TURNS)
    if undone:
        for tag in (7, 3):
            play >> client(Basic.Ack, delivery_tag=tag)
        play >> client(Tx.Rollback) << sent(Tx.RollbackOk)
    method = client(Basic.Ack, delivery_tag=0, multiple=True)
    if requeue is not None:
        method = client(Basic.Nack, delivery_tag=0, multiple=True, requeue=requeue)
    play >> method
    assert play.pauses == FEW_TURNS // TRANSACTION_ANSWERS_PER_TURN - 1
    play >> client(Tx.Commit)
    acknowledged = play.effect(Commit).acknowledged
    play >> RequestDone(None) << sent(Tx.CommitOk)
    effects = [each.answered for each in play.effects if isinstance(each, Reject | Release)]
    (answered,) = acknowledged or effects
    assert answered.positions == places(0, FEW_TURNS)
    play.effects.clear()


@pytest.mark.parametrize("requeue", [True, False])
def test_a_transaction_takes_many_single_rejections_in_turns(requeue: bool) -> None:
    play = in_transaction(FEW_TURNS)
    rejects = (
        make(Basic.Reject, delivery_tag=tag, requeue=requeue) for tag in range(1, FEW_TURNS + 1)
    )
    play >> Bytes(b"".join(encode_method(ChannelId(1), each) for each in rejects))
    assert play.pauses == FEW_TURNS // TRANSACTION_ANSWERS_PER_TURN - 1
    play >> client(Tx.Commit)
    play.effect(Commit)
    play >> RequestDone(None) << sent(Tx.CommitOk)
    answered = play.effect(Release if requeue else Reject).answered
    assert answered.positions == places(0, FEW_TURNS)


def test_a_transaction_takes_many_single_acknowledgements_in_turns() -> None:
    """However many channels they belong to."""
    play = in_transaction(FEW_TURNS)
    play >> Bytes(b"".join(map(ack_of, range(1, FEW_TURNS + 1))))
    assert play.pauses == FEW_TURNS // TRANSACTION_ANSWERS_PER_TURN - 1
    assert play.session.work_left <= TURN_WORK - TRANSACTION_ANSWERS_PER_TURN
    play >> client(Tx.Commit)
    (answered,) = play.effect(Commit).acknowledged
    assert answered.positions == places(0, FEW_TURNS)
    play >> RequestDone(None) << sent(Tx.CommitOk)


def test_a_forbidden_acknowledgement_ends_a_transaction_turns_later() -> None:
    play = in_transaction(FEW_TURNS)
    tags = [*range(1, FEW_TURNS), FEW_TURNS - 1]
    play >> Bytes(b"".join(map(ack_of, tags)))
    assert play.pauses == FEW_TURNS // TRANSACTION_ANSWERS_PER_TURN - 1
    assert play.frame(Channel.Close).reply_code == 406
    play.effects.clear()


@pytest.mark.parametrize("requeue", [True, False])
def test_single_acknowledgements_are_one_at_the_commit(requeue: bool) -> None:
    play = in_transaction(100)
    for tag in range(1, 101):
        play >> client(Basic.Reject, delivery_tag=tag, requeue=requeue)
    play >> client(Tx.Commit)
    play.effect(Commit)
    play >> RequestDone(None) << sent(Tx.CommitOk)
    answered = play.effect(Release if requeue else Reject).answered
    assert answered.positions == places(0, 100)


def test_many_acknowledgements_are_undone_in_turns() -> None:
    play = in_transaction(FEW_TURNS)
    play >> client(Basic.Ack, delivery_tag=0, multiple=True)
    before = play.pauses
    play >> client(Tx.Rollback) << sent(Tx.RollbackOk)
    assert play.pauses - before >= 2
    unacked = play.session._channel(ChannelId(1)).deliverer.answers.unacked
    assert unacked.tags_through(0) == list(range(1, FEW_TURNS + 1))
    play >> client(Tx.Rollback) << sent(Tx.RollbackOk)
    assert len(unacked) == FEW_TURNS, "a delivery was returned twice"


def test_messages_of_divided_batches_are_joined_by_their_masks() -> None:
    one, other = position_at(2, 1), position_at(2, 2)
    answered = AnsweredDeliveries(ConsumerId(7), places(0, 2), {one: 1})
    answered.join(AnsweredDeliveries(ConsumerId(7), places(2, 3), {one: 4, other: 2}))
    assert answered.positions == places(0, 3)
    assert answered.masks == {one: 5, other: 2}
    assert answered.entries == 5
