"""Keys in memory against a sorted list of all of them."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_core.api.entries.due_key import DueKey, due_key, end_of, position_of, time_of, timed_run
from arneb_core.api.entries.position import Position
from arneb_core.delayed import unsealed
from arneb_core.delayed.unsealed import UnsealedKeys
from arneb_core.store.format.delayed_rows import keys_of

TIMES = st.integers(0, 12)
PLACES = st.integers(0, 40).map(Position)
FAR_MS = 1 << 47
ERAS = st.sampled_from(
    [1, 1 << 40, (0x7F << 40) - 6, (0x7FF << 36) - 6, (0x80 << 40) - 6, 1 << 48 | 1 << 40]
)
"""In our days, and where times, taken for doubles, are no numbers, or negative, or too long."""
SIZES = st.integers(1, 30)


class Unsealed(RuleBasedStateMachine):
    """``model`` is what was added and not dropped, by place."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[Position, DueKey] = {}
        self.keys = UnsealedKeys()
        self.era = 0

    @initialize(era=ERAS, size=SIZES)
    def begin(self, era: int, size: int) -> None:
        self.era = era
        unsealed.SORTED_AT_ONCE = size  # type: ignore[misc]

    @rule(more=st.dictionaries(PLACES, TIMES, min_size=1, max_size=6))
    def add(self, more: dict[Position, int]) -> None:
        fresh = {
            reached: due_key(self.era + at_ms, reached)
            for reached, at_ms in more.items()
            if reached not in self.model
        }
        if fresh:
            self.keys.add(list(fresh.values()), min(fresh.values()))
            self.model |= fresh

    @rule(
        first=PLACES,
        times=st.lists(TIMES | st.just(FAR_MS), min_size=1, max_size=9),
        high=st.sampled_from([0, 1, 2]),
    )
    def add_run(self, first: Position, times: list[int], high: int) -> None:
        first = Position(high << 16 | first)
        count = next((n for n in range(len(times)) if first + n in self.model), len(times))
        stamps = b"".join((self.era + each).to_bytes(8, "big") for each in times[:count])
        if count and (run := timed_run(first, stamps, 0)) is not None:
            self.keys.add_run(run)
            self.model |= {position_of(key): key for key in run.all_keys()}

    @rule()
    def seal(self) -> None:
        if self.model:
            parts, records, members = self.keys.sorted_runs()
            assert all(parts) and all(list(part) == sorted(part) for part in parts)
            packed = records(sorted(key for part in parts for key in part))
            assert keys_of(packed) == sorted(self.model.values())
            assert members is None or set(members) == set(self.model)

    @rule(at_ms=TIMES, reached=PLACES, until_ms=TIMES, limit=st.integers(1, 9))
    def between(self, at_ms: int, reached: Position, until_ms: int, limit: int) -> None:
        behind, end = due_key(self.era + at_ms, reached), end_of(self.era + until_ms)
        mine = [key for key in sorted(self.model.values()) if key > behind]
        expected = [key for key in mine if key < end][:limit]
        found, following = self.keys.between(behind, end, limit)
        assert found == expected
        rest = mine[len(expected) :]
        if following == -1:
            assert not rest
        else:
            # What is not asked for yet is not sorted: it may be a key that lies before ``behind``,
            # of which nothing but the time is known.
            assert time_of(following) in map(time_of, self.model.values())
            assert following <= min(rest, default=following)
        assert self.keys.count(behind, end) == len([key for key in mine if key < end])

    @rule(at_ms=TIMES, reached=PLACES, after=PLACES)
    def drop(self, at_ms: int, reached: Position, after: Position) -> None:
        upto = due_key(self.era + at_ms, reached)
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
        unsealed.SORTED_AT_ONCE = 8_192  # type: ignore[misc]
        assert self.keys.keys() == sorted(self.model.values())


TestUnsealed: Any = Unsealed.TestCase
