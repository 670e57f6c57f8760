"""Members, and how far a topic may be trimmed."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.protocol.kit import at

from arneb_cluster.protocol.members import (
    MEMBERS_MAX,
    Copies,
    Member,
    Members,
    Report,
    pack_report,
    parse_report,
)
from arneb_cluster.protocol.values import NOWHERE, Place

TWO = Copies(copies_min=2, gone_after_s=10.0)
NUMBERS = st.integers(0, 50)
REPORTS = st.builds(
    Report,
    st.sampled_from("abc"),
    st.sampled_from(["r1", "r2"]),
    NUMBERS,
    st.builds(at, NUMBERS),
    is_copying=st.booleans(),
)


def report(node: str, number: int, place: Place | None = None, run: str = "r") -> Report:
    return Report(node, run, number, at(number) if place is None else place)


def members(*reports: Report, now_ms: int = 0) -> Members:
    made = Members({})
    for each in reports:
        made = made.heard(each, now_ms)
    return made


def test_nothing_is_trimmed_below_the_required_number_of_copies() -> None:
    assert members(report("a", 7)).trim_place(2) is None
    assert members(report("a", 7), report("b", 5)).trim_place(2) == at(5)
    assert members(report("a", 7), report("b", 5)).trim_place(3) is None


def test_nothing_is_trimmed_that_a_member_lacks_though_it_has_the_higher_number() -> None:
    """A leader that had to resend reads from before its last record."""
    made = members(report("a", 7, at(7)), report("b", 9, at(4)))
    assert made.trim_place(2) == at(4)


def test_a_member_that_has_nothing_yet_holds_everything() -> None:
    assert members(report("a", 7), report("b", 0, NOWHERE)).trim_place(2) is None


def test_a_node_that_takes_a_copy_holds_the_topic_and_does_not_count_as_a_copy() -> None:
    copying = replace(report("c", 4), is_copying=True)
    assert members(report("a", 7), copying).trim_place(2) is None
    assert members(report("a", 7), report("b", 6), copying).trim_place(2) == at(4)
    # Another attempt, from a source that has less, is a pin further back.
    again = replace(report("c", 3), is_copying=True)
    assert members(report("a", 7), report("b", 6), copying, again).trim_place(2) == at(3)


def test_nobody_is_dropped_for_a_copy_that_is_not_complete_yet() -> None:
    made = Members({
        "a": Member(report("a", 1), 50_000),
        "b": Member(report("b", 2), 0),
        "c": Member(replace(report("c", 2), is_copying=True), 50_000),
    })  # fmt: skip
    assert made.without_gone(50_000, TWO) is made


def test_what_keeps_the_topic_is_named() -> None:
    one = members(report("a", 7))
    assert one.missing(0, TWO) == "the log topic is not trimmed: 1 of 2 nodes (a) have a copy"
    assert members().missing(0, TWO) == "the log topic is not trimmed: 0 of 2 nodes have a copy"
    two = members(report("a", 7), report("b", 5))
    assert two.missing(9_000, TWO) == ""
    hours = replace(TWO, gone_after_s=3_600.0)
    assert two.heard(report("a", 8), 7_200_000).missing(7_200_000, hours) == (
        "the log topic is not trimmed: nothing was heard of b for 2 h, and without it fewer than 2 "
        "nodes would have a copy"
    )


def test_the_number_of_members_is_bounded() -> None:
    made = members(*(report(f"n{number}", 1) for number in range(MEMBERS_MAX + 3)))
    assert len(made.by_node) == MEMBERS_MAX
    assert made.heard(report("n0", 2), 9).by_node["n0"].heard_ms == 9


@given(REPORTS)
def test_a_report_is_read_as_it_was_and_unknown_fields_are_ignored(made: Report) -> None:
    assert parse_report(pack_report(made)) == made
    assert parse_report(json.dumps({**json.loads(pack_report(made)), "later": 1}).encode()) == made


@pytest.mark.parametrize(
    "change",
    [
        {"node": ""}, {"node": 1}, {"node": "x" * 256}, {"number": "1"}, {"number": True},
        {"place": [1]}, {"place": None}, {"place": [1, "2"]}, {"is_copying": 1}, {"reads": None},
    ],
)  # fmt: skip
def test_an_invalid_report_is_refused(change: dict[str, object]) -> None:
    fields = json.loads(pack_report(report("a", 1)))
    with pytest.raises(ValueError):
        parse_report(json.dumps({**fields, **change}).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b"[" * 5_000, b" " * 5_000])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_report(data)


def test_a_late_report_takes_nothing_back_but_one_of_another_run_does() -> None:
    made = members(report("a", 7), report("a", 3))
    assert made.by_node["a"].report.number == 7
    made = made.heard(report("a", 2, run="new"), 0)
    assert made.by_node["a"].report == report("a", 2, run="new")


def test_missing_members_are_dropped_longest_first_if_enough_are_left() -> None:
    made = Members({
        "a": Member(report("a", 1), 1_000),
        "b": Member(report("b", 2), 0),
        "c": Member(report("c", 9), 50_000),
    })  # fmt: skip
    assert set(made.without_gone(50_000, TWO).by_node) == {"a", "c"}
    assert set(made.without_gone(50_000, replace(TWO, copies_min=3)).by_node) == {"a", "b", "c"}
    assert made.without_gone(9_000, TWO) is made


def test_a_leader_writes_a_version_that_all_members_read() -> None:
    made = members(Report("a", "r", 1, at(1), reads=3), Report("b", "r", 1, at(1), reads=2))
    assert made.version == 2
    assert Members({}).version == 1


@given(st.lists(st.tuples(REPORTS, NUMBERS), max_size=8))
def test_the_row_is_read_as_it_was(reports: list[tuple[Report, int]]) -> None:
    made = Members({})
    for each, now_ms in reports:
        made = made.heard(each, now_ms)
    assert Members.unpack(made.pack()) == made


@given(st.lists(REPORTS, max_size=12))
def test_every_member_has_what_is_trimmed(reports: list[Report]) -> None:
    made = Members({})
    for each in reports:
        made = made.heard(each, 0)
    place = made.trim_place(2)
    if place is not None:
        assert sum(each.is_copy for each in made.by_node.values()) >= 2
        assert all(each.report.place >= place for each in made.by_node.values())


@pytest.mark.parametrize("value", [b"[", b"[]", b'{"a": 1}', b'{"a": {"heard_ms": 1}}'])
def test_an_invalid_row_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        Members.unpack(value)
    assert Members.unpack(None) == Members({})
