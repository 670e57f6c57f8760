"""Acknowledgements of what others hold, beside a crowd: whom they reach, and what they cost."""

from tests.counting import calls_of

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.dispatch import Receiver
from arneb_core.subscription.inputs import Turn
from arneb_core.subscription.state.effects import HasWork, WriteCursor
from arneb_core.subscription.state.holders import FEW, STALE_MAX, Holders
from arneb_core.subscription.state.in_flight import InFlight
from arneb_core.testing.playbook import Delivered, Playbook, position, positions

CROWD = 400


def crowd(play: Playbook) -> None:
    """Attach many consumers and give one entry to each."""
    for number in range(CROWD):
        play.attach(f"c{number}", 1)
    play >> play.append(*[b"x"] * CROWD)
    while sum(each.entries_in_flight for each in play.state.consumers.values()) < CROWD:
        play >> Turn()
    play.effects.clear()


def consumers(count: int) -> tuple[dict[Receiver, InFlight], list[InFlight]]:
    made = [InFlight(ConsumerSpec(f"c{number}")) for number in range(count)]
    return {each.receiver: each for each in made}, made


def test_acknowledging_what_others_hold_asks_only_them() -> None:
    with Playbook() as play:
        crowd(play)
        one = play.inputs.consumers["c0"]
        others = [each for each in positions(*range(CROWD)) if each not in one.whole]
        one.acknowledge(others[:1])  # finds out who has what
        assert calls_of(lambda: [one.acknowledge([each]) for each in others[1:101]]) < 100 * CROWD
        assert calls_of(lambda: [one.acknowledge([each]) for each in others[1:101]]) < 100 * CROWD
        at_once = calls_of(lambda: one.acknowledge(others[101:]))
        assert at_once < 100 * CROWD
        held = [*map(bool, (each.whole for each in play.inputs.consumers.values()))]
        assert held.count(True) == 1 and one.whole
        play.effects.clear()


def test_what_is_delivered_later_is_taken_away_too() -> None:
    with Playbook() as play:
        crowd(play)
        one, two = play.inputs.consumers["c0"], play.inputs.consumers["c1"]
        one.acknowledge([*two.whole])
        two.flow(1)
        play >> play.append(b"later") >> Turn()
        play.skip(HasWork, WriteCursor, Delivered)
        play.effects.clear()
        assert two.whole == {position(CROWD)}
        one.acknowledge([position(CROWD)])
        assert two.in_flight == 0
        play.effects.clear()


def test_everybody_is_asked_about_a_divided_batch() -> None:
    present, made = consumers(FEW + 1)
    at, other = Position(7), Position(8)
    made[2].masks[at] = 1
    made[3].masks[at] = 2
    made[4].whole.add(other)
    holders = Holders(present)
    assert holders.of([other]) == [(made[4], [other])]
    assert holders.of([at, other]) == [(made[4], [other]), *((each, [at]) for each in made)]
    holders.took(made[1], [at])
    assert holders.of([at]) == [(made[1], [at])]
    holders.divided([at])
    assert holders.of([at]) == [(each, [at]) for each in made]


def test_few_are_asked_one_by_one_and_nothing_is_noted() -> None:
    present, made = consumers(FEW)
    holders = Holders(present)
    assert holders.of([Position(1)]) == [(each, [Position(1)]) for each in made]
    assert not holders.is_kept


def test_notes_of_what_has_left_are_bounded() -> None:
    present, made = consumers(FEW + 1)
    made[0].whole.add(Position(1))
    holders = Holders(present)
    holders.of([Position(1)])
    for number in range(3 * STALE_MAX):
        if not holders.is_kept:
            break
        holders.took(made[1], [Position(number)])
        assert len(holders._last) <= STALE_MAX + 2
    assert not holders.is_kept and not holders._last
    assert holders.of([Position(1)]) == [(made[0], [Position(1)])]
    for each in made[1:]:
        del present[each.receiver]
    holders.took(made[0], [Position(2)])
    assert not holders.is_kept
