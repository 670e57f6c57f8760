"""Overflow: how many of the messages that arrive at once a queue with reject-publish accepts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.topology.names import SUBSCRIPTION
from arneb_amqp.topology.overflow import (
    DEAD_LETTERS_PER_STEP,
    PROPERTY_BYTES_PER_STEP,
    REFUSED_AGAIN_MAX,
    Admission,
    Bounds,
    Overflow,
    payload_bytes,
    property_bytes,
)
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.route import join_route
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.topics.topic import Topic


@dataclass(eq=False)
class Queue:
    """As much of a queue's topic as is used: so much is ready, and so much is taken at once."""

    ready_messages: int
    ready_bytes: int
    room: int
    name: str = "q"
    subscriptions: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = SimpleNamespace(
            ready_messages=self.ready_messages, ready_bytes=self.ready_bytes, room=self.room
        )
        self.subscriptions[SUBSCRIPTION] = numbers


ROUTE = join_route("", "q")


def entry_of(payload: bytes, *, lives_no_time: bool = False, properties: bytes = b"\0\0") -> bytes:
    expires_at_ms = 5 if lives_no_time else 0
    header = EntryHeader(
        Origin.AMQP, publish_time_ms=5, expires_at_ms=expires_at_ms, hint=len(ROUTE)
    )
    return header.pack() + ROUTE + compose(ChannelId(1), properties, payload)


few = st.integers(0, 8)
some_bytes = st.integers(0, 60)
bounds = st.builds(Bounds, st.none() | few, st.none() | some_bytes, st.sampled_from([None, 0, 5]))
queues = st.builds(Queue, few, some_bytes, few)
entries = st.builds(entry_of, st.integers(0, 20).map(bytes), lives_no_time=st.booleans())
runs = st.lists(st.lists(entries, min_size=1, max_size=8), max_size=4)


@given(bounds, queues, runs)
def test_a_run_is_accepted_as_its_messages_would_be_one_by_one(
    bounds: Bounds, queue: Queue, runs: list[list[bytes]]
) -> None:
    topic = cast("Topic", queue)
    of_runs, of_each = (Overflow(topic, bounds, None) for _ in range(2))
    admissions = [Admission(), Admission()]
    for run in runs:
        taken = admissions[0].offer_all(of_runs, run)
        assert taken == [admissions[1].offer(of_each, entry) for entry in run]
    assert of_runs.incoming == of_each.incoming
    assert of_runs.incoming_bytes == of_each.incoming_bytes == sum(of_runs.incoming)
    assert admissions[0].close() == admissions[1].close()
    for admission in admissions:
        admission.over()
    assert not of_runs.incoming
    assert not of_each.incoming
    assert of_runs.incoming_bytes == of_each.incoming_bytes == 0


def test_what_is_on_its_way_counts_for_the_next_run() -> None:
    overflow = Overflow(cast("Topic", Queue(0, 0, 0)), Bounds(None, 10), None)
    admission = Admission()
    for taken in ([True, True], [True, False]):
        assert admission.offer_all(overflow, [entry_of(b"123"), entry_of(b"1234")]) == taken
    assert overflow.incoming_bytes == 10


@given(st.binary(max_size=50))
def test_only_the_payload_counts(payload: bytes) -> None:
    assert payload_bytes(entry_of(payload)) == len(payload)


@dataclass
class ToOther:
    """Passes what was refused on to another queue, which may be full as well."""

    other: Overflow
    seen: list[bytes] = field(default_factory=list)
    calls: int = 0

    def dead_letter_refused(self, entries: Sequence[bytes], admission: Admission) -> None:
        self.calls += 1
        self.seen += entries
        for each in entries:
            admission.offer(self.other, each)


def test_dead_letters_of_refused_messages_are_made_in_steps_and_in_order() -> None:
    third = Overflow(cast("Topic", Queue(0, 0, 0, "third")), Bounds(None, None), None)
    behind = ToOther(third)
    second = Overflow(cast("Topic", Queue(1, 1, 0, "second")), Bounds(1, None), behind)
    ahead = ToOther(second)
    first = Overflow(cast("Topic", Queue(1, 1, 0, "first")), Bounds(1, None), ahead)
    admission, count = Admission(), 10 * DEAD_LETTERS_PER_STEP
    entries = [entry_of(b"%d" % number) for number in range(count)]
    assert not any(admission.offer_all(first, entries))
    made = [len(ahead.seen) + len(behind.seen) for _ in admission.closing()]
    steps = zip([0, *made], made, strict=False)
    assert all(after - before <= DEAD_LETTERS_PER_STEP for before, after in steps)
    assert ahead.seen == behind.seen == entries
    assert admission.appends == {third.topic: entries}
    assert ahead.calls == 10, "expected one call for each step, not for each message"


def test_dead_letters_with_long_property_lists_take_more_steps() -> None:
    to_nowhere = ToOther(Overflow(cast("Topic", Queue(0, 0, 0)), Bounds(None, None), None))
    full = Overflow(cast("Topic", Queue(1, 1, 0, "full")), Bounds(1, None), to_nowhere)
    admission = Admission()
    long, short = (b"\0" * size for size in (PROPERTY_BYTES_PER_STEP // 2 + 1, 2))
    of_each = [long, long, short, long, short, short, long + long, short]
    entries = [entry_of(b"payload" * 9_000, properties=each) for each in of_each]
    assert [property_bytes(each) for each in entries] == list(map(len, of_each))
    admission.offer_all(full, entries)
    made = [len(to_nowhere.seen) for _ in admission.closing()]
    assert made == [2, 7]
    assert to_nowhere.seen == entries


@pytest.mark.parametrize("ways", [1, 3], ids=["a chain", "a tree"])
def test_messages_that_one_full_queue_after_another_refuses_are_given_up(ways: int) -> None:
    passed: list[bytes] = []

    class OnAndOn:
        def dead_letter_refused(self, entries: Sequence[bytes], admission: Admission) -> None:
            passed.extend(entries)
            for each in entries:
                for _ in range(ways):
                    admission.offer(full, each)

    full = Overflow(cast("Topic", Queue(1, 1, 0)), Bounds(1, None), OnAndOn())
    admission, entries = Admission(), [entry_of(b"1"), entry_of(b"2")]
    admission.offer_all(full, entries)
    assert admission.close() == {}
    bound = len(entries) * (1 + REFUSED_AGAIN_MAX)
    assert bound <= len(passed) < bound + DEAD_LETTERS_PER_STEP
