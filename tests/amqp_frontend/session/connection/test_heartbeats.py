"""Heartbeats as tables: what happened when, and what is due then."""

import pytest

from arneb_amqp.session.connection.heartbeats import NEVER, Beat, Heartbeats


def beats(received: float, sent: float, interval_s: int = 10) -> Heartbeats:
    heartbeats = Heartbeats(0.0)
    heartbeats.interval_s = interval_s
    heartbeats.received(received)
    heartbeats.sent(sent)
    return heartbeats


@pytest.mark.parametrize(
    ("received", "sent", "now", "due"),
    [
        (0, 0, 4.9, Beat.NOTHING),
        (0, 0, 5, Beat.SEND),
        (0, 15, 19.9, Beat.NOTHING),
        (0, 15, 20, Beat.GIVE_UP),
        (0, 0, 20, Beat.GIVE_UP),
        (15, 15, 20, Beat.SEND),
        (16, 16, 20, Beat.NOTHING),
    ],
)
def test_what_is_due(received: float, sent: float, now: float, due: Beat) -> None:
    assert beats(received, sent).check(now) is due


def test_the_next_timer_is_the_earlier_of_sending_and_giving_up() -> None:
    assert beats(0, 0).next_timer() == 5
    assert beats(0, 18).next_timer() == 20


def test_without_an_interval_nothing_is_due() -> None:
    heartbeats = beats(0, 0, interval_s=0)
    assert heartbeats.next_timer() == NEVER
    assert heartbeats.check(1e9) is Beat.NOTHING
