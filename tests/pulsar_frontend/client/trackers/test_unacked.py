"""The tracker of unacknowledged messages against the wheel as it is told of: slots in a row."""

from collections import deque
from math import ceil

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff
from arneb_pulsar.client.trackers.unacked import UnackedMessageTracker

ENTRIES = st.tuples(st.integers(1, 2), st.integers(0, 6))


class UnackedMachine(RuleBasedStateMachine):
    """Time passes in quarters of a tick; the wheel of the model turns with whole ones."""

    @initialize(ack_timeout_s=st.sampled_from((1.0, 2.5, 10.0)), tick_s=st.sampled_from((0.5, 1.0)))
    def begin(self, ack_timeout_s: float, tick_s: float) -> None:
        self.tracker = UnackedMessageTracker(ack_timeout_s=ack_timeout_s, tick_s=tick_s)
        self.tick_s = tick_s
        slots = ceil(ack_timeout_s / tick_s) + 1
        self.wheel: deque[set[EntryId]] = deque(set() for _ in range(slots))
        self.quarters = 4_001

    @property
    def now(self) -> float:
        return self.quarters * self.tick_s / 4

    @rule(entry=ENTRIES)
    def receive(self, entry: EntryId) -> None:
        self.tracker.add(entry, self.now)
        self.forget(entry)
        # On a tick itself what is new has not missed it.
        self.wheel[-1 if self.quarters % 4 else -2].add(entry)

    @rule(entry=ENTRIES)
    def acknowledge(self, entry: EntryId) -> None:
        self.tracker.remove(entry)
        self.forget(entry)

    @rule(entry=ENTRIES)
    def acknowledge_cumulatively(self, entry: EntryId) -> None:
        gone = {each for slot in self.wheel for each in slot if each <= entry}
        assert self.tracker.remove_up_to(entry) == len(gone)
        for slot in self.wheel:
            slot -= gone

    @rule(quarters=st.integers(1, 9))
    def pass_time(self, quarters: int) -> None:
        for _ in range(quarters):
            self.quarters += 1
            head: set[EntryId] = set()
            if self.quarters % 4 == 0:
                head = self.wheel.popleft()
                self.wheel.append(set())
            assert self.tracker.expire(self.now) == sorted(head)

    @rule()
    def redeliver_all(self) -> None:
        self.tracker.clear()
        for slot in self.wheel:
            slot.clear()

    @invariant()
    def nothing_else_is_known(self) -> None:
        if hasattr(self, "tracker"):
            assert len(self.tracker) == sum(map(len, self.wheel))
            assert (self.tracker.due() is None) == (not any(self.wheel))

    def forget(self, entry: EntryId) -> None:
        for slot in self.wheel:
            slot.discard(entry)


TestUnackedMachine = UnackedMachine.TestCase


def test_a_message_expires_between_its_timeout_and_a_tick_later() -> None:
    tracker = UnackedMessageTracker(ack_timeout_s=10.0, tick_s=1.0)
    tracker.add((1, 1), now=100.5)
    assert tracker.due() == 111.0
    assert tracker.expire(110.9) == []
    assert tracker.expire(111.0) == [(1, 1)]
    assert tracker.due() is None


def test_the_tick_is_never_longer_than_the_timeout() -> None:
    tracker = UnackedMessageTracker(ack_timeout_s=1.0, tick_s=60.0)
    tracker.add((1, 1), now=100.5)
    assert tracker.due() == 102.0


def test_a_batch_that_is_worked_through_slowly_does_not_expire() -> None:
    tracker = UnackedMessageTracker(ack_timeout_s=2.0)
    for second in range(10):
        tracker.add((1, 1), now=100.0 + second)
        assert tracker.expire(100.9 + second) == []
    assert tracker.expire(111.0) == [(1, 1)]


def test_with_a_backoff_what_comes_again_may_be_kept_longer() -> None:
    backoff = RedeliveryBackoff(1.0, 60.0, 4.0)
    tracker = UnackedMessageTracker(ack_timeout_s=5.0, backoff=backoff)
    waits = []
    for count in range(5):
        tracker.add((1, 1), 0.0, redelivery_count=count)
        waits.append(tracker.due())
    assert waits == [5.0, 5.0, 16.0, 60.0, 60.0]


def test_no_timer_runs_when_nothing_is_tracked() -> None:
    tracker = UnackedMessageTracker(ack_timeout_s=5.0)
    assert tracker.due() is None
    tracker.add((1, 1), 0.0)
    tracker.remove((1, 1))
    assert tracker.due() is None


@pytest.mark.parametrize(("timeout_s", "tick_s"), [(0.9, 0.5), (0.0, 1.0), (5.0, 0.0)])
def test_times_that_mean_nothing_are_refused(timeout_s: float, tick_s: float) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        UnackedMessageTracker(ack_timeout_s=timeout_s, tick_s=tick_s)
