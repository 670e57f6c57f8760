"""Traffic: what a channel and its vhost have counted after various operations."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Confirm, Tx
from tests.amqp_frontend.session.playbook import (
    Delivered,
    Playbook,
    client,
    opened,
    publishes,
    run_of,
    sent,
)

from arneb_amqp.errors import internal_error
from arneb_amqp.routing.exchange import Exchange
from arneb_amqp.session.consume.deliverer import Deliverer
from arneb_amqp.session.effects import Commit, Consume
from arneb_amqp.session.events import Committed, RequestDone
from arneb_amqp.session.publish.publisher import Publisher


def halves(play: Playbook) -> tuple[Publisher, Deliverer]:
    channel: Any = play.session.channels.used[1]  # type: ignore[index]
    return channel.publisher, channel.deliverer


def test_publishes_are_counted_by_exchange_and_by_destination() -> None:
    with opened() as play:
        play.vhost.router.declare(Exchange("x", "fanout"))
        traffic = play.vhost.router.traffic
        play >> publishes(b"a", b"b", b"c")
        play >> publishes(b"d", headers={})  # whose route is looked up separately
        play >> publishes(b"e", exchange="x")
        play >> publishes(b"f", exchange="x", mandatory=True) << sent(Basic.Return)
        assert (traffic.exchanges[""].published_in, traffic.exchanges[""].published_out) == (4, 4)
        assert (traffic.exchanges["x"].published_in, traffic.exchanges["x"].published_out) == (2, 0)
        assert (traffic.dropped, traffic.returned, traffic.to_confirm) == (1, 1, 0)
        publisher, _ = halves(play)
        assert (publisher.published, publisher.dropped, publisher.returns.count) == (6, 1, 1)
        play.vhost.router.delete("x")
        assert traffic.published().published_in == 6, (
            "messages that already went through still count"
        )
        play.effects.clear()


def test_only_what_was_stored_is_confirmed() -> None:
    with opened() >> client(Confirm.Select) << sent(Confirm.SelectOk) as play:
        play >> publishes(b"a", b"b")
        first = play.appended()
        play >> publishes(b"c", key="nowhere")
        play >> publishes(b"d")
        last = play.appended()
        play >> Committed(first.token) << sent(Basic.Ack, delivery_tag=3, multiple=True)
        play >> Committed(last.token, internal_error()) << sent(Basic.Nack, delivery_tag=4)
        traffic = play.vhost.router.traffic
        assert (traffic.to_confirm, traffic.confirmed) == (4, 3)


def test_deliveries_are_counted_by_their_mode_and_by_their_queue() -> None:
    with opened() as play:
        for tag, no_ack in (("manual", False), ("auto", True)):
            play >> client(Basic.Consume, queue="q", consumer_tag=tag, no_ack=no_ack)
            play.effect(Consume)
            play >> RequestDone() << sent(Basic.ConsumeOk)
        again = run_of(0, 3)
        again.redelivered = set(again.positions[:2])
        for consumer, run in ((1, again), (2, run_of(3, 4))):
            play >> Delivered(consumer, run)
        play.frames.clear()
        traffic = play.vhost.traffic["q"]
        for each in (traffic, traffic.whole):
            assert (each.delivered, each.delivered_no_ack, each.redelivered) == (3, 4, 2)
            assert each.handed_out == 7
        _, deliverer = halves(play)
        assert (deliverer.delivered, deliverer.delivered_no_ack) == (3, 4)


def test_acknowledgements_in_a_transaction_count_when_it_is_committed() -> None:
    with opened() >> client(Tx.Select) << sent(Tx.SelectOk) as play:
        play >> client(Basic.Consume, queue="q", consumer_tag="c")
        play.effect(Consume)
        play >> RequestDone() << sent(Basic.ConsumeOk)
        play >> Delivered(1, run_of(0, 3))
        play.frames.clear()
        play >> client(Basic.Ack, delivery_tag=2, multiple=True)
        publisher, deliverer = halves(play)
        assert deliverer.acknowledged(publisher.transaction) == 0
        play >> client(Tx.Commit)
        play.effect(Commit)
        play >> RequestDone() << sent(Tx.CommitOk)
        assert deliverer.acknowledged(publisher.transaction) == 2


Step = st.tuples(
    st.sampled_from(["deliver", "ack", "ack through", "nack", "nack for good", "recover"]),
    st.integers(0, 5),
)


@given(st.lists(Step, max_size=30))
def test_a_channel_has_the_number_of_acknowledged_messages_without_counting_them(
    steps: list[tuple[str, int]],
) -> None:
    """Compared with a model that does count."""
    play = opened()
    play >> client(Basic.Consume, queue="q", consumer_tag="c")
    play.effect(Consume)
    play >> RequestDone()
    unanswered: list[int] = []
    tag = delivered = acknowledged = 0
    for what, number in steps:
        if what == "deliver":
            play >> Delivered(1, run_of(tag, number + 1))
            unanswered += range(tag + 1, tag + number + 2)
            tag += number + 1
            delivered += number + 1
        elif what == "recover":
            play >> client(Basic.Recover, requeue=True)
            unanswered.clear()
        elif unanswered:
            chosen = unanswered[number % len(unanswered)]
            multiple = what == "ack through"
            gone = [each for each in unanswered if each == chosen or (multiple and each < chosen)]
            if what.startswith("ack"):
                play >> client(Basic.Ack, delivery_tag=chosen, multiple=multiple)
                acknowledged += len(gone)
            else:
                play >> client(Basic.Nack, delivery_tag=chosen, requeue=what == "nack")
            unanswered = [each for each in unanswered if each not in gone]
        _, deliverer = halves(play)
        assert deliverer.delivered == delivered
        assert deliverer.acknowledged(None) == acknowledged
