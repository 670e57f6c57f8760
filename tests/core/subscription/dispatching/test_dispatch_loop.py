"""Dispatch, told as scripts: who gets what, and when counts change."""

import pytest

from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import ConsumerBusy, SubscriptionTypeMismatch
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.subscription.dispatching.dispatch_loop import (
    DELIVERY_ENTRIES,
    DISPATCH_ENTRIES_MAX,
)
from arneb_core.subscription.entries.delivery import DELIVERIES_MAX
from arneb_core.subscription.inputs import (
    Acknowledged,
    Detached,
    Granted,
    Released,
    Retired,
    Turn,
    WritableChanged,
)
from arneb_core.subscription.state.effects import Deliver, HasWork, NoConsumers, Read, WriteCursor
from arneb_core.testing.playbook import (
    Active,
    Delivered,
    Playbook,
    in_short,
    position,
    positions,
    to,
)

EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = (
    SubscriptionType.EXCLUSIVE,
    SubscriptionType.SHARED,
    SubscriptionType.FAILOVER,
    SubscriptionType.KEY_SHARED,
)


def test_work_is_announced_once_until_the_turn_comes() -> None:
    with Playbook() as play:
        play >> play.append(b"nobody listens")
        play.attach("a")
        play << HasWork()
        play >> Granted("a", 2) >> play.append(b"1", b"2")
        play >> Turn() << to("a", 0) << to("a", 1)
        play >> Granted("a", 1) << HasWork()
        play >> Turn() << to("a", 2)


def test_shared_consumers_take_turns_and_a_full_one_loses_its() -> None:
    with Playbook() as play:
        play.attach("a", 5, entries_per_turn_max=2)
        play.attach("b", 3, entries_per_turn_max=2)
        play << HasWork()
        play >> play.append(*[b"x"] * 9) >> Turn()
        play << to("a", 0, 1, 4, 5, 7) << to("b", 2, 3, 6)
        assert play.answer == 8 + 2 * DELIVERY_ENTRIES
        play >> Granted("b", 1) << HasWork() >> Turn() << to("b", 8)


def test_a_crowd_of_consumers_is_served_over_several_turns_and_in_order() -> None:
    """Each delivery goes through all layers, so few of them fill a turn."""
    crowd = 2 * DELIVERIES_MAX + 10
    with Playbook() as play:
        for number in range(crowd):
            play.attach(f"{number}", 3, entries_per_turn_max=1)
        play.skip(HasWork) >> play.append(*[b"x"] * 2 * crowd)
        given: list[Delivered] = []
        turns = 0
        while len(given) < 2 * crowd:
            before = len(given)
            play >> Turn()
            turns += 1
            given += [in_short(each) for each in play.effects if isinstance(each, Deliver)]
            play.effects.clear()
            assert 0 < len(given) - before <= DELIVERIES_MAX
            assert len(given) == 2 * crowd or play.answer >= DISPATCH_ENTRIES_MAX
        assert turns == 5
        assert [each.consumer for each in given] == [f"{number}" for number in range(crowd)] * 2
        assert [each.numbers for each in given] == [(number,) for number in range(2 * crowd)]


def test_a_crowd_that_shares_keys_is_served_over_several_turns_too() -> None:
    crowd, entries = 4 * DELIVERIES_MAX, 8 * DELIVERIES_MAX

    def turns(play: Playbook) -> int:
        count = given = 0
        while given < entries:
            play >> Turn()
            made = [each for each in play.effects if isinstance(each, Deliver)]
            play.effects.clear()
            assert 0 < len(made) <= DELIVERIES_MAX
            given += sum(len(each.run.positions) for each in made)
            count += 1
            for each in made:
                held.setdefault(each.consumer.name, []).extend(each.run.positions)
        return count

    with Playbook() as play:
        for number in range(crowd):
            play.attach(f"{number}", entries, type=KEY_SHARED)
        play >> play.append(*[b"x"] * entries)  # without keys they are dealt out by position
        play.effects.clear()
        held: dict[str, list[Position]] = {}
        assert turns(play) >= entries // DELIVERIES_MAX
        for name, kept in list(held.items()):
            play >> Released(name, kept)
        play.effects.clear()
        held.clear()
        assert turns(play) >= len(held) // DELIVERIES_MAX


def test_a_few_consumers_get_long_runs_in_one_turn() -> None:
    with Playbook() as play:
        for name in "ab":
            play.attach(name, 2 * DELIVERIES_MAX)
        play.skip(HasWork) >> play.append(*[b"x"] * 4 * DELIVERIES_MAX) >> Turn()
        given = [len(each.run.positions) for each in play.effects if isinstance(each, Deliver)]
        assert sum(given) == 4 * DELIVERIES_MAX
        assert len(given) < 10
        play.effects.clear()


def test_a_consumer_whose_client_takes_no_bytes_gets_nothing() -> None:
    with Playbook() as play:
        play.attach("a", 10)
        play << HasWork() >> WritableChanged("a", False)
        play >> play.append(b"x") >> Turn()
        assert play.answer == 0
        play >> WritableChanged("a", True) << HasWork() >> Turn() << to("a", 0)


def test_a_cursor_that_changed_is_announced_once_until_it_is_taken() -> None:
    with Playbook() as play:
        play.attach("a", 10)
        play >> play.append(*[b"x"] * 4) >> Turn()
        play.effects.clear()
        play >> Acknowledged("a", positions(0)) << WriteCursor() << HasWork()
        play >> Acknowledged("a", positions(1))
        calls: list[object] = []
        play >> Acknowledged("a", positions(2), calls.append) << WriteCursor(calls.append)
        play.state.cursor_taken()
        play >> Acknowledged("a", positions(3)) << WriteCursor()
        assert play.state.acks.mark_delete == position(3)


def test_what_comes_back_goes_first_and_says_so() -> None:
    with Playbook() as play:
        play.attach("a", 3)
        play >> play.append(*[b"x"] * 5) >> Turn() << HasWork() << to("a", 0, 1, 2)
        play >> Released("a", positions(2, 0)) >> Granted("a", 3) << HasWork()
        play >> Turn() << to("a", 0, 2, redelivered=(0, 2)) << to("a", 3)


def test_what_a_consumer_that_left_had_goes_to_the_others() -> None:
    with Playbook() as play:
        play.attach("a", 2)
        play.attach("b")
        play >> play.append(b"1", b"2") << HasWork() >> Turn() << to("a", 0, 1)
        play >> Detached("a") << HasWork() >> Granted("b", 2)
        play >> Turn() << to("b", 0, 1, redelivered=(0, 1))
        play >> Detached("b") << HasWork() << NoConsumers()
        assert play.state.type is None


def test_only_one_consumer_is_on_an_exclusive_subscription() -> None:
    with Playbook() as play:
        play.attach("a", 1, type=EXCLUSIVE)
        with pytest.raises(ConsumerBusy):
            play.attach("b", type=EXCLUSIVE)
        with pytest.raises(SubscriptionTypeMismatch):
            play.attach("b", type=SHARED)
        play >> play.append(b"x") << HasWork() >> Turn() << to("a", 0)


def test_of_failover_consumers_one_is_active_and_the_next_one_goes_on_where_it_stood() -> None:
    with Playbook() as play:
        play.attach("a", 2, type=FAILOVER, partition=0)
        play << HasWork() << Active("a", True)
        play.attach("b", 9, type=FAILOVER, partition=0)
        play << Active("b", False)
        play >> play.append(*[b"x"] * 4) >> Turn() << to("a", 0, 1)
        play >> Acknowledged("a", positions(0)) << WriteCursor() << HasWork()
        play >> Detached("a") << Active("b", True)
        play >> Turn() << to("b", 1, redelivered=(1,)) << to("b", 2, 3)


def test_a_retired_consumer_keeps_what_it_has_and_gets_nothing_more() -> None:
    with Playbook() as play:
        play.attach("a", 9, type=FAILOVER, first_come=True)
        play.attach("b", 9, type=FAILOVER, first_come=True)
        play.effects.clear()
        play >> play.append(b"x") >> Turn() << to("a", 0)
        play >> Retired("a") << HasWork() << Active("a", False) << Active("b", True)
        play >> play.append(b"y") >> Turn() << to("b", 1)
        assert play.inputs.consumers["a"].in_flight == 1


def test_a_key_stays_with_its_consumer_until_it_has_answered() -> None:
    key = {"key_hash": key_hash(b"k")}
    with Playbook() as play:
        play.attach("a", 9, type=KEY_SHARED)
        play >> play.append(b"1", b"2", **key) << HasWork() >> Turn() << to("a", 0, 1)
        # Whoever comes may become the owner of the key, and has to wait for it.
        for name in "bcde":
            play.attach(name, 9, type=KEY_SHARED)
        play.skip(HasWork)
        play >> play.append(b"3", **key) >> Turn()
        owner = _owner(play, key["key_hash"])
        assert owner != "a", "the names were chosen so"
        play >> Acknowledged("a", positions(0, 1))
        play.skip(HasWork, WriteCursor)
        play >> Turn() << to(owner, 2)


def _owner(play: Playbook, hashed: int) -> str:
    keys = play.machine.keys
    assert keys is not None
    found = keys._owners[keys.slots([hashed])[0]]
    assert found is not None
    return found.name


def test_of_a_batch_a_consumer_gets_what_it_has_room_for() -> None:
    with Playbook() as play:
        play.attach("a", 2, message_level=True)
        play << HasWork() >> play.append(b"batch", messages=3) >> Turn() << to("a", 0)
        assert play.state.divided == {position(0): 0b011}
        play >> Granted("a", 1) << HasWork() >> Turn() << to("a", 0)
        assert play.inputs.consumers["a"].masks == {position(0): 0b111}


def test_what_is_not_in_memory_is_read_and_goes_out_when_it_is_there() -> None:
    with Playbook(is_hot=False) as play:
        play.attach("a", 9)
        play << HasWork() >> play.append(*[b"x"] * 4) >> Turn()
        read = play.take(Read)
        assert isinstance(read, Read) and read.position == position(0)
        play >> play.read(read) << HasWork()
        play >> Turn()
        following = play.take(Read)
        assert isinstance(following, Read) and following.position == position(2)
        play << to("a", 0, 1) >> play.read(following) << HasWork() >> Turn() << to("a", 2, 3)
