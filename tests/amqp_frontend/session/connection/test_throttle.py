"""Throttle: a client that publishes during an alarm is blocked, notified once, and not
forgotten."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Confirm, Connection, Queue
from tests.amqp_frontend.session.playbook import (
    NOW,
    Playbook,
    Tick,
    client,
    opened,
    publishes,
    sent,
    start_ok,
    started,
    tune_ok,
)

from arneb_amqp.session.connection.throttle import Throttle
from arneb_amqp.session.effects import EndConnection, Perform
from arneb_amqp.session.events import AlarmsChanged, Committed, Shutdown
from arneb_amqp.session.transitions import ConnectionState
from arneb_amqp.wire.tables import boolean, table
from arneb_core.api.process.resource_alarms import NOTHING_SHORT, Resource

MEMORY = AlarmsChanged(frozenset({Resource.MEMORY}))
BOTH = AlarmsChanged(frozenset({Resource.MEMORY, Resource.DISK}))
NOTHING = AlarmsChanged(NOTHING_SHORT)
LOG = AlarmsChanged(frozenset({Resource.LOG}))

WANTS_TO_KNOW = {"capabilities": table({"connection.blocked": boolean(True)})}


def listening(heartbeat: int = 60) -> Playbook:
    """An open channel of a client that asked for connection.blocked."""
    play = started(Playbook())
    play >> start_ok(client_properties=WANTS_TO_KNOW) << sent(Connection.Tune, 0)
    play >> tune_ok(heartbeat=heartbeat) >> client(Connection.Open, 0)
    return opened(play << sent(Connection.OpenOk, 0))


def test_the_first_publish_is_held_back_and_the_client_notified() -> None:
    with listening() as play:
        play >> MEMORY
        assert not play.session.blocked
        play >> publishes(b"one", b"two")
        play << sent(Connection.Blocked, 0, reason="low on memory")
        assert play.session.blocked
        play >> publishes(b"three") >> BOTH
        play >> NOTHING << sent(Connection.Unblocked, 0)
        one, two, three = play.appended().entries
        assert (b"one" in one, b"two" in two, b"three" in three) == (True, True, True)


def test_a_client_that_did_not_ask_is_blocked_without_notice() -> None:
    with opened() as play:
        play >> BOTH >> publishes(b"one")
        assert play.session.blocked
        play >> NOTHING
        assert not play.session.blocked
        assert len(play.appended().entries) == 1


def test_two_alarms_are_named_in_order() -> None:
    with listening() as play:
        play >> BOTH >> publishes(b"one")
        play << sent(Connection.Blocked, 0, reason="low on disk & memory")


def test_a_second_alarm_blocks_and_notifies_again() -> None:
    with listening() as play:
        for _ in range(2):
            play >> MEMORY >> publishes(b"x") << sent(Connection.Blocked, 0)
            play >> NOTHING << sent(Connection.Unblocked, 0)
            play.appended()
        play >> MEMORY >> NOTHING >> publishes(b"x")
        play.appended()


def test_methods_after_a_blocked_publish_wait_and_those_before_it_do_not() -> None:
    with listening() as play:
        play >> MEMORY >> client(Confirm.Select) << sent(Confirm.SelectOk)
        play >> publishes(b"x") << sent(Connection.Blocked, 0)
        play >> client(Queue.Declare, queue="q")
        play >> NOTHING << sent(Connection.Unblocked, 0)
        append = play.appended()
        play.effect(Perform)
        play >> Committed(append.token) << sent(Basic.Ack)


def test_missing_heartbeats_count_again_once_a_client_is_unblocked() -> None:
    with listening(heartbeat=10) as play:
        play >> MEMORY >> publishes(b"x") << sent(Connection.Blocked, 0)
        for seconds in range(5, 200, 5):
            play >> Tick(NOW + seconds)
        assert play.session.state is ConnectionState.OPEN
        play >> NOTHING << sent(Connection.Unblocked, 0)
        play.appended()
        play >> Tick(play.now + 19)
        assert play.session.state is ConnectionState.OPEN
        play >> Tick(play.now + 2)
        assert play.session.state is ConnectionState.CLOSED
        play.effects.clear()


def test_a_blocked_client_is_still_notified_when_the_broker_stops() -> None:
    with listening() as play:
        play >> MEMORY >> publishes(b"x") << sent(Connection.Blocked, 0)
        play >> Shutdown() << sent(Connection.Close, 0) << EndConnection()
        assert not play.session.blocked


shorts = st.frozensets(st.sampled_from(Resource))


@given(st.lists(shorts | st.none()))
def test_a_throttle_blocks_from_a_publish_until_all_alarms_have_ended(
    happened: list[frozenset[Resource] | None],
) -> None:
    """None stands for a publish."""
    throttle = Throttle()
    states = [(throttle.short, throttle.blocked)]
    for short in happened:
        if short is None:
            assert throttle.publish() is bool(throttle.short)
        else:
            assert throttle.change(short) is (throttle.blocked is False and states[-1][1])
        states.append((throttle.short, throttle.blocked))
    for (_, before), (short, after) in pairwise(states):
        assert not after or short
        assert not (before and short) or after


def test_every_request_waits_while_the_log_does_not_answer() -> None:
    with listening() as play:
        play >> LOG
        assert not play.session.blocked
        play >> client(Queue.Declare, 1, queue="q", passive=True)
        play << sent(Connection.Blocked, 0, reason="the replicated log does not answer")
        assert play.session.blocked
        play >> NOTHING << sent(Connection.Unblocked, 0)
        assert play.effect(Perform).command.queue == "q"
