"""The timer wheel against a dict of times."""

from math import ceil

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.timer_wheel import TimerWheel

ENTRIES = st.tuples(st.integers(1, 2), st.integers(0, 6))
SECONDS = st.floats(0, 20)


class WheelMachine(RuleBasedStateMachine):
    @initialize(tick_s=st.sampled_from((0.001, 0.256, 1.0, 7.0)))
    def begin(self, tick_s: float) -> None:
        self.tick_s = tick_s
        self.wheel = TimerWheel(tick_s)
        self.due: dict[EntryId, float] = {}
        self.now = 1_000.0

    @rule(entry=ENTRIES, delay_s=SECONDS)
    def put(self, entry: EntryId, delay_s: float) -> None:
        self.wheel.put(entry, self.now + delay_s)
        self.due[entry] = ceil((self.now + delay_s) / self.tick_s) * self.tick_s

    @rule(entry=ENTRIES)
    def discard(self, entry: EntryId) -> None:
        self.wheel.discard(entry)
        self.due.pop(entry, None)

    @rule(entry=ENTRIES)
    def discard_up_to(self, entry: EntryId) -> None:
        gone = [each for each in self.due if each <= entry]
        assert self.wheel.discard_up_to(entry) == len(gone)
        for each in gone:
            del self.due[each]

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = sorted(each for each, at in self.due.items() if at <= self.now)
        assert self.wheel.take(self.now) == due
        for each in due:
            del self.due[each]

    @rule()
    def clear(self) -> None:
        self.wheel.clear()
        self.due.clear()

    @invariant()
    def it_knows_when_it_is_needed(self) -> None:
        if hasattr(self, "wheel"):
            assert len(self.wheel) == len(self.due)
            assert self.wheel.due() == min(self.due.values(), default=None)


TestWheelMachine = WheelMachine.TestCase


def test_what_is_in_order_is_not_searched_for_what_is_covered() -> None:
    wheel = TimerWheel(1.0)
    looked_at: list[EntryId] = []

    class Counted(tuple[int, int]):
        __slots__ = ()

        def __le__(self, other: tuple[int, ...]) -> bool:
            looked_at.append((self[0], self[1]))
            return super().__le__(other)

    for number in range(1_000):
        wheel.put(Counted((1, number)), 5.0)
    assert wheel.discard_up_to((1, 9)) == 10
    assert len(looked_at) == 11
