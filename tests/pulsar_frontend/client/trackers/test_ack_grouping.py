"""The acknowledgement tracker against a broker of ten lines, and each of its rules by itself."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.ack_grouping import (
    GROUP_MAX,
    GROUP_S,
    OPEN_BATCHES_MAX,
    AckGroupingTracker,
    Acks,
    NonPersistentAcks,
)

SIZES = (0, 3, 1, 0, 2, 4, 0, 3)
"""Messages in the batch of each entry of the log; 0 = no batch."""

LOG: tuple[EntryId, ...] = tuple((7, number) for number in range(len(SIZES)))
MESSAGES = tuple(
    (entry, index)
    for entry, size in zip(LOG, SIZES, strict=True)
    for index in (range(size) if size else (-1,))
)
Message = tuple[EntryId, int]


def size_of(entry: EntryId) -> int:
    return SIZES[entry[1]]


def of_entry(entry: EntryId) -> set[Message]:
    return {each for each in MESSAGES if each[0] == entry}


class Broker:
    """What a cursor makes of ACK commands."""

    def __init__(self) -> None:
        self.acknowledged: set[Message] = set()

    def receive(self, acks: Acks) -> None:
        if acks.cumulative is not None:
            last = acks.cumulative
            self.acknowledged |= {each for each in MESSAGES if each[0] < last}
            if last in LOG:
                self._leave(last, acks.cumulative_left)
        for entry in acks.individual:
            self._leave(entry, 0)
        for entry, left in acks.partial:
            self._leave(entry, left)

    def _leave(self, entry: EntryId, left: int) -> None:
        done = {each for each in of_entry(entry) if not (each[1] >= 0 and left >> each[1] & 1)}
        self.acknowledged |= done

    def left(self, entry: EntryId) -> int:
        return sum(1 << each[1] for each in of_entry(entry) - self.acknowledged if each[1] >= 0)


class AckMachine(RuleBasedStateMachine):
    """An application acknowledges, time passes, the connection is cut.

    Until the first cut the broker knows exactly what it should; after it never more than what the
    application has acknowledged, and all of it once the application has seen everything through.
    """

    @initialize(
        batch_index_acks=st.booleans(),
        group_max=st.integers(1, 4),
        group_s=st.sampled_from((0.0, 0.1)),
    )
    def begin(self, batch_index_acks: bool, group_max: int, group_s: float) -> None:
        self.with_indexes = batch_index_acks
        self.group_max = group_max
        self.tracker = AckGroupingTracker(
            group_s=group_s, group_max=group_max, batch_index_acks=batch_index_acks
        )
        self.group_s = group_s
        self.broker = Broker()
        self.now = 100.0
        self.acknowledged: set[Message] = set()
        self.waits_since: float | None = None
        self.is_strict = True
        self.given: list[BaseException | None] = []
        self.asked = 0

    def receipt(self) -> Callable[[BaseException | None], None]:
        self.asked += 1
        return self.given.append

    @rule(message=st.sampled_from(MESSAGES), with_receipt=st.booleans())
    def acknowledge(self, message: Message, with_receipt: bool) -> None:
        entry, index = message
        self.acknowledged.add(message)
        receipt = self.receipt() if with_receipt else None
        if self.tracker.acknowledge(entry, self.now, index, size_of(entry), receipt):
            self.flush()

    @rule(message=st.sampled_from(MESSAGES), with_receipt=st.booleans())
    def acknowledge_cumulative(self, message: Message, with_receipt: bool) -> None:
        entry, index = message
        self.acknowledged |= {each for each in MESSAGES if each <= message}
        receipt = self.receipt() if with_receipt else None
        if self.tracker.acknowledge_cumulative(entry, self.now, index, size_of(entry), receipt):
            self.flush()

    @rule(seconds=st.sampled_from((0.01, 0.05, 0.1)))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = self.tracker.due()
        if due is not None and due <= self.now:
            self.flush()

    @rule()
    def flush(self) -> None:
        while acks := self.take():
            self.broker.receive(acks)
            for receipt in acks.receipts:
                receipt(None)
        assert self.tracker.due() is None
        assert len(self.given) == self.asked
        if self.is_strict:
            assert self.broker.acknowledged == self.expected()

    @rule()
    def cut(self) -> None:
        """The connection ends, and what was flushed last may be lost; then everything that the
        broker does not know is delivered again."""
        if (lost := self.take()) is not None:
            for receipt in lost.receipts:
                receipt(ConnectionError())
        self.is_strict = False
        self.tracker.disconnected()
        for entry, size in zip(LOG, SIZES, strict=True):
            if not of_entry(entry) <= self.broker.acknowledged:
                if self.tracker.is_duplicate(entry):
                    assert of_entry(entry) <= self.acknowledged
                elif size:
                    self.tracker.delivered(entry, self.broker.left(entry), size)

    @rule()
    def seek(self) -> None:
        for receipt in self.tracker.clear():
            receipt(ConnectionError())
        assert len(self.given) == self.asked
        self.broker.acknowledged.clear()
        self.acknowledged.clear()
        for entry, size in zip(LOG, SIZES, strict=True):
            assert not self.tracker.is_duplicate(entry)
            if size:
                self.tracker.delivered(entry, (1 << size) - 1, size)
        self.is_strict = True

    @invariant()
    def nothing_is_acknowledged_that_the_application_has_not(self) -> None:
        if hasattr(self, "broker"):
            assert self.broker.acknowledged <= self.acknowledged
            for message in MESSAGES:
                if self.tracker.is_duplicate(*message):
                    assert message in self.acknowledged

    @invariant()
    def what_waits_is_due_in_time(self) -> None:
        if hasattr(self, "tracker") and (due := self.tracker.due()) is not None:
            assert self.now - self.group_s <= due <= self.now + self.group_s

    def teardown(self) -> None:
        if not hasattr(self, "tracker"):
            return
        self.cut()
        for entry, index in MESSAGES:
            if not self.tracker.is_duplicate(entry, index):
                self.acknowledge((entry, index), with_receipt=True)
        self.flush()
        assert self.broker.acknowledged == set(MESSAGES)

    def take(self) -> Acks | None:
        acks = self.tracker.flush(self.now)
        if acks is not None:
            assert len(acks.individual) + len(acks.partial) <= self.group_max
            assert list(acks.individual) == sorted(set(acks.individual))
            assert self.with_indexes or not (acks.partial or acks.cumulative_left)
        return acks

    def expected(self) -> set[Message]:
        """What a broker should know of what the application has acknowledged."""
        if self.with_indexes:
            return self.acknowledged
        whole = {entry for entry in LOG if of_entry(entry) <= self.acknowledged}
        return {each for each in MESSAGES if each[0] in whole}


TestAckMachine = AckMachine.TestCase


def test_acknowledgements_wait_for_a_tenth_of_a_second_or_a_thousand_others() -> None:
    tracker = AckGroupingTracker()
    assert (GROUP_S, GROUP_MAX) == (0.1, 1_000)
    for number in range(999):
        assert not tracker.acknowledge((1, number), now=5.0 + number / 1e6)
    assert tracker.due() == 5.1
    assert tracker.acknowledge((1, 999), now=5.01)
    acks = tracker.flush(5.01)
    assert acks is not None
    assert acks.individual == tuple((1, number) for number in range(1_000))
    assert tracker.flush(5.01) is None


def test_with_no_time_each_acknowledgement_leaves_at_once() -> None:
    tracker = AckGroupingTracker(group_s=0)
    assert tracker.acknowledge((1, 1), now=5.0)
    assert tracker.flush(5.0) == Acks(individual=((1, 1),))
    assert tracker.acknowledge_cumulative((1, 2), now=5.0)
    assert tracker.flush(5.0) == Acks(cumulative=(1, 2))


def test_a_later_cumulative_acknowledgement_takes_the_place_of_an_earlier_one() -> None:
    tracker = AckGroupingTracker()
    tracker.acknowledge_cumulative((5, 10), now=0.0)
    tracker.acknowledge_cumulative((5, 20), now=0.0)
    tracker.acknowledge_cumulative((5, 15), now=0.0)
    assert tracker.flush(0.1) == Acks(cumulative=(5, 20))
    assert tracker.flush(0.1) is None


def test_a_batch_is_acknowledged_with_its_last_message() -> None:
    tracker = AckGroupingTracker()
    tracker.acknowledge((1, 1), 0.0, index=2, size=3)
    tracker.acknowledge((1, 1), 0.0, index=0, size=3)
    assert tracker.flush(1.0) is None
    assert not tracker.is_duplicate((1, 1), 2)
    tracker.acknowledge((1, 1), 1.0, index=1, size=3)
    assert tracker.flush(1.0) == Acks(individual=((1, 1),))


def test_a_cumulative_acknowledgement_inside_a_batch_means_the_entry_before() -> None:
    tracker = AckGroupingTracker()
    tracker.acknowledge_cumulative((1, 4), 0.0, index=1, size=3)
    assert tracker.flush(1.0) == Acks(cumulative=(1, 3))
    tracker.acknowledge_cumulative((2, 0), 0.0, index=1, size=3)
    assert tracker.flush(1.0) == Acks(cumulative=(2, -1))
    tracker.acknowledge_cumulative((2, 0), 0.0, index=2, size=3)
    assert tracker.flush(1.0) == Acks(cumulative=(2, 0))


def test_with_batch_indexes_the_broker_learns_which_messages_are_left() -> None:
    tracker = AckGroupingTracker(batch_index_acks=True)
    tracker.acknowledge((1, 1), 0.0, index=0, size=3)
    tracker.acknowledge((1, 1), 0.0, index=2, size=3)
    assert tracker.is_duplicate((1, 1), 0)
    assert not tracker.is_duplicate((1, 1), 1)
    assert tracker.flush(0.1) == Acks(partial=(((1, 1), 0b010),))
    tracker.acknowledge_cumulative((1, 2), 0.2, index=0, size=3)
    assert tracker.flush(0.3) == Acks(cumulative=(1, 2), cumulative_left=0b110)


def test_what_the_broker_calls_acknowledged_need_not_be_acknowledged_again() -> None:
    tracker = AckGroupingTracker()
    tracker.delivered((1, 1), left=0b0110, size=4)
    tracker.acknowledge((1, 1), 0.0, index=1, size=4)
    assert tracker.flush(0.1) is None
    tracker.acknowledge((1, 1), 0.1, index=2, size=4)
    assert tracker.flush(0.2) == Acks(individual=((1, 1),))


def test_a_batch_that_comes_again_is_acknowledged_from_the_beginning() -> None:
    tracker = AckGroupingTracker()
    tracker.acknowledge((1, 1), 0.0, index=0, size=2)
    tracker.delivered((1, 1), left=0b11, size=2)
    tracker.acknowledge((1, 1), 0.0, index=1, size=2)
    assert tracker.flush(0.1) is None


def test_a_reader_set_back_gets_again_what_it_had_acknowledged_cumulatively() -> None:
    tracker = AckGroupingTracker()
    tracker.acknowledge_cumulative((1, 9), 0.0)
    assert tracker.is_duplicate((1, 9))
    tracker.disconnected()
    assert tracker.is_duplicate((1, 9))
    tracker.flush(0.1)
    assert tracker.is_duplicate((1, 9))
    tracker.disconnected()
    assert not tracker.is_duplicate((1, 9))


def test_receipts_come_with_the_group_that_has_their_entry() -> None:
    tracker = AckGroupingTracker(group_max=2)
    given: list[str] = []
    for number, name in enumerate("abc"):
        tracker.acknowledge((1, number), 0.0, receipt=lambda _, name=name: given.append(name))
    first = tracker.flush(0.0)
    assert first is not None
    for receipt in first.receipts:
        receipt(None)
    assert given == ["a", "b"]
    second = tracker.flush(0.0)
    assert second is not None
    assert second.individual == ((1, 2),)
    for receipt in second.receipts:
        receipt(ConnectionError())
    assert given == ["a", "b", "c"]


def test_unfinished_batches_are_forgotten_beyond_a_bound() -> None:
    tracker = AckGroupingTracker()
    for number in range(OPEN_BATCHES_MAX + 1):
        tracker.acknowledge((1, number), 0.0, index=0, size=2)
    tracker.acknowledge((1, 0), 0.0, index=1, size=2)
    tracker.acknowledge((1, OPEN_BATCHES_MAX), 0.0, index=1, size=2)
    assert tracker.flush(0.1) == Acks(individual=((1, OPEN_BATCHES_MAX),))


@pytest.mark.parametrize("method", ["acknowledge", "acknowledge_cumulative"])
def test_a_non_persistent_topic_wants_no_acknowledgements(method: str) -> None:
    tracker = NonPersistentAcks()
    given: list[BaseException | None] = []
    assert not getattr(tracker, method)((1, 1), 0.0, receipt=given.append)
    assert given == [None]
    assert (tracker.flush(1.0), tracker.due(), tracker.clear()) == (None, None, [])
    assert not tracker.is_duplicate((1, 1))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    acks=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=20),
    flushed_after=st.integers(0, 20),
    by_index=st.booleans(),
)
def test_the_short_way_of_parts_of_batches_comes_to_the_same(
    sizes: list[int], acks: list[tuple[int, int]], flushed_after: int, by_index: bool
) -> None:
    """``acknowledge_part``, and the long way where it does nothing, against the long way alone."""
    short, long = (AckGroupingTracker(batch_index_acks=by_index) for _ in range(2))
    for tracker in (short, long):
        for entry, size in enumerate(sizes):
            tracker.delivered((1, entry), (1 << size) - 1, size)
    for number, (which, drawn) in enumerate(acks):
        entry = which % len(sizes)
        place, size = (1, entry), sizes[entry]
        index = drawn % size
        full = long.acknowledge(place, 0.0, index, size)
        if short.acknowledge_part(place, index):
            assert not full
        else:
            assert short.acknowledge(place, 0.0, index, size) == full
        assert short.due() == long.due()
        if number == flushed_after:
            assert short.flush(1.0) == long.flush(1.0)
        for each in range(size):
            assert short.is_duplicate(place, each) == long.is_duplicate(place, each)
    assert short.flush(2.0) == long.flush(2.0)
