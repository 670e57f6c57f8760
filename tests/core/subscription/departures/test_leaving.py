"""In which order entries leave that must be read first."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position
from arneb_core.subscription.departures import leaving
from arneb_core.subscription.departures.leaving import SETS_MAX, Leaving
from arneb_core.testing.playbook import Playbook, position, positions

COUNT = SETS_MAX + 10


def started(play: Playbook) -> Leaving:
    return Leaving(play.state.replays)


def left(those: Leaving) -> list[Position]:
    """What leaves, to the end."""
    gone: list[Position] = []
    while those:
        at_hand = those.peek()
        assert at_hand is not None
        those.take(at_hand[0])
        gone += at_hand[0]
    assert those.peek() is None
    return gone


@given(st.lists(st.lists(st.integers(0, 9), unique=True)))
def test_all_leave_in_the_order_in_which_they_were_first_notified(calls: list[list[int]]) -> None:
    with Playbook() as play:
        play >> play.append(*[b"x"] * 10)
        those = started(play)
        for each in calls:
            those.add(positions(*each))
        once = list(dict.fromkeys(positions(*[number for each in calls for number in each])))
        assert sorted(those) == sorted(once) and len(those) == len(once)
        assert left(those) == once
        play.effects.clear()


def test_what_left_may_come_again() -> None:
    with Playbook() as play:
        play >> play.append(*[b"x"] * 3)
        those = started(play)
        those.add(positions(2, 0))
        assert left(those) == [position(2), position(0)]
        those.add(positions(0, 2, 1))
        assert left(those) == [position(0), position(2), position(1)]
        play.effects.clear()


def test_many_turns_back_cost_so_many_sets_and_no_more() -> None:
    with Playbook() as play:
        play >> play.append(*[b"x"] * COUNT)
        made = 0

        def new_set() -> leaving.ReplaySet:
            nonlocal made
            made += 1
            return play.state.replays()

        those = Leaving(new_set)
        backwards = positions(*reversed(range(COUNT)))
        those.add(backwards)
        assert made == SETS_MAX
        gone = left(those)
        assert gone[: SETS_MAX - 1] == backwards[: SETS_MAX - 1]
        assert gone[SETS_MAX - 1 :] == sorted(backwards[SETS_MAX - 1 :])
        play.effects.clear()
