"""Keys in memory against a sorted list of all of them."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arneb_core.api.due_key import DueKey, due_key, end_of
from arneb_core.api.position import Position
from arneb_core.delayed.unsealed import UnsealedKeys

TIMES = st.integers(0, 12)
PLACES = st.integers(0, 40).map(Position)


class Unsealed(RuleBasedStateMachine):
    """``model`` is what was added and not dropped, by place."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[Position, DueKey] = {}
        self.keys = UnsealedKeys()

    @rule(more=st.dictionaries(PLACES, TIMES, min_size=1, max_size=6))
    def add(self, more: dict[Position, int]) -> None:
        fresh = {
            place: due_key(at_ms, place) for place, at_ms in more.items() if place not in self.model
        }
        if fresh:
            self.keys.add(list(fresh.values()), min(fresh.values()))
            self.model |= fresh

    @rule(at_ms=TIMES, place=PLACES, until_ms=TIMES, limit=st.integers(1, 9))
    def between(self, at_ms: int, place: Position, until_ms: int, limit: int) -> None:
        behind, end = due_key(at_ms, place), end_of(until_ms)
        mine = [key for key in sorted(self.model.values()) if key > behind]
        expected = [key for key in mine if key < end][:limit]
        found, following = self.keys.between(behind, end, limit)
        assert found == expected
        rest = mine[len(expected) :]
        if following == -1:
            assert not rest
        else:
            # What is not asked for yet is not sorted: it may be a key that lies before ``behind``.
            assert following in self.model.values()
            assert following <= min(rest, default=following)
        assert self.keys.count(behind, end) == len([key for key in mine if key < end])

    @rule(at_ms=TIMES, place=PLACES, after=PLACES)
    def drop(self, at_ms: int, place: Position, after: Position) -> None:
        upto = due_key(at_ms, place)
        gone = {p for p, key in self.model.items() if key <= upto and p <= after}
        assert set(self.keys.drop(upto, after)) == gone
        for each in gone:
            del self.model[each]

    @rule(floor=PLACES)
    def drop_through(self, floor: Position) -> None:
        self.keys.drop_through(floor)
        self.model = {p: key for p, key in self.model.items() if p > floor}

    @invariant()
    def has_all(self) -> None:
        assert len(self.keys) == len(self.model)

    def teardown(self) -> None:
        assert self.keys.keys() == sorted(self.model.values())


TestUnsealed: Any = Unsealed.TestCase
