"""What a leader makes Pulsar forget of its topic, and when."""

from dataclasses import replace

from tests.cluster.protocol.kit import at

from arneb_cluster.protocol.members import Copies, Members, Report
from arneb_cluster.protocol.trimming import ROW_REPORTS, SETTLED_REPORTS, Trim, Trimming, Write

ASKED = Copies(copies_min=2, gone_after_s=3_600.0, report_s=5.0)
REPORT_MS = 5_000
SETTLED_MS = SETTLED_REPORTS * REPORT_MS


def report(node: str, number: int) -> Report:
    return Report(node, f"{node}.1", number, at(number))


class Leader:
    """One leadership of n1, whose list of members is written and stored as soon as that is
    requested."""

    def __init__(self, members: Members | None = None) -> None:
        self.trimming = Trimming("n1", members or Members({}), ASKED, 0)
        self.now_ms = 0
        self.made = self.stored = 100
        self.written: list[Members] = []
        self.trims: list[int] = []
        self.stores = True

    def hear(self, *reports: Report) -> None:
        for each in reports:
            self.trimming.heard(each, self.now_ms)

    def wait(self, ms: int = REPORT_MS) -> None:
        """Let so much time pass, with one record made and stored, and one more check."""
        self.now_ms += ms
        for _ in range(2):
            self._look()
            self.made += 1
            if self.stores:
                self.stored = self.made
        self._look()

    def _look(self) -> None:
        for each in self.trimming.tick(self.now_ms, self.made, self.stored):
            if isinstance(each, Write):
                self.written.append(each.members)
                if self.stores:
                    self.trimming.written()
            else:
                self.trims.append(each.place.entry)


def test_what_all_members_have_is_trimmed() -> None:
    leader = Leader()
    leader.hear(report("n1", 9), report("n2", 7))
    leader.wait()
    assert leader.trims == [7]
    leader.wait()
    assert leader.trims == [7]
    leader.hear(report("n1", 20), report("n2", 12))
    leader.wait()
    assert leader.trims == [7, 12]


def test_nothing_is_trimmed_before_every_listed_member_has_reported_in_this_leadership() -> None:
    known = Members({}).heard(report("n1", 5), 0).heard(report("n2", 5), 0)
    known = known.heard(report("n3", 5), 0)
    leader = Leader(known)
    leader.hear(report("n1", 9), report("n2", 7))
    leader.wait()
    assert leader.trims == []
    leader.hear(report("n3", 8))
    leader.wait()
    assert leader.trims == [7]


def test_nothing_is_trimmed_before_the_leader_itself_has_reported() -> None:
    leader = Leader()
    leader.hear(report("n2", 7), report("n3", 8))
    leader.wait()
    assert leader.trims == []
    leader.hear(report("n1", 9))
    leader.wait()
    assert leader.trims == [7]


def test_nothing_is_trimmed_before_the_list_of_members_is_stored() -> None:
    leader = Leader()
    leader.stores = False
    leader.hear(report("n1", 9), report("n2", 7))
    leader.wait()
    leader.stored = leader.made
    leader.wait()
    assert (len(leader.written), leader.trims) == (1, [])
    leader.trimming.written()
    leader.stores = True
    leader.wait()
    assert leader.trims == [7]


def test_nothing_is_trimmed_until_a_record_confirms_that_the_list_was_stored() -> None:
    leader = Leader()
    leader.hear(report("n1", 9), report("n2", 7))
    leader.trimming.tick(0, 100, 100)
    leader.trimming.written()
    assert leader.trimming.tick(REPORT_MS, 104, 101) == []
    assert leader.trimming.tick(REPORT_MS, 105, 104) == []  # made before it was decided
    assert leader.trimming.tick(REPORT_MS, 105, 105) == [Trim(at(7))]


def test_a_node_that_takes_a_copy_is_in_the_list_before_anything_more_is_trimmed() -> None:
    leader = Leader()
    leader.hear(report("n1", 9), report("n2", 9))
    leader.wait()
    leader.hear(report("n1", 30), report("n2", 30), replace(report("n3", 12), is_copying=True))
    leader.stores = False
    leader.wait()
    assert leader.trims == [9]
    assert leader.written[-1].by_node["n3"].report.is_copying
    leader.trimming.written()
    leader.stores = True
    leader.wait()
    assert leader.trims == [9, 12]
    leader.hear(report("n3", 25))  # it has the copy
    leader.wait()
    assert leader.trims == [9, 12, 25]


def test_the_list_is_rewritten_now_and_then_so_that_a_new_leader_misses_nobody() -> None:
    leader = Leader()
    leader.hear(report("n1", 9), report("n2", 7))
    leader.wait()
    assert len(leader.written) == 1
    for _ in range(ROW_REPORTS - 1):
        leader.hear(report("n1", 9), report("n2", 7))
        leader.wait()
    assert len(leader.written) == 1
    leader.wait()
    assert len(leader.written) == 2
    assert leader.written[-1].by_node["n2"].heard_ms == (ROW_REPORTS - 1) * REPORT_MS


def test_a_missing_member_is_dropped_once_the_others_had_time_to_report() -> None:
    hour_ms = 3_600_000
    known = Members({}).heard(report("n1", 5), 0).heard(report("n2", 5), 0)
    known = known.heard(report("n3", 2), 0)
    leader = Leader(known)
    leader.trimming = Trimming("n1", known, ASKED, 2 * hour_ms)
    leader.now_ms = 2 * hour_ms
    leader.hear(report("n1", 9))
    leader.wait()
    assert leader.trims == []
    assert leader.written == []
    leader.hear(report("n2", 8))
    leader.wait(SETTLED_MS)
    leader.wait()
    assert set(leader.written[-1].by_node) == {"n1", "n2"}
    assert leader.trims == [8]


def test_the_alarm_begins_when_members_had_time_to_report() -> None:
    leader = Leader()
    leader.hear(report("n1", 9))
    assert leader.trimming.alarm(SETTLED_MS - 1) == ""
    assert leader.trimming.alarm(SETTLED_MS) == (
        "the log topic is not trimmed: 1 of 2 nodes (n1) have a copy"
    )
    leader.hear(report("n2", 1))
    assert leader.trimming.alarm(SETTLED_MS) == ""


def test_a_failed_trim_is_tried_again() -> None:
    leader = Leader()
    leader.hear(report("n1", 9), report("n2", 7))
    leader.wait()
    leader.trimming.failed()
    leader.wait()
    assert leader.trims == [7, 7]
