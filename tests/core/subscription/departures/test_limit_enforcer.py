"""The limit enforcer, told as scripts: what expires and what is too much leaves from the front."""

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.subscription.dispatching.dispatch_loop import DISPATCH_ENTRIES_MAX
from arneb_core.subscription.inputs import (
    Acknowledged,
    Granted,
    Limited,
    Tick,
    Turn,
)
from arneb_core.subscription.state.effects import (
    HasWork,
    Read,
    WakeAt,
    WriteCursor,
)
from arneb_core.subscription.state.state import HOLDER
from arneb_core.testing.playbook import (
    NOW_MS,
    Delivered,
    Departed,
    Playbook,
    in_short,
    position,
    positions,
    to,
)


def held(play: Playbook) -> set[Position]:
    return play.state.holder.positions


def test_what_is_too_much_departs_from_the_front_and_stays_held_until_it_is_elsewhere() -> None:
    with Playbook() as play:
        play >> Limited(Limits(ready_messages_max=2), has_target=True) << HasWork()
        play >> play.append(*[b"x"] * 5) >> Turn() << Departed("maxlen", (0, 1, 2))
        assert held(play) == set(positions(0, 1, 2)) and play.machine.ready_messages == 2
        play >> Acknowledged(HOLDER.name, positions(0, 1, 2)) << WriteCursor() << HasWork()
        assert not held(play) and play.state.acks.mark_delete == position(2)


def test_without_a_target_it_is_gone() -> None:
    with Playbook() as play:
        play >> Limited(Limits(ready_messages_max=2)) << HasWork()
        play >> play.append(*[b"x"] * 5) >> Turn() << WriteCursor() << HasWork()
        assert not held(play) and play.state.acks.mark_delete == position(2)


def test_what_a_consumer_takes_does_not_count_as_too_much() -> None:
    with Playbook() as play:
        play >> Limited(Limits(ready_messages_max=1), has_target=True)
        play.attach("a", 2)
        play >> play.append(*[b"x"] * 4) << HasWork() >> Turn()
        play << to("a", 0, 1) << Departed("maxlen", (2,))


def test_what_came_before_somebody_had_room_counts_as_too_much() -> None:
    """Even if the turn in which it is seen comes only behind that."""
    with Playbook() as play:
        play >> Limited(Limits(ready_messages_max=1), has_target=True) << HasWork()
        play >> play.append(*[b"x"] * 3)
        play.attach("a", 2)
        play >> play.append(b"late") >> Turn()
        play << Departed("maxlen", (0, 1)) << to("a", 2) << to("a", 3)
        play >> play.append(*[b"x"] * 3) << HasWork() >> Granted("a", 9) >> play.append(b"late")
        play >> Turn() << Departed("maxlen", (4, 5)) << to("a", 6) << to("a", 7)


def test_what_expires_at_once_is_not_for_later_consumers() -> None:
    with Playbook() as play:
        play >> Limited(Limits(message_ttl_ms=0), has_target=True) << HasWork()
        play >> play.append(b"missed")
        play.attach("a", 9)
        play >> play.append(b"x") >> Turn()
        play.skip(WakeAt) << Departed("expired", (0,)) << to("a", 1)


def test_the_front_says_when_it_expires_and_departs_then() -> None:
    with Playbook() as play:
        play >> Limited(Limits(message_ttl_ms=1_000), has_target=True) << HasWork()
        play >> play.append(b"1") >> Turn() << WakeAt(NOW_MS + 1_000)
        play.now_ms += 400
        play >> play.append(b"2") << HasWork() >> Turn() << WakeAt(NOW_MS + 1_000)
        play.now_ms += 600
        play >> Tick() << HasWork() >> Turn()
        play << WakeAt(NOW_MS + 1_400) << Departed("expired", (0,))


def test_nothing_that_has_expired_is_delivered() -> None:
    with Playbook() as play:
        play >> Limited(Limits(message_ttl_ms=1_000), has_target=True) << HasWork()
        play >> play.append(b"1", b"2") >> Turn() << WakeAt(NOW_MS + 1_000)
        play.now_ms += 1_000
        play.attach("a", 9)
        play << HasWork() >> Turn() << Departed("expired", (0, 1))


def test_what_lives_no_time_is_for_a_consumer_that_waits_while_it_is_read() -> None:
    with Playbook(is_hot=False) as play:
        play >> Limited(Limits(message_ttl_ms=0), has_target=True)
        play >> play.append(b"missed") >> Turn()
        play.attach("a", 2)
        missed = play.skip(HasWork).take(Read)
        # One read at a time: what comes now is not at hand, though somebody wants it.
        play >> Turn() >> play.append(b"1", b"2", b"3") << HasWork() >> Turn()
        play >> play.read(missed) << HasWork() >> Turn()
        rest = play.skip(HasWork).take(Read)
        play << Departed("expired", (0,)) << to("a", 1)
        play >> play.read(rest) >> Turn()
        play.skip(HasWork) << to("a", 2) << Departed("expired", (3,))


def test_what_lives_no_time_is_taken_over_several_turns() -> None:
    entries = DISPATCH_ENTRIES_MAX + 100
    with Playbook() as play:
        play >> Limited(Limits(message_ttl_ms=0), has_target=True)
        play.attach("a", entries)
        play.skip(HasWork) >> play.append(*[b"x"] * entries) >> Turn() >> Turn()
        delivered = [in_short(each) for each in play.skip(HasWork, WakeAt).effects]
        assert all(isinstance(each, Delivered) for each in delivered)
        assert sum(len(each.numbers) for each in delivered) == entries
        play.effects.clear()
