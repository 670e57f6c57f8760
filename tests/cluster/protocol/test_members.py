"""Members, and up to where a topic may be trimmed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.protocol.kit import at

from arneb_cluster.protocol.members import Member, Members, Report
from arneb_cluster.protocol.values import NOWHERE, Place

NUMBERS = st.integers(0, 50)
REPORTS = st.builds(
    Report, st.sampled_from("abc"), st.sampled_from(["d1", "d2"]), NUMBERS, st.builds(at, NUMBERS)
)


def report(node: str, number: int, place: Place | None = None, directory: str = "d") -> Report:
    return Report(node, directory, number, at(number) if place is None else place)


def members(*reports: Report, now_ms: int = 0) -> Members:
    made = Members({})
    for each in reports:
        made = made.heard(each, now_ms)
    return made


def test_nothing_is_trimmed_below_the_copies_that_are_asked_for() -> None:
    assert members(report("a", 7)).trim_place(2) is None
    assert members(report("a", 7), report("b", 5)).trim_place(2) == at(5)
    assert members(report("a", 7), report("b", 5)).trim_place(3) is None


def test_nothing_is_trimmed_that_a_member_lacks_though_it_has_the_higher_number() -> None:
    """A leader that had to resend reads on from before its last record."""
    made = members(report("a", 7, at(7)), report("b", 9, at(4)))
    assert made.trim_place(2) == at(4)


def test_a_member_that_has_nothing_yet_holds_everything() -> None:
    assert members(report("a", 7), report("b", 0, NOWHERE)).trim_place(2) is None


def test_a_report_that_comes_late_takes_nothing_back_but_a_new_directory_does() -> None:
    made = members(report("a", 7), report("a", 3))
    assert made.by_node["a"].report.number == 7
    made = made.heard(report("a", 2, directory="new"), 0)
    assert made.by_node["a"].report == report("a", 2, directory="new")


def test_who_is_gone_is_dropped_if_enough_are_left_the_longest_gone_first() -> None:
    made = Members({
        "a": Member(report("a", 1), 1_000),
        "b": Member(report("b", 2), 0),
        "c": Member(report("c", 9), 50_000),
    })  # fmt: skip
    assert set(made.without_gone(50_000, 2, 10.0).by_node) == {"a", "c"}
    assert set(made.without_gone(50_000, 3, 10.0).by_node) == {"a", "b", "c"}
    assert made.without_gone(9_000, 2, 10.0) is made


def test_a_leader_writes_what_all_members_read() -> None:
    made = members(Report("a", "d", 1, at(1), reads=3), Report("b", "d", 1, at(1), reads=2))
    assert made.version == 2
    assert Members({}).version == 1


@given(st.lists(st.tuples(REPORTS, NUMBERS), max_size=8))
def test_the_row_comes_back_as_it_was(said: list[tuple[Report, int]]) -> None:
    made = Members({})
    for each, now_ms in said:
        made = made.heard(each, now_ms)
    assert Members.unpack(made.pack()) == made


@given(st.lists(REPORTS, max_size=12))
def test_what_is_trimmed_every_member_has(said: list[Report]) -> None:
    made = Members({})
    for each in said:
        made = made.heard(each, 0)
    place = made.trim_place(2)
    if place is not None:
        assert len(made.by_node) >= 2
        assert all(each.report.place >= place for each in made.by_node.values())


@pytest.mark.parametrize("value", [b"[", b"[]", b'{"a": 1}', b'{"a": {"heard_ms": 1}}'])
def test_a_row_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        Members.unpack(value)
    assert Members.unpack(None) == Members({})
