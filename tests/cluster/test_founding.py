"""A shard whose topic is lost continues from the best directory, or from a backup."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from tests.cluster.member_kit import Cluster, OneNode, blocking, cluster_of, until
from tests.cluster.test_copies import members_of
from tests.cluster.test_member import consume, publish, refused
from tests.cluster.test_shard import publish as append
from tests.cluster.test_shard import stored_in

from arneb.cli import arneb
from arneb.clustered import member
from arneb.control.place import ControlPlace
from arneb.control.serving import serve_control
from arneb_cluster import applying as applying_module
from arneb_cluster.copies import taker as taker_module
from arneb_cluster.founding import applied_in, founded_on, re_found
from arneb_cluster.protocol.members import Copies, Members
from arneb_cluster.protocol.values import NOWHERE, Applied, Link, Place
from arneb_cluster.replica import UNFOUNDED, Replica
from arneb_core.api.errors import StoreUnusable
from arneb_core.engine.engine import open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store

pytestmark = pytest.mark.real_time

TOPIC = "persistent://public/arneb/main"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members report often."""
    monkeypatch.setattr(member, "Copies", partial(Copies, report_s=0.1))
    monkeypatch.setattr(taker_module, "RETRY_S", 0.1)


def ctl(*words: str) -> str:
    """``arneb ctl``, which must succeed."""
    result = CliRunner().invoke(arneb, ["ctl", *words])
    assert result.exit_code == 0, result.output
    return result.output


def data_of(node: OneNode) -> Path:
    return node.config().data_dir


def make_backup(node: OneNode, target: Path) -> None:
    """As a user does with a running node."""
    command = [sys.executable, "-m", "arneb", "backup", str(data_of(node)), str(target)]
    subprocess.run(command, check=True, capture_output=True)


async def on_disk(cluster: Cluster, leader: OneNode) -> None:
    """Wait until all directories have what was confirmed so far. They may be behind it by as much
    as the guide says."""
    assert leader.node is not None and leader.node.cluster is not None
    about, number = leader.node.cluster, leader.node.cluster()["number"]

    def has_it() -> bool:
        members = about()["members"]
        return len(members) == len(cluster.nodes) and all(
            member["number"] >= number for member in members
        )

    await until(has_it)


async def is_up(node: OneNode) -> None:
    await until(lambda: node.node is not None and node.node.is_ready)


def lose_topics(cluster: Cluster) -> None:
    """Delete all of the shard's topics in Pulsar."""
    cluster.service.broker.delete_all()


async def test_a_shard_continues_from_the_best_directory_when_its_topic_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        best = await cluster.leader()
        other = cluster.other(best)
        await blocking(publish, best, b"a")
        # As a follower knows them, which is from a record.
        await until(lambda: members_of(other) == {best.name, other.name})
        await other.stop()
        await blocking(publish, best, b"b", b"c")
        await best.stop()
        lose_topics(cluster)
        await refused(best, "see `arneb ctl cluster re-found`")
        numbers = [applied_in(data_of(each)).link.number for each in (best, other)]
        assert numbers[0] > numbers[1]

        output = ctl("cluster", "re-found", "--data-dir", str(data_of(best)))
        assert f"record {numbers[0]} of " in output
        assert output.endswith("Nothing was changed.\n")
        before = applied_in(data_of(best))
        with Store.open(data_of(best)) as store:
            assert Replica(store).members.by_node.keys() == {best.name, other.name}
        output = ctl("cluster", "re-found", "--data-dir", str(data_of(best)), "--yes")
        founded = applied_in(data_of(best))
        assert founded.history not in ("", before.history)
        assert founded.link == before.link
        with Store.open(data_of(best)) as store:
            assert Replica(store).members == Members({})

        cluster.nursery.start_soon(best.run)
        await cluster.leader()
        await blocking(publish, best, b"d")
        await refused(other, "the topic has another history than the directory: move the directory")
        shutil.move(data_of(other), tmp_path / "away")
        cluster.nursery.start_soon(other.run)
        await is_up(other)
        assert any("has a copy" in line for line in other.printed)
        assert await blocking(consume, other, 4) == [b"a", b"b", b"c", b"d"]
    for each in cluster.nodes:
        assert check(data_of(each)) == []


async def test_a_shard_of_which_only_a_backup_is_left_continues_from_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drill of the guide."""
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        follower = cluster.other(leader)
        await blocking(publish, leader, b"a", b"b")
        backup = tmp_path / "backup"

        await blocking(publish, follower, b"c")
        await on_disk(cluster, leader)
        await blocking(make_backup, follower, backup)
        assert applied_in(backup).link.number > 0
        for each in cluster.nodes:
            await each.stop()
            shutil.rmtree(data_of(each))
        lose_topics(cluster)

        shutil.move(backup, data_of(leader))
        ctl("cluster", "re-found", "--data-dir", str(data_of(leader)), "--yes")
        cluster.nursery.start_soon(leader.run)
        await cluster.leader()
        cluster.nursery.start_soon(follower.run)
        await is_up(follower)
        await blocking(publish, follower, b"d")
        assert await blocking(consume, leader, 4) == [b"a", b"b", b"c", b"d"]
    for each in cluster.nodes:
        assert check(data_of(each)) == []


async def test_a_node_whose_directory_is_restored_from_a_backup_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        follower = cluster.other(leader)
        await blocking(publish, leader, b"a")
        backup = tmp_path / "backup"
        await blocking(make_backup, follower, backup)
        await blocking(publish, leader, b"b", b"c")
        await follower.stop()
        topic = cluster.service.broker.topic(TOPIC)
        topic.trim()
        shutil.rmtree(data_of(follower))
        shutil.move(backup, data_of(follower))
        cluster.nursery.start_soon(follower.run)
        await is_up(follower)
        assert await blocking(consume, follower, 3) == [b"a", b"b", b"c"]
    assert check(data_of(follower)) == []


async def test_a_backup_of_a_leader_contains_what_was_confirmed_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that may be held: the command has it written first."""
    monkeypatch.setattr(applying_module, "TAKE_OVER_S", 3_600.0)
    # The list of members is written together with all that is held.
    monkeypatch.setattr(member, "Copies", partial(Copies, report_s=3_600.0))
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        assert leader.node is not None
        place = ControlPlace.claim(data_of(leader))
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, leader.node, place)
            await blocking(publish, leader, b"a")
            await blocking(make_backup, leader, tmp_path / "first")
            await blocking(publish, leader, b"b", b"c")
            await blocking(make_backup, leader, tmp_path / "second")
            nursery.cancel_scope.cancel()
        place.leave()
    counts = [sum(await stored_in_backup(tmp_path / each)) for each in ("first", "second")]
    assert counts == [1, 3]


async def stored_in_backup(path: Path) -> list[int]:
    """How many messages each topic of a backup has."""
    async with open_engine(path) as core:
        return [each.messages for each in core.topics.values()]


async def test_the_directory_of_a_broker_without_a_cluster_begins_a_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, start=False) as cluster:
        first, second = cluster.nodes
        async with open_engine(data_of(first)) as core:
            await core.create_topic("alone", subscriptions=["audit"])
            assert await append(core, "alone", [b"a"]) == [b"a"]
        ctl("cluster", "re-found", "--data-dir", str(data_of(first)), "--yes")
        assert applied_in(data_of(first)).link.number == 1
        cluster.nursery.start_soon(first.run)
        await cluster.leader()
        await blocking(publish, first, b"b")
        cluster.nursery.start_soon(second.run)
        await is_up(second)
        assert any("has a copy" in line for line in second.printed)
    for each in cluster.nodes:
        assert check(data_of(each)) == []
        assert stored_in(data_of(each)) == [b"a"]


def test_an_empty_directory_cannot_begin_a_shard(tmp_path: Path) -> None:
    with Store.open(tmp_path / "empty"), pytest.raises(StoreUnusable, match="in use"):
        re_found(tmp_path / "empty")
    with pytest.raises(StoreUnusable, match="holds nothing that a history could begin with"):
        re_found(tmp_path / "empty")
    with pytest.raises(StoreUnusable, match="holds no Arneb store"):
        re_found(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    result = CliRunner().invoke(
        arneb, ["ctl", "cluster", "re-found", "--data-dir", str(tmp_path / "nothing"), "--yes"]
    )
    assert result.exit_code == 2
    assert "holds no Arneb store" in result.output


def test_numbers_and_stamps_continue_and_nothing_of_the_old_topic_does() -> None:
    link = Link(807, 5)
    before = Applied("h", link, Place(3, 4), Link(805, 2), 5, Place(3, 0), 77, "n1", (("a", "b"),))
    founded = founded_on(before)
    assert founded == Applied(founded.history, link, NOWHERE, link, stamp_ms=77)
    assert founded_on(UNFOUNDED).link.number == 1
