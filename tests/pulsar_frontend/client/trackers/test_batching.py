"""Batch containers against a list of what was given."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.trackers.batching import (
    BYTES_MAX,
    DELAY_S,
    MESSAGES_MAX,
    BatchContainer,
    DefaultBatches,
    KeyBatches,
)


def message(number: int, size: int = 10, key: str | None = None) -> OutgoingMessage:
    return OutgoingMessage(bytes(size), number, key=key)


class BatchingMachine(RuleBasedStateMachine):
    @initialize(by_key=st.booleans(), messages_max=st.integers(1, 6), bytes_max=st.integers(1, 60))
    def begin(self, by_key: bool, messages_max: int, bytes_max: int) -> None:
        kind = KeyBatches if by_key else DefaultBatches
        self.container: BatchContainer = kind(
            messages_max=messages_max, bytes_max=bytes_max, delay_s=0.01
        )
        self.by_key = by_key
        self.messages_max, self.bytes_max = messages_max, bytes_max
        self.waiting: list[OutgoingMessage] = []
        self.since: float | None = None
        self.now = 5.0
        self.number = 0

    @rule(size=st.integers(0, 70), key=st.sampled_from((None, "a", "b")))
    def send(self, size: int, key: str | None) -> None:
        self.number += 1
        new = message(self.number, size, key)
        total = sum(each.size_bytes for each in self.waiting) + new.size_bytes
        assert self.container.fits(new) == (not self.waiting or total <= self.bytes_max)
        if not self.container.fits(new):
            self.take()
        is_full = self.container.add(new, self.now)
        self.waiting.append(new)
        if self.since is None:
            self.since = self.now
        total = sum(each.size_bytes for each in self.waiting)
        assert is_full == (len(self.waiting) >= self.messages_max or total >= self.bytes_max)
        if is_full:
            self.take()

    @rule()
    def take(self) -> None:
        groups: dict[str | None, list[OutgoingMessage]] = {}
        for each in self.waiting:
            groups.setdefault(each.key if self.by_key else None, []).append(each)
        taken = self.container.take()
        assert taken == list(groups.values())
        firsts = [batch[0].sequence_id for batch in taken]
        assert firsts == sorted(firsts)
        self.waiting.clear()
        self.since = None

    @rule(seconds=st.floats(0, 0.02))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def it_says_when_and_how_much(self) -> None:
        if hasattr(self, "container"):
            assert len(self.container) == len(self.waiting)
            due = None if self.since is None else self.since + 0.01
            assert self.container.due() == due


TestBatchingMachine = BatchingMachine.TestCase


@pytest.mark.parametrize("kind", [DefaultBatches, KeyBatches])
def test_the_default_bounds_are_those_of_the_official_clients(
    kind: type[DefaultBatches | KeyBatches],
) -> None:
    assert (MESSAGES_MAX, BYTES_MAX, DELAY_S) == (1_000, 131_072, 0.01)
    container = kind()
    assert [container.add(message(number), 0.0) for number in range(1_000)] == [False] * 999 + [
        True
    ]
    container.take()
    assert not container.add(message(1, size=BYTES_MAX - 1), now=3.0)
    assert container.due() == 3.01
    assert not container.fits(message(2, size=2))
    assert container.fits(message(2, size=1))
    assert container.add(message(2, size=1), now=3.0)


def test_each_key_has_a_batch_and_so_has_what_has_none() -> None:
    container = KeyBatches()
    for number, key in enumerate(["a", None, "b", "a", None]):
        container.add(message(number, key=key), 0.0)
    taken = [[each.sequence_id for each in batch] for batch in container.take()]
    assert taken == [[0, 3], [1, 4], [2]]


def test_the_ordering_key_goes_before_the_partition_key() -> None:
    container = KeyBatches()
    container.add(OutgoingMessage(b"", 1, key="a", ordering_key=b"x"), 0.0)
    container.add(OutgoingMessage(b"", 2, key="b", ordering_key=b"x"), 0.0)
    container.add(OutgoingMessage(b"", 3, key="x"), 0.0)
    assert [len(batch) for batch in container.take()] == [3]


@pytest.mark.parametrize("arguments", [{"messages_max": 0}, {"bytes_max": 0}, {"delay_s": -1}])
def test_bounds_that_mean_nothing_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        DefaultBatches(**arguments)
