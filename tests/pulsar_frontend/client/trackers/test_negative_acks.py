"""The tracker of negative acknowledgements: merged, in time, bounded."""

import logging
from math import ceil

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.negative_acks import (
    DELAY_S,
    ENTRIES_MAX,
    PRECISION_BITS,
    NegativeAcksTracker,
)
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff

ENTRIES = st.tuples(st.integers(1, 2), st.integers(0, 5))
TICK_S = 0.256


class NegativeAcksMachine(RuleBasedStateMachine):
    @initialize(
        delay_s=st.sampled_from((0.0, 0.1, 1.0, 60.0)),
        backoff=st.none() | st.just(RedeliveryBackoff(1.0, 10.0, 3.0)),
        entries_max=st.integers(1, 12),
    )
    def begin(self, delay_s: float, backoff: RedeliveryBackoff | None, entries_max: int) -> None:
        self.tracker = NegativeAcksTracker(
            delay_s=delay_s, backoff=backoff, entries_max=entries_max
        )
        self.delay_s = max(delay_s, 0.1)
        self.backoff = backoff
        self.entries_max = entries_max
        self.asked: dict[EntryId, float] = {}
        self.now = 500.0

    @rule(entry=ENTRIES, count=st.integers(0, 4))
    def add(self, entry: EntryId, count: int) -> None:
        is_full = len(self.asked) >= self.entries_max
        delay_s = 0.0 if is_full else self.delay_s
        if self.backoff is not None and not is_full:
            delay_s = min(1.0 * 3.0**count, 10.0)
        assert self.tracker.add(entry, self.now, count) is not is_full
        self.asked[entry] = self.now + delay_s

    @rule(entry=ENTRIES)
    def acknowledge_after_all(self, entry: EntryId) -> None:
        self.tracker.remove(entry)
        self.asked.pop(entry, None)

    @rule(seconds=st.floats(0, 30))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        taken = self.tracker.expire(self.now)
        assert taken == sorted(taken)
        for entry in taken:
            assert self.asked.pop(entry) <= self.now, "an entry was requested too early"
        for entry, at in self.asked.items():
            assert self.now < at + TICK_S, f"{entry} is late by more than a tick"

    @invariant()
    def one_request_serves_a_whole_tick(self) -> None:
        if hasattr(self, "tracker"):
            due = self.tracker.due()
            assert (due is None) == (not self.asked)
            if due is not None:
                assert due == ceil(min(self.asked.values()) / TICK_S) * TICK_S


TestNegativeAcksMachine = NegativeAcksMachine.TestCase


def test_the_defaults_are_those_of_the_official_clients() -> None:
    assert (DELAY_S, PRECISION_BITS, ENTRIES_MAX) == (60.0, 8, 100_000)
    tracker = NegativeAcksTracker()
    tracker.add((1, 1), now=0.0)
    due = tracker.due()
    assert due is not None
    assert 60.0 <= due < 60.256


def test_what_comes_within_a_tick_is_one_request() -> None:
    tracker = NegativeAcksTracker(delay_s=1.0)
    for number in range(100):
        tracker.add((1, 99 - number), now=10.0 + number / 1_000)
    requests = []
    while (due := tracker.due()) is not None:
        requests.append(tracker.expire(due))
    # Due from 11.0 to 11.099 s; a tick ends at 11.008.
    assert requests == [[(1, number) for number in range(91, 100)], [(1, n) for n in range(91)]]


def test_a_message_that_is_given_back_again_waits_longer() -> None:
    tracker = NegativeAcksTracker(backoff=RedeliveryBackoff(1.0, 8.0, 2.0), precision_bits=0)
    waits = []
    for count in range(5):
        tracker.add((1, 1), now=0.0, redelivery_count=count)
        waits.append(tracker.due())
        tracker.clear()
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_beyond_the_bound_nothing_waits_and_one_warning_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tracker = NegativeAcksTracker(entries_max=2)
    with caplog.at_level(logging.WARNING):
        assert tracker.add((1, 1), now=0.0)
        assert tracker.add((1, 2), now=0.0)
        assert not tracker.add((1, 3), now=0.0)
        assert not tracker.add((1, 4), now=0.1)
    assert tracker.expire(0.3) == [(1, 3), (1, 4)]
    assert [each.getMessage()[:42] for each in caplog.records] == [
        "2 negative acknowledgements are waiting, w"
    ]
    assert "reconsume_later" in caplog.text


def test_the_warning_comes_again_after_it_was_empty(caplog: pytest.LogCaptureFixture) -> None:
    tracker = NegativeAcksTracker(entries_max=2)
    for _ in range(2):
        for number in range(4):
            tracker.add((1, number), now=0.0)
        assert len(tracker.expire(100.0)) == 4
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "arguments",
    [{"delay_s": -1.0}, {"precision_bits": 21}, {"precision_bits": -1}, {"entries_max": 0}],
)
def test_arguments_that_mean_nothing_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        NegativeAcksTracker(**arguments)
