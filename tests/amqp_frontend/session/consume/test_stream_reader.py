"""Streams in a session: offsets, what a consumer asked for, and the only answer it may give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Connection, Tx
from tests.amqp_frontend.session.playbook import (
    Bytes,
    Delivered,
    Playbook,
    client,
    opened,
    run_of,
    sent,
)

from arneb_amqp.routing.stream_filter import StreamFilter
from arneb_amqp.session.consume.stream_reader import FILTER_VALUE, StreamReader
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_amqp.session.effects import Acknowledge, Consume, Reject
from arneb_amqp.session.events import RequestDone
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.replies import make
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import longstr
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.deliveries import Deliveries

WORDS = "queue 'q' in vhost '/'"
REFUSAL = f"NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues {WORDS}"


def entry(value: str | None) -> bytes:
    headers = {} if value is None else {FILTER_VALUE: longstr(value)}
    route = join_route("", "q")
    properties = encode_properties(Properties(headers=headers))
    head = EntryHeader(Origin.AMQP, hint=len(route)).pack()
    return head + route + compose(ChannelId(1), properties, b"x")


def reading(play: Playbook, wanted: StreamFilter) -> Playbook:
    play >> client(Basic.Consume, queue="q", consumer_tag="c")
    play.effect(Consume)
    return play >> RequestDone(wanted) << sent(Basic.ConsumeOk, consumer_tag="c")


def run(first: int, *values: str | None, offset: int = 0) -> Deliveries:
    count = len(values)
    positions = [position_at(1, first + index) for index in range(count)]
    numbers = list(range(offset, offset + count))
    return Deliveries(positions, [entry(each) for each in values], offsets=numbers)


values = st.sampled_from([None, "a", "b", "c"])


@given(
    kept=st.lists(values, min_size=1, max_size=8),
    first=st.integers(0, 10),
    offset_min=st.integers(0, 20),
    wanted=st.none() | st.frozensets(st.sampled_from("abc")),
    match_unfiltered=st.booleans(),
)
def test_a_consumer_gets_what_it_asked_for(
    kept: list[str | None],
    first: int,
    offset_min: int,
    wanted: frozenset[str] | None,
    match_unfiltered: bool,
) -> None:
    reader = StreamReader(StreamFilter(WORDS, offset_min, wanted, match_unfiltered))
    offsets = list(range(first, first + len(kept)))
    expected = [
        index
        for index, value in enumerate(kept)
        if first + index >= offset_min
        and (wanted is None or (match_unfiltered if value is None else value in wanted))
    ]
    chosen = reader.chosen([entry(each) for each in kept], offsets)
    assert (list(range(len(kept))) if chosen is None else chosen) == expected


def test_what_it_did_not_ask_for_is_acknowledged_at_once() -> None:
    with opened() as play:
        reading(play, StreamFilter(WORDS, values=frozenset("a")))
        play >> Delivered(1, run(0, "b", "a", None, "a"))
        play << sent(Basic.Deliver, delivery_tag=1) << sent(Basic.Deliver, delivery_tag=2)
        answered = play.effect(Acknowledge).answered
        assert sorted(answered.positions) == [position_at(1, 0), position_at(1, 2)]
        play >> client(Basic.Ack, delivery_tag=2, multiple=True)
        answered = AnsweredDeliveries(ConsumerId(1), [position_at(1, 1), position_at(1, 3)])
        play << Acknowledge(answered)


def test_a_run_of_which_nothing_was_asked_for_sends_nothing() -> None:
    with opened() as play:
        reading(play, StreamFilter(WORDS, offset_min=7))
        play >> Delivered(1, run(0, "b", "a", offset=5))
        assert len(play.effect(Acknowledge).answered.positions) == 2
        play >> Delivered(1, run(2, "a", offset=7))
        play << sent(Basic.Deliver, delivery_tag=1)


@pytest.mark.parametrize(
    "answer",
    [
        client(Basic.Nack, delivery_tag=1, requeue=True),
        client(Basic.Nack, delivery_tag=1, requeue=False, multiple=True),
        client(Basic.Reject, delivery_tag=1),
        client(Basic.Recover, requeue=True),
    ],
)
@pytest.mark.parametrize("transactional", [False, True])
def test_only_acknowledgements_are_allowed(answer: object, transactional: bool) -> None:
    play = opened()
    if transactional:
        play >> client(Tx.Select) << sent(Tx.SelectOk)
    reading(play, StreamFilter(WORDS))
    play >> Delivered(1, run(0, None)) << sent(Basic.Deliver)
    play >> answer
    closed = play.frame(Connection.Close, channel=0)
    assert (closed.reply_code, closed.reply_text) == (540, REFUSAL)


def test_rejections_before_that_of_a_stream_count() -> None:
    play = opened()
    reading(play, StreamFilter(WORDS))
    play >> client(Basic.Consume, queue="r", consumer_tag="d")
    play.effect(Consume)
    play >> RequestDone() << sent(Basic.ConsumeOk)
    play >> Delivered(2, run_of(0, 1)) << sent(Basic.Deliver)
    play >> Delivered(1, run(0, None)) << sent(Basic.Deliver)
    rejects = (make(Basic.Reject, delivery_tag=tag, requeue=False) for tag in (1, 2))
    play >> Bytes(b"".join(encode_method(ChannelId(1), each) for each in rejects))
    assert play.effect(Reject).answered == AnsweredDeliveries(ConsumerId(2), [position_at(1, 0)])
    assert play.frame(Connection.Close, channel=0).reply_code == 540


def test_consumers_of_other_queues_on_the_channel_are_not_affected() -> None:
    with opened() as play:
        reading(play, StreamFilter(WORDS))
        play >> client(Basic.Consume, queue="r", consumer_tag="d")
        play.effect(Consume)
        play >> RequestDone() << sent(Basic.ConsumeOk)
        play >> Delivered(2, run_of(0, 1)) << sent(Basic.Deliver)
        play >> client(Basic.Nack, delivery_tag=1, requeue=True)
        play.effect(object)
