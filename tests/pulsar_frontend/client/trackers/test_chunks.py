"""Chunks put together again, against a model that keeps whole messages."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.chunks import (
    EXPIRE_S,
    NOTED_MAX,
    PENDING_MAX,
    Assembled,
    ChunkAssembler,
    Discarded,
    Reason,
)
from arneb_pulsar.wire.compression import UNCOMPRESSED_BYTES_MAX


@dataclass
class Sent:
    """A message of the model, and which of its chunks the consumer was given."""

    uuid: str
    chunks: list[bytes]
    begun: float = 0.0
    entries: list[EntryId] | None = None


class ChunksMachine(RuleBasedStateMachine):
    """Producers whose chunks interleave, start over, go missing, and never come."""

    @initialize(pending_max=st.integers(1, 3))
    def begin(self, pending_max: int) -> None:
        self.pending_max = pending_max
        self.assembler = ChunkAssembler(pending_max=pending_max, expire_s=60.0)
        self.now = 1_000.0
        self.sent = {
            str(number): Sent(
                str(number), [bytes([number, part]) * (part + 1) for part in range(number + 1)]
            )
            for number in range(5)
        }
        self.next_entry = 0
        self.under_way: list[Sent] = []
        self.unsettled: set[EntryId] = set()
        self.settled: set[EntryId] = set()

    def entry(self) -> EntryId:
        self.next_entry += 1
        return (1, self.next_entry)

    def give(self, message: Sent, index: int, entry: EntryId) -> Assembled | None:
        self.unsettled.add(entry)
        total = sum(map(len, message.chunks))
        found = self.assembler.add(
            message.uuid, index, len(message.chunks), total, entry, message.chunks[index], self.now
        )
        for discarded in self.assembler.take_discarded():
            assert discarded.entries
            self.settle(discarded.entries)
        if found is not None:
            self.settle(found.entries)
        return found

    def settle(self, entries: tuple[EntryId, ...]) -> None:
        assert self.unsettled.issuperset(entries), "an entry was acknowledged twice or never came"
        self.unsettled.difference_update(entries)

    @rule(number=st.integers(0, 4))
    def next_chunk(self, number: int) -> None:
        message = self.sent[str(number)]
        begun = message.entries is not None
        index = len(message.entries or ())
        if not begun:
            self.start(message)
        entries = message.entries
        assert entries is not None
        entry = self.entry()
        entries.append(entry)
        found = self.give(message, index, entry)
        if len(entries) == len(message.chunks):
            assert found == Assembled(b"".join(message.chunks), tuple(entries))
            self.stop(message)
        else:
            assert found is None

    @rule(number=st.integers(1, 4))
    def the_producer_begins_anew(self, number: int) -> None:
        message = self.sent[str(number)]
        if message.entries is not None:
            self.stop(message)
            self.start(message)
            message.entries = [self.entry()]
            assert self.give(message, 0, message.entries[0]) is None

    @rule(number=st.integers(1, 4), ahead=st.integers(1, 3))
    def a_chunk_is_missing(self, number: int, ahead: int) -> None:
        message = self.sent[str(number)]
        index = len(message.entries or ()) + ahead
        if index < len(message.chunks):
            assert self.give(message, index, self.entry()) is None
            self.stop(message)

    @rule(number=st.integers(1, 4), data=st.data())
    def a_chunk_comes_again(self, number: int, data: st.DataObject) -> None:
        """Redelivered in the same entry: nothing is to be done, its message is under way."""
        message = self.sent[str(number)]
        if message.entries is not None and len(message.entries) > 1:
            index = data.draw(st.integers(1, len(message.entries) - 1))
            assert self.give(message, index, message.entries[index]) is None

    @rule(seconds=st.integers(1, 40))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds
        self.assembler.expire(self.now)
        for discarded in self.assembler.take_discarded():
            assert discarded.reason is Reason.EXPIRED
            assert discarded.is_final
            self.settle(discarded.entries)
        for message in list(self.under_way):
            if message.begun + 60.0 <= self.now:
                self.stop(message)

    @rule()
    def reconnect(self) -> None:
        self.assembler.clear()
        self.unsettled.clear()
        for message in list(self.under_way):
            self.stop(message)

    def start(self, message: Sent) -> None:
        if len(self.under_way) == self.pending_max:
            self.stop(self.under_way[0])
        self.under_way.append(message)
        message.begun, message.entries = self.now, []

    def stop(self, message: Sent) -> None:
        message.entries = None
        if message in self.under_way:
            self.under_way.remove(message)

    @invariant()
    def it_holds_what_is_under_way_and_no_more(self) -> None:
        if hasattr(self, "assembler"):
            assert len(self.assembler) == len(self.under_way) <= self.pending_max
            held = {entry for message in self.under_way for entry in message.entries or ()}
            assert self.unsettled == held, "every other entry must be acknowledged"
            begun = [message.begun + 60.0 for message in self.under_way]
            assert self.assembler.due() == min(begun, default=None)


TestChunksMachine = ChunksMachine.TestCase


def add(
    assembler: ChunkAssembler, index: int, entry: int, now: float = 0.0, **changed: int
) -> Assembled | None:
    """One of three chunks of two bytes."""
    return assembler.add(
        "uuid", index, changed.get("count", 3), changed.get("total", 6), (1, entry), b"ab", now
    )


def test_the_bounds_are_those_of_the_official_clients() -> None:
    assert (PENDING_MAX, EXPIRE_S) == (10, 60.0)
    assembler = ChunkAssembler()
    for number in range(11):
        assembler.add(f"{number}", 0, 2, 8, (1, number), b"abcd", 0.0)
    assert assembler.take_discarded() == [Discarded(((1, 0),), Reason.OLDEST)]
    assembler.expire(59.9)
    assert len(assembler) == 10
    assembler.expire(60.0)
    assert len(assembler) == 0


def test_the_oldest_may_be_redelivered_and_the_expired_are_acknowledged() -> None:
    finals = {reason for reason in Reason if Discarded(((1, 1),), reason).is_final}
    assert finals == {Reason.EXPIRED, Reason.REPEATED, Reason.DAMAGED}


def test_a_chunk_that_its_producer_sent_twice_is_acknowledged() -> None:
    assembler = ChunkAssembler()
    add(assembler, 0, 1)
    add(assembler, 1, 2)
    add(assembler, 1, 3)
    assert assembler.take_discarded() == [Discarded(((1, 3),), Reason.REPEATED)]
    assert add(assembler, 2, 4) == Assembled(b"ababab", ((1, 1), (1, 2), (1, 4)))


def test_chunks_without_their_beginning_are_asked_for_again_and_given_up_in_the_end() -> None:
    assembler = ChunkAssembler(expire_s=60.0)
    reasons = []
    for now in (0.0, 30.0, 59.9, 60.0):
        add(assembler, 2, 9, now)
        reasons += [each.reason for each in assembler.take_discarded()]
    assert reasons == [Reason.OUT_OF_TURN] * 3 + [Reason.EXPIRED]


def test_the_beginning_makes_up_for_chunks_that_came_without_it() -> None:
    assembler = ChunkAssembler(expire_s=60.0)
    add(assembler, 2, 3, now=0.0)
    assembler.begin_again()
    for index in range(3):
        found = add(assembler, index, index + 1, now=50.0)
    assert found == Assembled(b"ababab", ((1, 1), (1, 2), (1, 3)))
    add(assembler, 2, 3, now=70.0)
    assert assembler.take_discarded() == [Discarded(((1, 3),), Reason.OUT_OF_TURN)]


def test_chunks_with_a_gap_are_given_up_however_often_they_come_again() -> None:
    assembler = ChunkAssembler(expire_s=60.0)
    reasons = []
    for now in (0.0, 30.0, 59.9, 60.0):
        assembler.begin_again()
        add(assembler, 0, 7, now)
        add(assembler, 2, 9, now)
        reasons += assembler.take_discarded()
    both = ((1, 7), (1, 9))
    turned = [Discarded(both, Reason.OUT_OF_TURN)] * 3
    assert reasons == [*turned, Discarded(both, Reason.EXPIRED)]


def test_what_comes_again_has_no_more_time_than_it_had() -> None:
    assembler = ChunkAssembler(expire_s=60.0)
    add(assembler, 0, 1, now=0.0)
    assembler.begin_again()
    add(assembler, 0, 1, now=50.0)
    assert assembler.due() == 60.0
    assembler.clear()
    add(assembler, 0, 1, now=55.0)
    assert assembler.due() == 115.0, "after a reconnection the timeout begins again"
    add(assembler, 0, 2, now=56.0)
    assert assembler.due() == 116.0, "a message that is sent again has a timeout of its own"


def test_the_oldest_is_given_up_when_its_time_is_over() -> None:
    assembler = ChunkAssembler(pending_max=1, expire_s=60.0)
    reasons = []
    for now in (0.0, 61.0):
        assembler.begin_again()
        for number in range(2):
            assembler.add(f"{number}", 0, 2, 8, (1, number), b"abcd", now)
        reasons += assembler.take_discarded()
    assert reasons == [Discarded(((1, 0),), Reason.OLDEST), Discarded(((1, 0),), Reason.EXPIRED)]


def test_chunks_are_noted_up_to_a_bound_and_given_up_in_turn() -> None:
    assembler = ChunkAssembler(expire_s=60.0)

    def reasons_at(now: float) -> set[Reason]:
        assembler.begin_again()
        for entry in range(NOTED_MAX + 1):
            if entry not in gone:
                assembler.add(f"{entry}", 1, 2, 8, (1, entry), b"abcd", now)
        found = assembler.take_discarded()
        gone.update(each.entries[0][1] for each in found if each.is_final)
        return {each.reason for each in found}

    gone: set[int] = set()
    assert reasons_at(0.0) == {Reason.OUT_OF_TURN}
    assert reasons_at(60.0) == {Reason.EXPIRED, Reason.OUT_OF_TURN}
    assert len(gone) == NOTED_MAX
    assert reasons_at(120.0) == {Reason.EXPIRED}
    assert len(gone) == NOTED_MAX + 1


def test_what_went_to_another_consumer_makes_room_for_notes() -> None:
    assembler = ChunkAssembler(expire_s=60.0)
    for entry in range(NOTED_MAX):
        assembler.add(f"{entry}", 1, 2, 8, (1, entry), b"abcd", 0.0)
    for now in (120.0, 180.0):
        assembler.take_discarded()
        add(assembler, 1, NOTED_MAX, now)
    assert assembler.take_discarded() == [Discarded(((1, NOTED_MAX),), Reason.EXPIRED)]


@pytest.mark.parametrize(
    ("index", "changed"),
    [
        (3, {}),
        (-1, {}),
        (0, {"count": 0}),
        (0, {"total": -1}),
        (0, {"total": UNCOMPRESSED_BYTES_MAX + 1}),
        (0, {"total": 1}),
        (0, {"count": 1, "total": 3}),
    ],
)
def test_chunks_that_fit_no_message_are_damaged(index: int, changed: dict[str, int]) -> None:
    assembler = ChunkAssembler()
    assert add(assembler, index, 1, **changed) is None
    assert assembler.take_discarded() == [Discarded(((1, 1),), Reason.DAMAGED)]
    assert len(assembler) == 0


def test_a_message_whose_size_was_a_lie_goes_as_a_whole() -> None:
    assembler = ChunkAssembler()
    add(assembler, 0, 1, total=3)
    add(assembler, 1, 2, total=3)
    assert assembler.take_discarded() == [Discarded(((1, 1), (1, 2)), Reason.DAMAGED)]


@pytest.mark.parametrize("arguments", [{"pending_max": 0}, {"expire_s": 0.0}])
def test_bounds_that_mean_nothing_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        ChunkAssembler(**arguments)
