"""Chunks that are left out of a cumulative acknowledgement, against a model that knows all
messages: acknowledged is every entry of those up to the one that was named, and no other."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.unacked_chunks import Passing, UnackedChunks

Log = list[tuple[EntryId, int]]
"""Each entry, and which message it is of."""


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Messages in one chunk and in several, those of different producers among each other, over
    some ledgers."""
    chunks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    order = draw(st.permutations([each for each, count in enumerate(chunks) for _ in range(count)]))
    ledger, number = 1, 0
    log: Log = []
    for message in order:
        log.append(((ledger, number), message))
        number += 1
        if draw(st.integers(0, 4)) == 0:
            ledger, number = ledger + draw(st.integers(1, 3)), 0
    return log


class PieceProgram(RuleBasedStateMachine):
    """A subscription that delivers in order, loses acknowledgements with its connection, and an
    application that acknowledges one message or everything up to one."""

    @initialize(log=logs())
    def begin(self, log: Log) -> None:
        self.log = log
        self.messages: dict[int, list[EntryId]] = {}
        for entry, message in log:
            self.messages.setdefault(message, []).append(entry)
        self.tracker = UnackedChunks()
        self.acked: set[EntryId] = set()
        self.stored: set[EntryId] = set()
        self.had: set[int] = set()
        """Messages that the application ever got."""
        self.done: set[int] = set()
        self.ever: set[int] = set()
        """The same, though the broker may not have heard of it."""
        self.again: set[int] = set()
        """Messages that were coming again when everything up to a later one was acknowledged:
        whether they were to be passed was not known."""
        self.connect()

    def connect(self) -> None:
        """What is not acknowledged is on its way."""
        self.coming = [each for each in self.log if each[0] not in self.acked]
        self.here: dict[int, list[EntryId]] = {}

    @precondition(lambda self: self.coming)
    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.coming))):
            entry, message = self.coming.pop(0)
            if entry in self.acked:
                continue
            size = len(self.messages[message])
            if size > 1 or self.tracker:
                self.tracker.came(entry, is_chunk=size > 1)
            here = self.here.setdefault(message, [])
            here.append(entry)
            if len(here) == size:
                assert here == self.messages[message]
                if size > 1:
                    self.tracker.whole(here)
                self.had.add(message)

    @precondition(lambda self: self.had)
    @rule(data=st.data())
    def acknowledge_up_to(self, data: st.DataObject) -> None:
        named = data.draw(st.sampled_from(sorted(self.had)))
        last = self.messages[named][-1]
        passing = self.tracker.passing(last, self.messages[named])
        self.acked |= acknowledged_by(passing, last, self.log)
        if passing is not None:
            self.again |= {
                each
                for each, entries in self.messages.items()
                if entries[-1] < last and len(self.here.get(each, ())) < len(entries)
            }
        self.tracker.passed(last)
        self.done |= {each for each, entries in self.messages.items() if entries[-1] <= last}
        self.check()

    @precondition(lambda self: self.had)
    @rule(data=st.data())
    def acknowledge_one(self, data: st.DataObject) -> None:
        named = data.draw(st.sampled_from(sorted(self.had)))
        self.acked |= set(self.messages[named])
        self.tracker.done(self.messages[named])
        self.done.add(named)
        self.check()

    @rule()
    def store(self) -> None:
        """The broker has all acknowledgements."""
        self.stored = set(self.acked)

    @rule()
    def lose(self) -> None:
        """The connection, and with it what was not stored."""
        self.acked = set(self.stored)
        self.done = {each for each in self.done if self.acked.issuperset(self.messages[each])}
        self.tracker.disconnected()
        self.connect()

    def check(self) -> None:
        self.ever |= self.done
        assert self.acked <= self.entries_of(self.ever)
        assert self.entries_of(self.done) <= self.acked | self.entries_of(self.again)

    def entries_of(self, messages: set[int]) -> set[EntryId]:
        return {each for message in messages for each in self.messages[message]}


def acknowledged_by(passing: Passing | None, last: EntryId, log: Log) -> set[EntryId]:
    """What the broker takes for acknowledged."""
    up_to = last if passing is None else passing.up_to
    single = () if passing is None else passing.single
    assert list(single) == sorted(single)
    return {entry for entry, _ in log if entry <= up_to or entry in single} | {last}


TestPieceProgram = PieceProgram.TestCase


def test_the_chunks_of_a_later_message_are_left_out() -> None:
    tracker = UnackedChunks()
    for number in (0, 2):
        tracker.came((1, number), is_chunk=True)
        tracker.came((1, number + 1), is_chunk=number == 0)
    tracker.whole([(1, 1)])
    assert tracker.passing((1, 3)) == Passing((1, -1), [(1, 1)])
    tracker.passed((1, 3))
    tracker.came((1, 4), is_chunk=True)
    tracker.whole([(1, 0), (1, 2), (1, 4)])
    assert tracker.passing((1, 4)) is None
    tracker.passed((1, 4))
    assert not tracker


@given(count=st.integers(1, 50))
def test_what_was_passed_before_is_not_named_again(count: int) -> None:
    tracker = UnackedChunks()
    tracker.came((1, 0), is_chunk=True)
    named = 0
    for number in range(1, count + 1):
        tracker.came((1, number), is_chunk=False)
        passing = tracker.passing((1, number))
        assert passing is not None
        named += len(passing.single)
        tracker.passed((1, number))
    assert named == 0


def test_what_was_passed_on_a_lost_connection_is_named_again() -> None:
    tracker = UnackedChunks()
    for _ in range(2):
        for number in range(3):
            tracker.came((1, number), is_chunk=number == 0)
        assert tracker.passing((1, 2)) == Passing((1, -1), [(1, 1)])
        tracker.passed((1, 2))
        tracker.disconnected()


def test_a_message_has_all_its_own_chunks_though_they_have_not_come_again() -> None:
    tracker = UnackedChunks()
    tracker.came((1, 0), is_chunk=True)
    assert tracker.passing((1, 3), [(1, 1), (1, 3)]) == Passing((1, -1), [(1, 1)])
    assert tracker.passing((1, 3), [(1, 0), (1, 3)]) is None


def test_nothing_is_kept_of_what_is_done() -> None:
    tracker = UnackedChunks()
    chunks = [(1, number) for number in range(3)]
    for each in chunks:
        tracker.came(each, is_chunk=True)
    assert tracker.passing((1, 1)) == Passing((1, -1), [])
    tracker.done(chunks)
    assert not tracker
    assert repr(tracker) == "<UnackedChunks 0 chunks, passed None>"
