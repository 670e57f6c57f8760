"""What a member reports of itself, and what it knows of the others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing
from tests.cluster.test_replica import applied, steps_of

from arneb_cluster.membership import Membership
from arneb_cluster.protocol.members import Members, Report
from arneb_cluster.protocol.trimming import Trimming
from arneb_cluster.protocol.values import Place
from arneb_cluster.replica import MEMBERS_ROW, Replica, Step
from arneb_cluster.settings import ShardSettings
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table

SETTINGS = ShardSettings("s", "n1", "persistent://a/b/s", {"internal": "n1:7650"})
HOUR_MS = 3_600_000


def membership_of(replica: Replica, now_ms: int = 0) -> Membership:
    """The membership of a node that follows, and does nothing."""
    nothing = cast(Any, SimpleNamespace())
    return Membership(nothing, SETTINGS, nothing, replica, nothing, nothing, lambda: now_ms)


def listed(*nodes: str, heard_ms: int = 0) -> Members:
    made = Members({})
    for each in nodes:
        made = made.heard(Report(each, f"{each}.1", 5, Place(1, 5)), heard_ms)
    return made


def test_a_member_reports_what_is_on_its_disk_and_its_address(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        replica = Replica(store)
        membership = membership_of(replica)
        commit = Changes(puts=[(Table.CATALOG, b"topic/a", b"1")])
        replica.apply([*steps_of([commit]), Step(Changes(), applied(2))])
        assert replica.applied.link.number == 2
        replica.apply([Step(Changes(), applied(3))])
        report = membership.report()
        assert (report.node, report.number, report.place) == ("n1", 2, Place(1, 2))
        assert (report.run, report.internal) == (membership.run_id, "n1:7650")
        assert membership_of(replica).run_id != membership.run_id


def test_a_follower_reads_the_members_from_its_directory(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        replica = Replica(store)
        membership = membership_of(replica, 2 * HOUR_MS)
        assert (membership.members, membership.alarm) == (Members({}), "")
        written = listed("n1")
        replica.apply(steps_of([Changes(puts=[(*MEMBERS_ROW, written.pack())])]))
        assert membership.members == written == Replica(store).members
        reason = "the log topic is not trimmed: 1 of 2 nodes (n1) have a copy"
        assert membership.alarm == reason
        both = listed("n1", "n2", heard_ms=HOUR_MS)
        step = Step(Changes(puts=[(*MEMBERS_ROW, both.pack())]), applied(2), 10)
        replica.apply([step])
        assert membership.alarm == ""


def test_reports_from_another_history_do_not_count(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        membership = membership_of(Replica(store))
        membership._node = cast(Any, SimpleNamespace(reader=SimpleNamespace(history="h")))
        trimming = Trimming("n1", Members({}), SETTINGS.copies, 0)
        for node, history in (("n1", "h"), ("n2", "before"), ("n3", "")):
            membership._heard(trimming, Report(node, "r", 5, Place(1, 5), history=history))
        assert set(trimming.members.by_node) == {"n1", "n3"}


async def test_a_node_learns_which_version_all_members_read(tmp_path: Path) -> None:
    versions: list[int] = []
    heard = trio.Event()

    def all_read(version: int) -> None:
        versions.append(version)
        if version == 2:
            heard.set()

    with Store.open(tmp_path) as store:
        replica = Replica(store)
        membership = membership_of(replica)
        membership._node = cast(Any, SimpleNamespace(all_read=all_read))
        read = [Report(f"n{reads}", "r", 5, Place(1, 5), reads=reads) for reads in (9, 7)]
        made = Members({}).heard(read[0], 0).heard(read[1], 0)
        replica.apply(steps_of([Changes(puts=[(*MEMBERS_ROW, made.pack())])]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(membership._note_version)
            await trio.testing.wait_all_tasks_blocked()
            # A leader knows a report before it is in its directory.
            membership._trimming = trimming = Trimming("n9", made, SETTINGS.copies, 0)
            trimming.heard(Report("n2", "r", 5, Place(1, 5), reads=2), 0)
            with trio.fail_after(2):
                await heard.wait()
            nursery.cancel_scope.cancel()
    assert versions == [7, 2]
