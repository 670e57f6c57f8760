"""Which node a leader hands over to."""

from dataclasses import replace

import pytest

from arneb_cluster.protocol.members import Member, Members, Report
from arneb_cluster.protocol.successor import HEARD_S, LAG_RECORDS_MAX, NoSuccessor, successor_of
from arneb_cluster.protocol.values import Place

NOW_MS = 1_000_000
NUMBER = 50_000
LATE_MS = NOW_MS - int(HEARD_S * 1_000) - 1


def member(node: str, number: int = NUMBER, heard_ms: int = NOW_MS) -> Member:
    return Member(Report(node, f"run of {node}", number, Place(1, number)), heard_ms)


def choose(wanted: str, *others: Member) -> str:
    """What n1, which leads, does."""
    known = {each.report.node: each for each in (member("n1"), *others)}
    return successor_of(Members(known), "n1", wanted, NUMBER, NOW_MS)


def test_the_requested_node_is_chosen_though_another_has_more() -> None:
    assert choose("n2", member("n2", NUMBER - 5), member("n3")) == "n2"


def test_without_a_request_the_node_that_has_most_is_chosen() -> None:
    assert choose("", member("n2", NUMBER - 5), member("n3", NUMBER - 1)) == "n3"


def test_a_node_without_a_report_is_skipped() -> None:
    assert choose("", member("n2", NUMBER - 5), member("n3", heard_ms=LATE_MS)) == "n2"


COPYING = replace(member("n2"), report=replace(member("n2").report, is_copying=True))

REFUSED = {
    "it leads already": ("n1", member("n2")),
    "which are 'n2', 'n3', got 'n9'": ("n9", member("n2"), member("n3")),
    "which are no other node, got 'n2'": ("n2",),
    "node 'n2' was not heard of for 15 s": ("n2", member("n2", heard_ms=LATE_MS), member("n3")),
    "node 'n2' has no copy yet": ("n2", COPYING, member("n3")),
    f"node 'n2' lacks {LAG_RECORDS_MAX + 1} records": (
        "n2", member("n2", NUMBER - LAG_RECORDS_MAX - 1), member("n3")
    ),
    "no other node was heard of": ("",),
    "node 'n2' was not heard of for 15 s; node 'n3' lacks 50000 records": (
        "", member("n2", heard_ms=LATE_MS), member("n3", 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("expected", REFUSED)
def test_without_a_possible_successor_nothing_is_given_up(expected: str) -> None:
    wanted, *others = REFUSED[expected]
    with pytest.raises(NoSuccessor, match=expected):
        choose(wanted, *others)


def test_a_successor_may_lack_what_it_can_read_in_a_moment() -> None:
    assert choose("n2", member("n2", NUMBER - LAG_RECORDS_MAX)) == "n2"
