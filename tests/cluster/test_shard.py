"""A shard on several nodes: engines, directories, and a Pulsar broker in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.members import Copies
from arneb_cluster.replica import Replica
from arneb_cluster.settings import ShardSettings
from arneb_cluster.shard import Shard
from arneb_core.api.errors import CommitFailed
from arneb_core.engine.engine import Engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import body_of, make_entry
from arneb_pulsar.client import ClientOptions, connect
from arneb_pulsar.client.testing import FakeBroker

TOPIC = "persistent://public/cluster/orders-log"
COPIES = Copies(report_s=0.1)


pytestmark = pytest.mark.real_time


class OneNode:
    """A process: its directory outlives it."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.path = cluster.path / name
        self.core: Engine | None = None
        self.shard: Shard | None = None
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(self) -> None:
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        try:
            with self._scope, Store.open(self.path, follows=True) as store:
                options = ClientOptions(dial=self.cluster.broker.dial, backoff_cap_s=1.0)
                async with connect(self.cluster.broker.url, options) as client:
                    settings = ShardSettings("orders", self.name, TOPIC, copies=COPIES)
                    self.shard = Shard(
                        client, settings, Replica(store), self._serve, now=trio.current_time
                    )
                    await self.shard.run()
        finally:
            self.shard = None
            self._ended.set()

    async def _serve(self, core: Engine) -> None:
        self.core = core
        try:
            await trio.sleep_forever()
        finally:
            self.core = None

    async def stop(self) -> None:
        self._scope.cancel()
        await self._ended.wait()


class Cluster:
    """Some nodes and the broker."""

    def __init__(self, path: Path, nursery: trio.Nursery, count: int) -> None:
        self.path = path
        self.broker = FakeBroker(deduplication=True)
        self.nursery = nursery
        self.nodes = [OneNode(self, f"n{number}") for number in range(count)]
        for each in self.nodes:
            nursery.start_soon(each.run)

    async def leader(self) -> OneNode:
        """The node that serves."""
        found: list[OneNode] = []
        await until(lambda: bool(found) or self._look(found))
        return found[0]

    def _look(self, found: list[OneNode]) -> bool:
        found += [each for each in self.nodes if each.core and each.shard and each.shard.serves()]
        assert len(found) <= 1, found
        return bool(found)

    async def caught_up(self, leader: OneNode) -> None:
        """Every follower has all that the leader has."""
        assert leader.shard is not None
        number = leader.shard.replica.applied.link.number
        await until(
            lambda: all(
                each.shard is not None and each.shard.replica.applied.link.number >= number
                for each in self.nodes
            )
        )


async def until(holds: Callable[[], bool], within_s: float = 30) -> None:
    """Checked now and then, since threads and in-memory sockets send no notice."""
    with trio.fail_after(within_s):
        while not holds():  # noqa: ASYNC110
            await trio.sleep(0.02)


async def publish(core: Engine, name: str, bodies: list[bytes]) -> list[bytes]:
    """Publish all of them at once; return those that were confirmed."""
    confirmed: list[bytes] = []
    left = len(bodies)
    done = trio.Event()

    def ended(body: bytes, error: CommitFailed | None) -> None:
        nonlocal left
        left -= 1
        if error is None:
            confirmed.append(body)
        if not left:
            done.set()

    for body in bodies:
        core.append(
            core.topic(name), [make_entry(body)], lambda error, _, body=body: ended(body, error)
        )
    await done.wait()
    return confirmed


def stored_in(path: Path) -> list[bytes]:
    """What a directory contains of the first topic."""
    from arneb_core.api.entries.position import Position
    from arneb_core.store.format.schema import TopicId

    with Store.open(path, follows=True) as store, store.snapshot() as snapshot:
        runs = snapshot.iter_blocks(TopicId(1), Position(0), Position((1 << 64) - 1))
        return [body_of(entry) for _, run in runs for entry in run]


@asynccontextmanager
async def cluster_of(path: Path, count: int = 3) -> AsyncIterator[Cluster]:
    async with trio.open_nursery() as nursery:
        cluster = Cluster(path, nursery, count)
        yield cluster
        for each in cluster.nodes:
            await each.stop()
        nursery.cancel_scope.cancel()


async def test_confirmed_messages_are_in_every_directory(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(50)]
    async with cluster_of(tmp_path) as cluster:
        leader = await cluster.leader()
        assert leader.core is not None
        await leader.core.create_topic("orders", subscriptions=["amqp"])
        assert await publish(leader.core, "orders", bodies) == bodies
        await cluster.caught_up(leader)
    for each in cluster.nodes:
        assert stored_in(each.path) == bodies
        assert check(each.path) == []


async def test_another_node_continues_where_the_leader_was_stopped(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        first = await cluster.leader()
        assert first.core is not None
        await first.core.create_topic("orders", subscriptions=["amqp"])
        await publish(first.core, "orders", [b"a", b"b"])
        await first.stop()
        second = await cluster.leader()
        assert second is not first
        assert second.core is not None
        assert await publish(second.core, "orders", [b"c"]) == [b"c"]
        cluster.nursery.start_soon(first.run)
        await until(lambda: first.shard is not None)
        await cluster.caught_up(second)
    for each in cluster.nodes:
        assert stored_in(each.path) == [b"a", b"b", b"c"]


async def test_a_disconnected_leader_is_followed_before_the_silence_is_long(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        first = await cluster.leader()
        others = [each.shard for each in cluster.nodes if each is not first]
        assert others[0] is not None
        # It is known to be there as soon as it has said so.
        for _ in range(10):
            if not await others[0]._election.is_leader_gone():
                break
        else:
            raise AssertionError("a leader that lives is taken for gone")
        await first.stop()
        second = await cluster.leader()
        assert second.shard is not None
        assert second.shard.node.leadership.silence.gone
        leads = [each.shard for each in cluster.nodes if each.shard not in (None, second.shard)]
        assert leads[0] is not None
        assert not leads[0].node.leadership.silence.gone


async def test_waiting_for_the_first_receipt_checks_only_when_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else's lease can be running where nobody has ever led: only the receipt is left to
    wait for."""
    looks = gathers = 0
    serves, gather = Shard.serves, Shard._gather

    def counted(shard: Shard) -> bool:
        nonlocal looks
        looks += 1
        return serves(shard)

    def gathered(shard: Shard) -> None:
        nonlocal gathers
        gathers += 1
        gather(shard)

    monkeypatch.setattr(Shard, "serves", counted)
    monkeypatch.setattr(Shard, "_gather", gathered)
    async with cluster_of(tmp_path, 1) as cluster:
        await cluster.leader()
        assert looks < 3 * gathers + 10, (looks, gathers)


async def test_a_leader_that_resigns_is_followed_without_waiting_for_silence(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        first = await cluster.leader()
        assert first.core is not None
        assert first.shard is not None
        await first.core.create_topic("orders", subscriptions=["amqp"])
        await publish(first.core, "orders", [b"a"])
        await first.shard.resign("asked to")
        assert first.core is None
        assert first.shard.state is State.FOLLOWING
        second = await cluster.leader()
        assert second.core is not None
        assert await publish(second.core, "orders", [b"b"]) == [b"b"]


async def test_commits_in_flight_survive_cut_connections(tmp_path: Path) -> None:
    confirmed: list[bytes] = []
    async with cluster_of(tmp_path) as cluster:
        leader = await cluster.leader()
        assert leader.core is not None
        await leader.core.create_topic("orders", subscriptions=["amqp"])
        for turn in range(5):
            async with trio.open_nursery() as nursery:
                bodies = [b"%d.%d" % (turn, number) for number in range(20)]

                async def go_on(bodies: list[bytes] = bodies) -> None:
                    assert leader.core is not None
                    confirmed.extend(await publish(leader.core, "orders", bodies))

                nursery.start_soon(go_on)
                await trio.testing.wait_all_tasks_blocked()
                cluster.broker.cut()
        await cluster.caught_up(leader)
        assert leader.core is not None
    assert len(confirmed) == 100
    for each in cluster.nodes:
        assert stored_in(each.path) == confirmed


async def test_a_leader_whose_log_is_silent_can_still_stop(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        assert leader.core is not None
        assert leader.shard is not None
        await leader.core.create_topic("orders", subscriptions=["amqp"])
        cluster.broker.is_down = True
        cluster.broker.cut()
        leader.core.append(leader.core.topic("orders"), [make_entry(b"a")], lambda *_: None)
        with trio.fail_after(20):
            await leader.shard.resign("asked to", within_s=0.2)
        assert leader.core is None
        assert leader.shard.state is State.FOLLOWING


async def test_what_all_members_have_on_disk_is_trimmed_and_a_stopped_one_is_waited_for(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        leader = await cluster.leader()
        assert leader.core is not None
        await leader.core.create_topic("orders", subscriptions=["amqp"])
        topic = cluster.broker.topic(TOPIC)
        assert await publish(leader.core, "orders", [b"a", b"b"]) == [b"a", b"b"]

        def first_kept() -> int:
            topic.trim()  # as when a ledger is closed
            return topic.trimmed

        await until(lambda: first_kept() > 5)
        away = next(each for each in cluster.nodes if each is not leader)
        await away.stop()
        await publish(leader.core, "orders", [b"c"])
        before = first_kept()
        count_before = len(cluster.broker.topic(f"{TOPIC}-members").entries)
        await until(
            lambda: len(cluster.broker.topic(f"{TOPIC}-members").entries) > count_before + 20
        )
        assert first_kept() <= before + 2  # except for its report of itself
        held = first_kept()
        cluster.nursery.start_soon(away.run)
        await until(lambda: first_kept() > held + 5)
        await cluster.caught_up(leader)
    for each in cluster.nodes:
        assert stored_in(each.path) == [b"a", b"b", b"c"]
        assert check(each.path) == []


async def test_a_shard_with_too_few_copies_is_not_trimmed_and_says_so(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        assert leader.shard is not None
        membership = leader.shard.membership

        reason = "the log topic is not trimmed: 1 of 2 nodes (n0) have a copy"
        await until(lambda: membership.alarm == reason)
        topic = cluster.broker.topic(TOPIC)
        topic.trim()
        assert topic.trimmed == 0


async def test_a_topic_that_nobody_holds_is_deleted_with_its_ledger(tmp_path: Path) -> None:
    """This is why it is held before anything is written. The topic of reports is not held, and
    keeps nothing."""
    async with cluster_of(tmp_path, 1) as cluster:  # which never trims
        await cluster.leader()
        reports = cluster.broker.topic(f"{TOPIC}-members")
        await until(lambda: len(reports.entries) > 3)
        reports.trim()
        assert reports.trimmed == len(reports.entries)
        log = cluster.broker.topic(TOPIC)
        assert log.subscriptions["trim"].is_durable
