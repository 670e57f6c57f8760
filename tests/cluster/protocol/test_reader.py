"""Which entries of a topic count."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.protocol.kit import EMPTY, SHARD, Epoch, at, take, take_bytes

from arneb_cluster.protocol import reader as reader_module
from arneb_cluster.protocol.entries import EntryCorrupt, Kind, UnknownVersion, encode_take
from arneb_cluster.protocol.reader import LogReader, Verdict
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied, Place
from arneb_cluster.replica import pack_applied, unpack_applied


def read_all(reader: LogReader, *entries: bytes, start: int = 0) -> list[Verdict]:
    return [reader.read(at(start + index), data)[0] for index, data in enumerate(entries)]


def test_records_of_the_last_take_count_in_their_chain() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    bodies = []
    for index, data in enumerate((take_bytes(1), one.record(b"a"), one.record(b"b"))):
        verdict, commit = reader.read(at(index), data)
        bodies.append(commit.body if commit else None)
    assert bodies == [None, b"a", b"b"]
    assert (verdict, reader.link) == (Verdict.COUNTED, one.link)
    assert commit is not None
    assert commit.applied == Applied("h", one.link, at(2), one.link, 1, at(0), 7, "n1")


def test_later_writes_of_a_fenced_leader_do_not_count() -> None:
    reader, old = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    first = old.record(b"a")
    new = Epoch(2, at(2), old.link)
    verdicts = read_all(
        reader, take_bytes(1), first, take_bytes(2, "n2"), old.record(b"late"), new.record(b"b")
    )
    assert verdicts[-2:] == [Verdict.OTHER_LEADER, Verdict.COUNTED]


def test_a_take_whose_epoch_is_not_above_the_last_does_not_count() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(5, at(0))
    verdicts = read_all(
        reader, take_bytes(5), take_bytes(5, "n2"), take_bytes(4, "n3"), one.record(b"a")
    )
    assert verdicts == [
        Verdict.TAKEN, Verdict.STALE_TAKE, Verdict.STALE_TAKE, Verdict.COUNTED,
    ]  # fmt: skip


def test_the_first_epoch_of_a_topic_is_0() -> None:
    assert read_all(LogReader(SHARD, EMPTY), take_bytes(0)) == [Verdict.TAKEN]


def test_a_take_of_another_history_or_shard_is_ignored() -> None:
    reader = LogReader(SHARD, EMPTY)
    assert read_all(reader, take_bytes(1, history="x"), take_bytes(2, shard="t")) == [
        Verdict.FOREIGN_TAKE, Verdict.FOREIGN_TAKE,
    ]  # fmt: skip
    assert reader.epoch == -1


def test_a_record_whose_take_was_trimmed_means_that_something_is_lacking() -> None:
    """Nothing follows from numbers here: its epoch alone shows it."""
    reader, five = LogReader(SHARD, EMPTY), Epoch(5, at(0))
    assert read_all(reader, five.record(b"a"), start=1) == [Verdict.LACKING]
    begun = LogReader(SHARD, replace(EMPTY, epoch=3, take_place=at(0), place=at(1)))
    assert read_all(begun, five.record(b"b"), start=9) == [Verdict.LACKING]


def test_records_of_a_take_of_another_history_are_ignored() -> None:
    reader, foreign = LogReader(SHARD, EMPTY), Epoch(5, at(0))
    assert read_all(reader, take_bytes(5, history="x"), foreign.record(b"a")) == [
        Verdict.FOREIGN_TAKE, Verdict.OTHER_LEADER,
    ]  # fmt: skip


def test_an_empty_directory_takes_the_history_of_the_first_take() -> None:
    reader = LogReader(SHARD, Applied("", FOUNDATION, NOWHERE, FOUNDATION))
    verdicts = read_all(reader, take_bytes(1, history="x"), take_bytes(2, history="y"))
    assert verdicts == [Verdict.TAKEN, Verdict.FOREIGN_TAKE]
    assert reader.history == "x"


def test_a_record_that_occurs_twice_counts_once() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    first, second = one.record(b"a"), one.record(b"b")
    verdicts = read_all(reader, take_bytes(1), first, first, second, first, second)
    assert verdicts[1:] == [
        Verdict.COUNTED, Verdict.DOUBLE, Verdict.COUNTED, Verdict.DOUBLE, Verdict.DOUBLE,
    ]  # fmt: skip


def test_a_record_before_its_predecessor_is_ignored_and_both_may_come_again() -> None:
    """Pulsar has lost the first copy of one, stored the next, and forgotten both. The leader has
    genuine receipts for the later copies."""
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    first, second, third = one.record(b"a"), one.record(b"b"), one.record(b"c")
    verdicts = read_all(reader, take_bytes(1), first, third, second, third)
    assert verdicts[1:] == [
        Verdict.COUNTED, Verdict.AHEAD, Verdict.COUNTED, Verdict.COUNTED,
    ]  # fmt: skip


def test_a_record_that_its_leader_has_stored_and_that_is_not_here_is_missing() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    one.record(b"lost")
    assert read_all(reader, take_bytes(1), one.record(b"b", stored=1))[1] is Verdict.LACKING


def test_a_directory_with_another_past_is_detected_by_the_next_record() -> None:
    reader, other = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    mine = Epoch(1, at(0))
    other.record(b"x")
    verdicts = read_all(reader, take_bytes(1), mine.record(b"a"), other.record(b"b"))
    assert verdicts[1:] == [Verdict.COUNTED, Verdict.UNCHAINED]


def test_parts_make_one_commit_and_a_take_voids_them() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    entries = [take_bytes(1), one.record(b"a", Kind.PART), one.record(b"b", Kind.PART)]
    two = Epoch(2, at(3), one.link)
    entries += [take_bytes(2), two.record(b"c", Kind.PART), two.record(b"d")]
    found = [reader.read(at(index), data) for index, data in enumerate(entries)]
    assert [verdict for verdict, _ in found].count(Verdict.COUNTED) == 4
    assert [commit.body for _, commit in found if commit] == [b"cd"]
    assert reader.link.number == 4


def test_a_directory_is_never_in_the_middle_of_a_commit() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    entries = [take_bytes(1), one.record(b"a", Kind.PART), one.record(b"", Kind.HEARTBEAT)]
    assert [reader.read(at(index), data)[1] for index, data in enumerate(entries)] == [None] * 3


def test_a_heartbeat_advances_the_number_and_applies_nothing() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    reader.read(at(0), take_bytes(1))
    _, commit = reader.read(at(1), one.record(b"h", Kind.HEARTBEAT, stamp_ms=9))
    assert commit is not None
    assert (commit.body, commit.applied.link.number, commit.applied.stamp_ms) == (b"", 1, 9)


def test_a_resignation_holds_until_the_next_take() -> None:
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    read_all(reader, take_bytes(1), one.record(b"", Kind.RESIGNATION))
    assert reader.resigned
    read_all(reader, take_bytes(2), start=2)
    assert not reader.resigned


def test_what_the_directory_has_is_read_again_from_its_base_and_not_applied_again() -> None:
    one = Epoch(1, at(0))
    first = one.record(b"a")
    base = one.link
    second, third = one.record(b"b"), one.record(b"c")
    applied_link = Epoch(1, at(0), base)
    applied_link.record(b"b")
    applied = Applied("h", applied_link.link, at(1), base, 1, at(0))
    reader = LogReader(SHARD, applied)
    found = [reader.read(at(2 + index), data) for index, data in enumerate((first, second, third))]
    assert [verdict for verdict, _ in found] == [
        Verdict.DOUBLE, Verdict.COUNTED, Verdict.COUNTED,
    ]  # fmt: skip
    assert [commit.body for _, commit in found if commit] == [b"c"]


def test_records_read_before_are_not_new() -> None:
    reader = LogReader(SHARD, EMPTY)
    reader.read(at(3), take_bytes(1))
    assert reader.read(at(3), take_bytes(2))[0] is Verdict.SEEN
    assert reader.read(at(1), take_bytes(2))[0] is Verdict.SEEN


def test_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "PARTS_BYTES_MAX", 5)
    reader, one = LogReader(SHARD, EMPTY), Epoch(1, at(0))
    read_all(reader, take_bytes(1), one.record(b"abc", Kind.PART))
    with pytest.raises(EntryCorrupt, match="at most 5 bytes, got 6"):
        reader.read(at(2), one.record(b"def", Kind.PART))


def test_an_entry_of_a_later_version_stops_the_reader() -> None:
    data = take_bytes(1)
    with pytest.raises(UnknownVersion):
        LogReader(SHARD, EMPTY).read(at(0), data[:3] + b"\2" + data[4:])


@given(st.data())
def test_any_copies_in_any_order_with_garbage_between_count_as_one_chain(
    data: st.DataObject,
) -> None:
    """Whatever is in the topic, what counts is a prefix of what the leader wrote, each record
    once."""
    one = Epoch(1, Place(1, 0))
    made = [one.record(b"%d" % index) for index in range(6)]
    stream = data.draw(st.lists(st.sampled_from([*made, b"garbage", take_bytes(1)]), max_size=30))
    reader = LogReader(SHARD, EMPTY)
    reader.read(at(0), take_bytes(1))
    bodies = []
    for index, entry in enumerate(stream, 1):
        _, commit = reader.read(at(index), entry)
        if commit is not None:
            bodies.append(commit.body)
    assert bodies == [b"%d" % index for index in range(len(bodies))]
    expected = 0
    for entry in stream:
        if expected < 6 and entry == made[expected]:
            expected += 1
    assert len(bodies) == expected


def test_the_leader_is_known_from_the_directory() -> None:
    first = LogReader(SHARD, EMPTY)
    one = Epoch(3, at(0))
    first.read(at(0), encode_take(replace(take(3, "n2"), addresses={"internal": "n2:7650"})))
    _, commit = first.read(at(1), one.record(b"a"))
    assert commit is not None
    again = LogReader(SHARD, unpack_applied(pack_applied(commit.applied)))
    assert again.leader is not None
    assert again.leader.take.node == "n2"
    assert again.leader.addresses == (("internal", "n2:7650"),)
    assert again.leader.place == at(0)
