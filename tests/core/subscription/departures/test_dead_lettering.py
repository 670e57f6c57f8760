"""Dead-lettering, told as scripts: what departs, when, and what becomes of it."""

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.subscription.consumers.returns import Taken
from arneb_core.subscription.inputs import (
    Limited,
    NotTaken,
    Rejected,
    Released,
    Retried,
    Sought,
    Turn,
    UnitBegan,
    UnitFailed,
)
from arneb_core.subscription.state.effects import (
    Depart,
    HasWork,
    NoConsumers,
    Read,
    TryAgain,
    WriteCursor,
)
from arneb_core.subscription.state.state import HOLDER
from arneb_core.testing.playbook import (
    Departed,
    Playbook,
    PutOut,
    position,
    positions,
    to,
)


def held(play: Playbook) -> set[Position]:
    return play.state.holder.positions


def test_a_rejected_entry_departs_at_once_and_is_read_for_it_if_need_be() -> None:
    with Playbook(is_hot=False) as play:
        play >> Limited(Limits(), has_target=True)
        play.attach("a", 1)
        play << HasWork() >> play.append(b"1") >> Turn()
        read = play.take(Read)
        assert isinstance(read, Read)
        play >> play.read(read) << HasWork() >> Turn() << to("a", 0)
        play >> Rejected("a", positions(0)) << HasWork()
        assert held(play) == {position(0)} and play.machine.ready_messages == 0
        play >> Turn()
        again = play.take(Read)
        assert isinstance(again, Read)
        play >> play.read(again) << HasWork() >> Turn() << Departed("rejected", (0,))


def test_what_is_rejected_departs_in_the_order_in_which_it_was() -> None:
    with Playbook() as play:
        play >> Limited(Limits(), has_target=True)
        play.attach("a", 9)
        play << HasWork() >> play.append(*[b"x"] * 6) >> Turn() << to("a", 0, 1, 2, 3, 4, 5)
        for rejected in ((5,), (0, 1), (4, 2, 3)):
            play >> Rejected("a", positions(*rejected))
        play << HasWork() >> Turn()
        for departed in ((5,), (0, 1, 4), (2, 3)):
            play << Departed("rejected", departed)


def test_what_came_back_once_too_often_departs() -> None:
    with Playbook() as play:
        play >> Limited(Limits(delivery_limit=1), has_target=True) << HasWork()
        play.attach("a", 9)
        play >> play.append(b"1") >> Turn() << to("a", 0)
        play >> Released("a", positions(0), count=True) << HasWork()
        play >> Turn() << to("a", 0, redelivered=(0,))
        play >> Released("a", positions(0), count=True) << HasWork()
        play >> Turn() << Departed("delivery_limit", (0,))


def test_what_the_target_could_not_take_is_handed_over_once_more_a_little_later() -> None:
    with Playbook() as play:
        play >> Limited(Limits(ready_messages_max=0), has_target=True) << HasWork()
        play >> play.append(b"1") >> Turn()
        depart = play.take(Depart)
        assert isinstance(depart, Depart)
        play >> NotTaken(depart) << TryAgain(is_read=False) << HasWork()
        play >> Turn()  # nothing goes there before it is tried again
        assert held(play) == {position(0)}
        play >> Retried() << HasWork() >> Turn() << Departed("maxlen", (0,))


def test_after_a_seek_what_was_on_its_way_is_the_logs_again() -> None:
    with Playbook() as play:
        play >> Limited(Limits(ready_messages_max=0), has_target=True) << HasWork()
        play >> play.append(b"1") >> Turn()
        depart = play.take(Depart)
        assert isinstance(depart, Depart)
        play >> Sought(position(0)) >> Limited(Limits(), has_target=True)
        play.attach("a", 9)
        play.effects.clear()
        play >> NotTaken(depart)  # and who comes too late changes nothing
        assert not (play.effects or held(play) or depart.holder.attached)
        play >> Turn() << to("a", 0)


def test_a_unit_that_fails_leaves_a_dead_letter_where_it_was() -> None:
    with Playbook() as play:
        play >> Limited(Limits(ready_messages_max=0), has_target=True) << HasWork()
        play >> play.append(b"1") >> Turn() << Departed("maxlen", (0,))
        play >> UnitBegan(HOLDER.name, positions(0)) << WriteCursor() << HasWork()
        assert isinstance(play.answer, Taken) and not held(play)
        play >> UnitFailed(HOLDER.name, play.answer)
        assert held(play) == {position(0)} and not play.state.acks.is_acknowledged(position(0))


def test_a_topic_that_keeps_nothing_drops_what_no_consumer_took() -> None:
    with Playbook() as play:
        play >> Limited(Limits(waits=False)) << HasWork()
        play.attach("a", 1, acks=False)
        play >> play.append(b"1", b"2", b"3") >> Turn()
        play << WriteCursor() << to("a", 0)
        play.skip(HasWork)
        assert play.state.acks.mark_delete == position(2)


def test_a_consumer_that_is_put_out_is_notified_when_its_entries_are_returned() -> None:
    with Playbook() as play:
        consumer = play.attach("a", 1)
        play >> play.append(b"1") << HasWork() >> Turn() << to("a", 0)
        consumer.put_out("removed")
        play.skip(HasWork)
        assert play.machine.ready_messages == 1
        play << NoConsumers() << PutOut("a", "removed")
