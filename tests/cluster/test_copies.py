"""Copies: a node that is new, or lacks what the topic has trimmed, takes a copy and reads on from
there."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.cluster.member_kit import Cluster, OneNode, blocking, cluster_of, until
from tests.cluster.test_member import consume, publish, status

from arneb.clustered import member
from arneb.clustered.shards import directories
from arneb_cluster.copies import source as source_module
from arneb_cluster.copies import taker as taker_module
from arneb_cluster.following import Following
from arneb_cluster.membership import Membership
from arneb_cluster.protocol import copying
from arneb_cluster.protocol.members import Copies
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import Finding, FindingKind
from arneb_core.store.directory.replacement import COPY_NAME, GIVEN_NAME
from arneb_core.store.journal.writing import JOURNAL_NAME
from arneb_pulsar.client.errors import Disconnected

pytestmark = pytest.mark.real_time

TOPIC = "persistent://public/arneb/main"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members report often, and chunks are small."""
    monkeypatch.setattr(member, "Copies", partial(Copies, report_s=0.1))
    monkeypatch.setattr(taker_module, "RETRY_S", 0.1)
    monkeypatch.setattr(taker_module, "SAVED_CHUNKS", 1)
    for each in (copying, source_module):
        monkeypatch.setattr(each, "CHUNK_BYTES", 8_192)


async def trimmed(cluster: Cluster, more_than: int = 0) -> int:
    """Wait until so much of the topic is trimmed."""
    topic = cluster.service.broker.topic(TOPIC)

    def look() -> bool:
        topic.trim()
        return topic.trimmed > more_than

    await until(look)
    return topic.trimmed


async def trimmed_after(cluster: Cluster, more: int) -> int:
    """How much is trimmed when the topic has so many more entries."""
    topic = cluster.service.broker.topic(TOPIC)
    end = len(topic.entries)
    await until(lambda: len(topic.entries) > end + more)
    topic.trim()
    return topic.trimmed


async def start_two(cluster: Cluster) -> tuple[OneNode, OneNode]:
    """Two nodes with three messages, and a topic that begins behind those."""
    for each in cluster.nodes[:2]:
        cluster.nursery.start_soon(each.run)
    leader = await cluster.leader()
    await blocking(publish, leader, b"a", b"b", b"c")
    await trimmed(cluster, 5)
    return leader, cluster.other(leader)


def held_up(monkeypatch: pytest.MonkeyPatch) -> tuple[trio.Event, Callable[[], int]]:
    """Sending a copy stops at the third chunk until the event is set."""
    going, written = trio.Event(), 0
    take = copying.Taking.written

    def count(self: copying.Taking) -> None:
        nonlocal written
        written += 1
        take(self)

    chunk = source_module.CopySource._chunk

    async def slowly(self: Any, *arguments: Any) -> bytes:
        if written >= 2:
            await going.wait()
        return await chunk(self, *arguments)

    monkeypatch.setattr(copying.Taking, "written", count)
    monkeypatch.setattr(source_module.CopySource, "_chunk", slowly)
    return going, lambda: written


def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The chunks, each with its file, that nodes request from now on."""
    asked: list[int] = []
    need = copying.Taking.need

    def ask(self: copying.Taking) -> tuple[str, int] | None:
        found = need(self)
        asked.extend([found[1]] if found is not None else [])
        return found

    monkeypatch.setattr(copying.Taking, "need", ask)
    return asked


async def test_a_new_node_takes_a_copy_from_a_follower_and_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 3, start=False) as cluster:
        leader, follower = await start_two(cluster)
        new = cluster.nodes[2]
        cluster.nursery.start_soon(new.run)
        await until(lambda: new.node is not None and new.node.is_ready)
        assert any(f"a copy of what node {follower.name} has" in line for line in new.printed)
        await blocking(publish, new, b"d")
        gone = await trimmed(cluster)
        await trimmed(cluster, gone + 5)  # the new one is a member now, and is no longer waited for
        shown = await blocking(status, leader)
        assert f"Member: {new.name}, has on disk up to record " in shown
        assert await blocking(consume, new, 4) == [b"a", b"b", b"c", b"d"]
        assert not (new.config().data_dir / COPY_NAME).exists()
        assert not list((follower.config().data_dir / GIVEN_NAME).iterdir())
    for each in cluster.nodes:
        assert check(each.config().data_dir) == []


async def test_a_dropped_node_that_lacks_what_was_trimmed_takes_a_copy_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = partial(Copies, report_s=0.1)
    monkeypatch.setattr(member, "Copies", lambda copies_min, _: made(copies_min, 1.5))
    async with cluster_of(tmp_path, monkeypatch, 3) as cluster:
        leader = await cluster.leader()
        await blocking(publish, leader, b"a")
        away = cluster.other(leader)
        await until(lambda: len(members_of(leader)) == 3)
        await away.stop()
        before = await trimmed(cluster)
        await blocking(publish, leader, b"b", b"c")
        await until(lambda: away.name not in members_of(leader))
        await trimmed(cluster, before + 10)
        cluster.nursery.start_soon(away.run)
        await until(lambda: away.node is not None and away.node.is_ready)
        assert any("takes a copy" in line for line in away.printed)
        assert await blocking(consume, away, 3) == [b"a", b"b", b"c"]
    for each in cluster.nodes:
        assert check(each.config().data_dir) == []


def members_of(node: OneNode) -> set[str]:
    """As it knows them."""
    assert node.node is not None
    about = node.node.about()["cluster"]
    return {each["node"] for each in about["members"]}


async def test_a_copy_that_was_cut_off_is_resumed_and_waited_for_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, written = held_up(monkeypatch)
    async with cluster_of(tmp_path, monkeypatch, 3, start=False) as cluster:
        leader, _ = await start_two(cluster)
        new = cluster.nodes[2]
        cluster.nursery.start_soon(new.run)
        await until(lambda: written() == 2)
        shown = await blocking(status, new)
        assert "State: copying, copies\n" in shown
        assert "Copied: 16384 of " in shown
        await new.kill()
        await blocking(publish, leader, b"d")
        before = await trimmed_after(cluster, 2)
        assert await trimmed_after(cluster, 3) == before  # as far as its copy goes
        going.set()
        asked = asked_for(monkeypatch)
        cluster.nursery.start_soon(new.run)
        await until(lambda: new.node is not None and new.node.is_ready)
        assert asked[0] == 2
        assert await blocking(consume, new, 4) == [b"a", b"b", b"c", b"d"]
    assert check(new.config().data_dir) == []


async def test_if_the_copy_is_another_one_the_taker_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, written = held_up(monkeypatch)
    async with cluster_of(tmp_path, monkeypatch, 3, start=False) as cluster:
        _, giver = await start_two(cluster)
        new = cluster.nodes[2]
        cluster.nursery.start_soon(new.run)
        await until(lambda: written() == 2)
        await new.kill()
        await giver.kill()  # and with it the copy
        cluster.nursery.start_soon(giver.run)
        await until(lambda: giver.node is not None and giver.node.is_ready)
        going.set()
        asked = asked_for(monkeypatch)
        cluster.nursery.start_soon(new.run)
        await until(lambda: new.node is not None and new.node.is_ready)
        assert asked[0] == 0
        assert await blocking(consume, new, 3) == [b"a", b"b", b"c"]
    assert check(new.config().data_dir) == []


async def test_a_chunk_that_was_damaged_in_transit_is_requested_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = 0
    make = source_module.chunk_frame

    def damage(chunk: bytes) -> bytes:
        nonlocal damaged
        made = make(chunk)
        if damaged < 2:
            damaged += 1
            return made[:-1] + bytes([made[-1] ^ 1])
        return made

    monkeypatch.setattr(source_module, "chunk_frame", damage)
    async with cluster_of(tmp_path, monkeypatch, 3, start=False) as cluster:
        await start_two(cluster)
        new = cluster.nodes[2]
        cluster.nursery.start_soon(new.run)
        await until(lambda: new.node is not None and new.node.is_ready)
        assert await blocking(consume, new, 3) == [b"a", b"b", b"c"]
    assert damaged == 2
    assert check(new.config().data_dir) == []


async def test_a_copy_that_the_check_finds_damaged_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    look = directories.check_store

    def damaged_first(path: Path) -> Iterator[Finding]:
        looked.append(path)
        if len(looked) == 1:
            yield Finding(FindingKind.PAGE, "page 7", "expected a page, got none")
        yield from look(path)

    monkeypatch.setattr(directories, "check_store", damaged_first)
    async with cluster_of(tmp_path, monkeypatch, 3, start=False) as cluster:
        await start_two(cluster)
        new = cluster.nodes[2]
        cluster.nursery.start_soon(new.run)
        await until(lambda: new.node is not None and new.node.is_ready)
        assert len(looked) == 2
        assert await blocking(consume, new, 3) == [b"a", b"b", b"c"]
    assert check(new.config().data_dir) == []


async def test_the_part_of_a_copy_that_is_no_longer_given_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, written = held_up(monkeypatch)
    async with cluster_of(tmp_path, monkeypatch, 3, start=False) as cluster:
        _, follower = await start_two(cluster)
        new = cluster.nodes[2]
        cluster.nursery.start_soon(new.run)
        await until(lambda: written() == 2)
        await new.kill()
        making = new.config().data_dir / COPY_NAME
        begun = [each for each in making.iterdir() if each.name in ("data.mdb", JOURNAL_NAME)]
        assert begun
        for each in begun:
            each.write_bytes(b"?" * each.stat().st_size)
        await follower.stop()  # its copy is deleted with it
        cluster.nursery.start_soon(follower.run)
        await until(lambda: follower.node is not None and follower.node.is_ready)
        going.set()
        cluster.nursery.start_soon(new.run)
        await until(lambda: new.node is not None and new.node.is_ready)
        assert await blocking(consume, new, 3) == [b"a", b"b", b"c"]
    assert check(new.config().data_dir) == []


async def test_when_the_source_of_a_copy_is_killed_another_gives_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, written = held_up(monkeypatch)
    async with cluster_of(tmp_path, monkeypatch, 3, start=False) as cluster:
        leader, follower = await start_two(cluster)
        new = cluster.nodes[2]
        cluster.nursery.start_soon(new.run)
        await until(lambda: written() == 2)
        await follower.kill()
        going.set()
        await until(lambda: new.node is not None and new.node.is_ready)
        assert any(f"a copy of what node {leader.name} has" in line for line in new.printed)
        assert await blocking(consume, new, 3) == [b"a", b"b", b"c"]
    assert check(new.config().data_dir) == []


async def test_a_running_node_that_lacks_something_restarts_and_takes_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = partial(Copies, report_s=0.1)
    monkeypatch.setattr(member, "Copies", lambda copies_min, _: made(copies_min, 1.5))
    cut_off: list[str] = []
    going = trio.Event()
    read_on, report = Following._read_on, Membership.report

    following: dict[str, Following] = {}

    async def read_if_it_can(self: Any) -> None:
        following[self._node.leadership.node] = self
        if self._node.leadership.node in cut_off:
            await going.wait()
        await read_on(self)

    def report_if_it_can(self: Any) -> Any:
        if self._settings.node in cut_off:
            raise Disconnected("cut off")
        return report(self)

    monkeypatch.setattr(Following, "_read_on", read_if_it_can)
    monkeypatch.setattr(Membership, "report", report_if_it_can)
    async with cluster_of(tmp_path, monkeypatch, 3) as cluster:
        leader = await cluster.leader()
        await blocking(publish, leader, b"a")
        away = cluster.other(leader)
        await until(lambda: len(members_of(leader)) == 3)
        ports = dict(away.ports)
        cut_off.append(away.name)
        assert away.node is not None
        following[away.name].begin()
        await blocking(publish, leader, b"b", b"c")
        await until(lambda: away.name not in members_of(leader))
        await trimmed(cluster, 10)
        cut_off.clear()
        going.set()
        await until(lambda: any("has a copy of what node" in line for line in away.printed))
        await until(lambda: away.node is not None and away.node.is_ready)
        assert any(
            "starting the broker again: main: expected record" in each for each in away.printed
        )
        assert away.ports == ports
        assert await blocking(consume, away, 3) == [b"a", b"b", b"c"]
    for each in cluster.nodes:
        assert check(each.config().data_dir) == []
