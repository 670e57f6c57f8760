"""When a failover consumer hears whether it is active: once its client can know it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.session.consume.test_consumers import subscribe
from tests.pulsar_frontend.session.playbook import Playbook, received, sent

from arneb_pulsar.session.consume.consumers import ACTIVE_AFTER_S
from arneb_pulsar.session.interface.effects import (
    AddPermits,
    AttachConsumer,
    ConsumerKey,
    DetachConsumer,
)
from arneb_pulsar.session.interface.events import ActiveChanged, ConsumerAttached, ConsumerClosed
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

FLOW = pb.CommandFlow(consumer_id=1, messagePermits=9)


def active(is_active: bool) -> pb.CommandActiveConsumerChange:
    return pb.CommandActiveConsumerChange(consumer_id=1, is_active=is_active)


def attached(*before: bool) -> tuple[Playbook, ConsumerKey]:
    """A failover consumer that has its SUCCESS, and was (in)active before that."""
    play = Playbook() >> received(subscribe(subType=pb.CommandSubscribe.Failover))
    key = play.take(AttachConsumer).key
    for each in before:
        play >> ActiveChanged(key, each)
    play >> ConsumerAttached(key)
    assert isinstance(play.heard().command, pb.CommandSuccess)
    return play, key


@pytest.mark.parametrize("is_before", [True, False])
def test_a_consumer_with_permits_is_notified_first(is_before: bool) -> None:
    play, key = attached(*[True] * is_before)
    if not is_before:
        play >> ActiveChanged(key, True)
    play.over()
    play >> received(FLOW) << sent(active(True)) << AddPermits(key, 9)
    play >> received(FLOW) << AddPermits(key, 9)
    play >> ActiveChanged(key, False) << sent(active(False))
    play.pass_time(ACTIVE_AFTER_S)
    play.over()


def test_a_consumer_without_permits_is_notified_after_a_second() -> None:
    play, key = attached(False)
    assert play.session.next_timer() == play.now + ACTIVE_AFTER_S
    play.pass_time(ACTIVE_AFTER_S - 0.25).over()
    play >> ActiveChanged(key, True)
    play.over()
    play.pass_time(0.25) << sent(active(True))
    play >> received(FLOW) << AddPermits(key, 9)
    play.over()


def test_nothing_is_sent_about_a_consumer_that_has_left() -> None:
    play, key = attached(True)
    play >> received(pb.CommandCloseConsumer(consumer_id=1, request_id=2)) << DetachConsumer(key)
    assert isinstance(play.heard().command, pb.CommandSuccess)
    play.pass_time(ACTIVE_AFTER_S)
    play.over()
    play, key = attached(True)
    play >> ConsumerClosed(key)
    assert isinstance(play.heard().command, pb.CommandCloseConsumer)
    play.pass_time(ACTIVE_AFTER_S)
    play.over()


@pytest.mark.parametrize("kind", [pb.CommandSubscribe.Shared, pb.CommandSubscribe.Exclusive])
def test_others_are_not_notified(kind: int) -> None:
    play = Playbook() >> received(subscribe(subType=kind))
    play >> ConsumerAttached(play.take(AttachConsumer).key)
    play.heard()
    play.pass_time(ACTIVE_AFTER_S) >> received(FLOW)
    play.take(AddPermits)
    play.over()


STEPS = st.lists(st.booleans() | st.sampled_from(["flow", "wait"]), max_size=12)


@given(STEPS)
def test_the_last_notification_is_always_true(steps: list[bool | str]) -> None:
    play, key = attached()
    is_active: bool | None = None
    knows = False
    for step in steps:
        tells = False
        if isinstance(step, bool):
            play >> ActiveChanged(key, step)
            is_active, tells = step, knows
        else:
            if step == "flow":
                play >> received(FLOW)
                play.take(AddPermits)
            else:
                play.pass_time(ACTIVE_AFTER_S)
            knows, tells = True, not knows
        if tells and is_active is not None:
            play << sent(active(is_active))
        play.over()
