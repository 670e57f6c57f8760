"""Delayed entries, told as scripts: each comes once, at its time."""

from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.subscription.inputs import Acknowledged, Purged, Released, Sought, Tick, Turn
from arneb_core.subscription.state.effects import HasWork, WakeAt, WriteCursor
from arneb_core.testing.playbook import NOW_MS, Playbook, position, positions, to

TICK_MS = 10


def later(ms: int) -> int:
    return NOW_MS + ms


def test_what_is_not_due_waits_and_what_follows_it_does_not() -> None:
    with Playbook(holds_back=True) as play:
        play.attach("a", 9)
        play >> play.append(b"late", deliver_at_ms=later(500))
        play >> play.append(b"now") << HasWork()
        play >> Turn() << WakeAt(later(500)) << to("a", 1) << WakeAt(later(500))
        assert play.machine.statistics().delayed_entries == 1
        play.now_ms += 500
        play >> Tick() << HasWork() >> Turn() << to("a", 0)
        assert play.machine.statistics().delayed_entries == 0
        assert not play.machine.statistics().redelivered_entries_total


def test_what_came_due_together_goes_in_log_order() -> None:
    with Playbook(holds_back=True) as play:
        play >> play.append(b"0", deliver_at_ms=later(300))
        play >> play.append(b"1", deliver_at_ms=later(100))
        play >> play.append(b"2", deliver_at_ms=later(200))
        play.now_ms += 1_000
        play.attach("a", 9)
        play << HasWork() >> Turn() << to("a", 0, 1, 2)


def test_on_request_the_entries_due_sooner_come_first() -> None:
    with Playbook(holds_back=True) as play:
        play >> play.append(b"0", deliver_at_ms=later(300))
        play >> play.append(b"1", deliver_at_ms=later(100))
        play >> play.append(b"2", deliver_at_ms=later(200))
        play.now_ms += 1_000
        play.attach("a", 9, by_time=True)
        play << HasWork() >> Turn() << to("a", 1, 2) << to("a", 0)


def test_an_exclusive_consumer_gets_everything_at_once() -> None:
    with Playbook(holds_back=True) as play:
        play.attach("a", 9, type=SubscriptionType.EXCLUSIVE)
        play << HasWork()
        play >> play.append(b"late", deliver_at_ms=later(500)) >> Turn() << to("a", 0)


def test_what_came_due_and_came_back_goes_again_at_once() -> None:
    with Playbook(holds_back=True) as play:
        play.attach("a", 9)
        play << HasWork() >> play.append(b"late", deliver_at_ms=later(50))
        play >> Turn() << WakeAt(later(50))
        play.now_ms += 50
        play >> Tick() << HasWork() >> Turn() << to("a", 0)
        play >> Released("a", positions(0)) << HasWork()
        play >> Turn() << to("a", 0, redelivered=(0,))
        play >> Acknowledged("a", positions(0)) << WriteCursor()
        play.skip(HasWork)
        assert play.state.acks.mark_delete == position(0)


def test_a_seek_has_it_wait_for_its_time_again() -> None:
    with Playbook(holds_back=True) as play:
        play >> play.append(b"late", deliver_at_ms=later(50))
        play.now_ms += 50
        play.attach("a", 9)
        play << HasWork() >> Turn() << to("a", 0)
        play >> Sought(position(0))
        play.now_ms -= 40  # the clock was set back meanwhile
        play.attach("a", 9)
        play.effects.clear()
        play >> Turn() << HasWork() << WakeAt(later(50))  # it has to be looked through again
        play >> Turn() << WakeAt(later(50))
        play.now_ms += 40
        play >> Tick() << HasWork() >> Turn() << to("a", 0)


def test_what_was_purged_before_its_time_is_counted_no_more() -> None:
    with Playbook(holds_back=True) as play:
        play.attach("a", 9)
        play >> play.append(b"0", deliver_at_ms=later(500))
        play >> play.append(b"1", deliver_at_ms=later(600))
        play.effects.clear()
        play >> Purged()
        play.effects.clear()
        play >> play.append(b"2") >> play.append(b"3", deliver_at_ms=later(700))
        figures = play.machine.statistics()
        assert (figures.backlog_entries, figures.delayed_entries) == (2, 1)
        assert figures.ready_entries == 1
        play.effects.clear()
        play >> Turn()
        play.effects.clear()
        play.now_ms += 650
        play >> Tick() >> Turn()
        play.effects.clear()
        assert play.machine.statistics().delayed_entries == 1, (
            "those two must not be subtracted twice"
        )
        play.now_ms += 50
        play >> Tick() >> Turn()
        play.effects.clear()
        assert play.machine.statistics().delayed_entries == 0
