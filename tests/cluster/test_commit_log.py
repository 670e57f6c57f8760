"""The replicated commit log, as the engine sees it."""

from collections.abc import Callable

import pytest

from arneb_cluster import commit_log as commit_log_module
from arneb_cluster.commit_log import Applied, PulsarLog
from arneb_core.api.errors import LeadershipLost, StoreFailed
from arneb_core.store.commit.commit_log import Ending
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.commit_record import RecordCorrupt, decode_changes
from arneb_core.store.format.schema import Table

REPORT = CommitReport(1, 2, 0)


def changes(name: bytes) -> Changes:
    return Changes(puts=[(Table.CATALOG, name, b"value")])


class FakeLeading:
    """Stores when it is told to."""

    def __init__(self) -> None:
        self.leads = True
        self.waiting: list[Applied] = []
        self.bodies: list[bytes] = []

    def commit(self, body: bytes, changes: Changes, ended: Applied) -> bool:
        if self.leads:
            self.bodies.append(body)
            self.waiting.append(ended)
        return self.leads

    def tidy_up(self, ended: Applied) -> None:
        self.waiting.append(ended)


class Kit:
    def __init__(self) -> None:
        self.leading = FakeLeading()
        self.calls: list[Callable[[], object]] = []
        self.log = PulsarLog(
            self.leading, lambda function, *args: self.calls.append(lambda: function(*args))
        )
        self.endings: list[tuple[str, Ending]] = []

    def submit(self, name: str, what: Changes | None = None) -> None:
        given = changes(name.encode()) if what is None else what
        assert self.log.submit(given, lambda ending: self.endings.append((name, ending))) is None

    def loop(self) -> None:
        """The turn that follows."""
        calls, self.calls = self.calls, []
        for each in calls:
            each()


def test_a_commit_ends_when_it_is_stored_and_applied() -> None:
    kit = Kit()
    kit.submit("a")
    kit.submit("b")
    assert [decode_changes(each).puts[0][1] for each in kit.leading.bodies] == [b"a", b"b"]
    assert kit.endings == []
    kit.leading.waiting[0](REPORT)
    assert kit.endings == [("a", REPORT)]
    assert not kit.log.needs_takeover


def test_losing_leadership_is_reported_to_the_oldest_and_nobody_else() -> None:
    kit = Kit()
    kit.submit("a")
    kit.submit("b")
    kit.log.lose("fenced")
    kit.log.lose("again")
    assert kit.endings == []
    kit.loop()
    ((name, ending),) = kit.endings
    assert (name, str(ending)) == ("a", "fenced")
    assert isinstance(ending, LeadershipLost)
    kit.leading.waiting[1](REPORT)
    assert len(kit.endings) == 1


def test_later_commits_are_reported_in_a_later_turn() -> None:
    kit = Kit()
    kit.log.lose("fenced")
    kit.submit("a")
    assert (kit.endings, kit.leading.bodies) == ([], [])
    kit.loop()
    assert [name for name, _ in kit.endings] == ["a"]


def test_a_node_that_no_longer_leads_says_so_when_it_is_asked() -> None:
    kit = Kit()
    kit.leading.leads = False
    kit.submit("a")
    kit.loop()
    assert isinstance(kit.endings[0][1], LeadershipLost)


def test_an_empty_commit_is_no_record_but_the_directory_goes_on() -> None:
    kit = Kit()
    kit.submit("a")
    kit.submit("nothing", Changes())
    assert len(kit.leading.bodies) == 1
    kit.leading.waiting[0](REPORT)
    kit.leading.waiting[1](REPORT)
    assert [name for name, _ in kit.endings] == ["a", "nothing"]


def test_a_commit_that_no_reader_would_accept_is_refused_before_it_has_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit_log_module, "RECORD_BYTES_MAX", 10)
    kit = Kit()
    kit.submit("a")
    kit.loop()
    assert isinstance(kit.endings[0][1], StoreFailed)
    assert kit.leading.bodies == []


def test_after_closing_nobody_is_called_back() -> None:
    kit = Kit()
    kit.submit("a")
    kit.log.close()
    kit.log.lose("fenced")
    kit.loop()
    kit.leading.waiting[0](REPORT)
    assert kit.endings == []


@pytest.mark.parametrize("data", [b"", b"\1" * 30, bytes(24) + b"more"])
def test_bytes_without_changes_are_reported(data: bytes) -> None:
    with pytest.raises(RecordCorrupt):
        decode_changes(data)


def test_maintenance_that_finishes_before_a_commit_is_stored_delays_nobody() -> None:
    kit = Kit()
    kit.submit("a")
    kit.submit("tidy", Changes())
    kit.submit("b")
    first, tidied, last = kit.leading.waiting
    tidied(REPORT)
    assert kit.endings == []
    first(REPORT)
    last(REPORT)
    kit.loop()
    assert [name for name, _ in kit.endings] == ["a", "tidy", "b"]
