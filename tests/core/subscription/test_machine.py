"""Seeks, purges, pulls and what follows an error, told as scripts."""

import pytest

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed, SubscriptionFenced
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.subscription.dispatching.pulls import Unanswered
from arneb_core.subscription.inputs import (
    Acknowledged,
    DeliveryFailed,
    Fenced,
    Granted,
    MessagesAcknowledged,
    Prioritised,
    Pulled,
    Purged,
    ReadDone,
    Retried,
    Sought,
    Turn,
    TurnFailed,
    Unfenced,
)
from arneb_core.subscription.state.effects import (
    HasWork,
    NoConsumers,
    Read,
    Refuse,
    TryAgain,
    WriteCursor,
)
from arneb_core.testing.playbook import Playbook, PutOut, position, positions, to


def pulled(play: Playbook) -> list[Position]:
    assert isinstance(play.answer, Deliveries), play.answer
    return play.answer.positions


def test_after_a_seek_everything_from_there_on_comes_again_as_new() -> None:
    with Playbook() as play:
        play.attach("a", 9)
        play >> play.append(*[b"x"] * 4) << HasWork() >> Turn() << to("a", 0, 1, 2, 3)
        old = play.inputs.consumers["a"]
        play >> Sought(position(2)) << HasWork() << NoConsumers() << PutOut("a", "seek")
        assert play.state.acks.mark_delete == position(1)
        play.attach("a", 9)
        old.acknowledge(positions(3))  # meant what it had before, and counts no more
        play.skip(WriteCursor)
        play >> Turn() << to("a", 2, 3)


def test_a_purge_leaves_what_is_in_flight() -> None:
    with Playbook() as play:
        play.attach("a", 2)
        play >> play.append(*[b"x"] * 5) << HasWork() >> Turn() << to("a", 0, 1)
        play >> Purged() << WriteCursor() << HasWork()
        assert play.answer == 3 and play.machine.ready_messages == 0
        play >> Granted("a", 9) >> play.append(b"new") >> Turn() << to("a", 5)


def test_a_pull_takes_one_message_whatever_the_permits_say() -> None:
    with Playbook() as play:
        play.attach("a", pulls=True)
        play << HasWork() >> Pulled("a")
        assert play.answer is Unanswered.EMPTY
        play >> play.append(b"1", b"2") >> Pulled("a")
        assert pulled(play) == positions(0)
        assert play.inputs.consumers["a"].in_flight == 1


def test_a_pull_does_not_end_empty_while_entries_are_being_read() -> None:
    with Playbook(is_hot=False) as play:
        play.attach("a", pulls=True)
        play << HasWork() >> play.append(b"1") >> Pulled("a")
        assert play.answer is Unanswered.LATER
        read = play.take(Read)
        assert isinstance(read, Read)
        play >> Turn() >> play.read(read) << HasWork() >> Pulled("a")
        assert pulled(play) == positions(0)


def test_a_pull_says_why_the_message_cannot_be_read() -> None:
    with Playbook(is_hot=False) as play:
        play.attach("a", pulls=True)
        play << HasWork() >> play.append(b"1") >> Pulled("a")
        read = play.take(Read)
        assert isinstance(read, Read)
        play >> ReadDone(read.number, StoreFailed("the disk")) << TryAgain(is_read=True)
        with pytest.raises(StoreFailed, match="the disk"):
            play >> Pulled("a")
        assert play.machine.statistics().unreadable == position(0)
        play >> Turn() >> Retried() << HasWork() >> Pulled("a")
        again = play.take(Read)
        assert isinstance(again, Read) and again.number != read.number


def test_a_priority_goes_first() -> None:
    with Playbook() as play:
        play >> Prioritised(9)
        play >> play.append(b"low", priority=1) >> play.append(b"high", priority=5)
        play.attach("a", 9)
        play << HasWork() >> Turn() << to("a", 1) << to("a", 0)


def test_nobody_attaches_to_what_is_being_removed() -> None:
    with Playbook() as play:
        play.attach("a")
        play >> Fenced() << HasWork() << NoConsumers() << PutOut("a", "removed")
        with pytest.raises(SubscriptionFenced):
            play.attach("b")
        play >> Unfenced()
        play.attach("b")


def test_a_cursor_that_was_not_written_because_of_a_removal_is_written_when_that_failed() -> None:
    with Playbook() as play:
        play.attach("a", 9)
        play >> play.append(b"1") << HasWork() >> Turn() << to("a", 0)
        play >> Acknowledged("a", positions(0)) << WriteCursor() << HasWork()
        play >> Fenced() << NoConsumers() << PutOut("a", "removed")
        play >> Unfenced() << WriteCursor()


def test_an_unreachable_consumer_is_removed_and_others_get_its_entries() -> None:
    with Playbook() as play:
        play.attach("a", 1)
        play.attach("b")
        play >> play.append(b"1") << HasWork() >> Turn() << to("a", 0)
        play >> DeliveryFailed("a") << HasWork() << PutOut("a", "failed")
        play >> Granted("b", 1) >> Turn() << to("b", 0, redelivered=(0,))


def test_after_an_error_in_a_turn_nothing_is_lost_and_nothing_acknowledged_comes_back() -> None:
    with Playbook() as play:
        play.attach("a", 3)
        play >> play.append(*[b"x"] * 5) << HasWork() >> Turn() << to("a", 0, 1, 2)
        play >> Acknowledged("a", positions(1)) << WriteCursor() << HasWork()
        play >> TurnFailed() << NoConsumers() << PutOut("a", "failed")
        play.attach("b", 9)  # and no turn before it is tried again
        play >> Retried() << HasWork() >> Turn()
        play << to("b", 0, 2, redelivered=(0, 2)) << to("b", 3, 4)


def test_what_was_shared_out_in_a_turn_that_failed_is_delivered_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(positions: list[Position]) -> None:
        raise KeyError("a defect")

    with Playbook() as play:
        play.attach("a", 9)
        play << HasWork() >> play.append(b"1")
        with monkeypatch.context() as patch, pytest.raises(KeyError):
            patch.setattr(play.state.reader, "take", broken)
            play >> Turn()
        play >> TurnFailed() << NoConsumers() << PutOut("a", "failed")
        play.attach("b", 9)
        play >> Retried() << HasWork() >> Turn() << to("b", 0, redelivered=(0,))


def test_acknowledging_a_message_of_an_unreadable_batch_is_refused() -> None:
    calls: list[object] = []
    with Playbook(is_hot=False) as play:
        play.attach("a", 9)
        play << HasWork() >> play.append(b"batch", messages=3)
        play >> MessagesAcknowledged("a", position(0), 0b001, calls.append)
        read = play.take(Read)
        assert isinstance(read, Read)
        failure = StoreFailed("the disk")
        play >> ReadDone(read.number, failure) << Refuse(calls.append, failure)
        play >> MessagesAcknowledged("a", position(0), 0b001, calls.append)
        again = play.take(Read)
        assert isinstance(again, Read)
        play >> play.read(again) << WriteCursor(calls.append)
        assert play.state.acks.unacked_mask(position(0)) == 0b110
