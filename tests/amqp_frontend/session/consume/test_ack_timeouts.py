"""Acknowledgement timeouts: compared with the time of each delivery, and how they close the
channel."""

from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel
from tests.amqp_frontend.session.consume.test_deliverer import acknowledged, consuming
from tests.amqp_frontend.session.playbook import (
    Delivered,
    Playbook,
    Tick,
    client,
    connected,
    opened,
    run_of,
    sent,
)

from arneb_amqp.config import AmqpConfig
from arneb_amqp.session.consume.ack_timeouts import (
    CHECK_INTERVAL_S_MAX,
    DeliveryTimes,
    check_interval_s,
)
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Get, Leave
from arneb_amqp.session.events import Pulled, RequestDone

TIMEOUT_S = 100.0
INTERVAL_S = check_interval_s(TIMEOUT_S)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 3)),
        st.tuples(st.just("answer"), st.integers(0, 5)),
        st.tuples(st.just("check"), st.floats(1, INTERVAL_S)),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_delivery_is_overdue_at_most_one_check_late_and_never_early(
    steps: list[tuple[str, float]],
) -> None:
    answers, now, next_tag = DeliveryTimes(), 0.0, 1
    out: dict[int, float] = {}
    for step, detail in steps:
        if step == "deliver":
            for _ in range(int(detail)):
                out[next_tag] = now
                next_tag += 1
        elif step == "answer":
            for tag in sorted(out)[int(detail) : int(detail) + 1]:
                del out[tag]
        else:
            now += detail
            oldest = min(out, default=None)
            waited = now - min(out.values(), default=now)
            overdue = answers.overdue(oldest, next_tag, now, TIMEOUT_S)
            assert not (overdue and waited < TIMEOUT_S), "it was overdue too early"
            assert overdue or waited <= TIMEOUT_S + INTERVAL_S, "it was overdue too late"


def test_the_interval_of_the_checks() -> None:
    assert check_interval_s(0) == float("inf")
    assert check_interval_s(1.0) == 0.25
    assert check_interval_s(1800.0) == CHECK_INTERVAL_S_MAX


TEXT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: "
    "4000 ms. This timeout value can be configured, see consumers doc guide to learn more"
)


def test_a_channel_whose_client_does_not_acknowledge_is_closed() -> None:
    config = AmqpConfig(consumer_timeout_s=4.0)
    with consuming(opened(connected(Playbook(config)))) as play:
        start = play.now
        play >> Delivered(1, run_of(0, 2)) << sent(Basic.Deliver) << sent(Basic.Deliver)
        play >> Tick(start + 1) >> Tick(start + 4)
        play >> client(Basic.Ack, delivery_tag=1)
        play << acknowledged(1, 0)
        play >> Tick(start + 5)
        play << sent(Channel.Close, reply_code=406, reply_text=TEXT)
        play.effect(Leave)


def test_a_client_that_acknowledges_in_time_is_left_alone() -> None:
    config = AmqpConfig(consumer_timeout_s=4.0)
    with consuming(opened(connected(Playbook(config)))) as play:
        start = play.now
        for second in range(1, 20):
            play >> Delivered(1, run_of(second, 1)) << sent(Basic.Deliver)
            if second > 2:
                play >> client(Basic.Ack, delivery_tag=second - 2)
                play << acknowledged(1, second - 2)
            play >> Tick(start + second)


def own_timeout(timeout_s: float, default_s: float) -> Playbook:
    """A consumer of a queue that has its own timeout."""
    play = Playbook(AmqpConfig(consumer_timeout_s=default_s))
    play.vhost.timeouts_s["q"] = timeout_s
    return consuming(opened(connected(play, heartbeat=0)))


def test_the_timeout_of_the_queue_replaces_the_default() -> None:
    for default_s in (0, 4.0, 1800.0):
        with own_timeout(8.0, default_s) as play:
            assert play.session.timer_nearer is (default_s != 4.0)
            start = play.now
            play >> Delivered(1, run_of(0, 1)) << sent(Basic.Deliver)
            for second in range(1, 9):
                play >> Tick(start + second)
            play >> Tick(start + 10)
            play << sent(Channel.Close, reply_code=406, reply_text=TEXT.replace("4000", "8000"))
            play.effect(Leave)


def test_a_timeout_of_0_turns_it_off() -> None:
    with own_timeout(0, 4.0) as play:
        play >> Delivered(1, run_of(0, 1)) << sent(Basic.Deliver)
        for second in range(1, 40):
            play >> Tick(play.now + second)


def test_each_queue_has_its_own_timeout_and_none_hides_another() -> None:
    with own_timeout(1000.0, 4.0) as play:
        start = play.now
        play >> Delivered(1, run_of(0, 1)) << sent(Basic.Deliver)
        (
            play
            >> client(Basic.Get, queue="other")
            >> RequestDone(Pulled(run_of(5, 1), 0, ConsumerId(2)))
            << sent(Basic.GetOk)
        )
        play.effect(Get)
        play >> Tick(start + 1) >> Tick(start + 5)
        play << sent(Channel.Close, reply_code=406, reply_text=TEXT)
        play.effect(Leave)


def test_a_changed_timeout_applies_to_existing_consumers() -> None:
    with own_timeout(1000.0, 4.0) as play:
        start = play.now
        play >> Delivered(1, run_of(0, 1)) << sent(Basic.Deliver)
        play >> Tick(start + 1) >> Tick(start + 6)
        del play.vhost.timeouts_s["q"]
        play >> Tick(start + 7) >> Tick(start + 10)
        play.vhost.timeouts_s["q"] = 8.0
        play >> Tick(start + 10.9)
        play.vhost.timeouts_s["q"] = 1.0
        play >> Tick(start + 12) >> Tick(start + 13.5)
        play << sent(Channel.Close, reply_code=406, reply_text=TEXT.replace("4000", "1000"))
        play.effect(Leave)
