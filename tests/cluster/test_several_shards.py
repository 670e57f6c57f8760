"""Nodes that take part in two shards, with one Pulsar client each: what happens to one shard does
not affect the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from tests.cluster.test_shard import publish, stored_in, until

from arneb_cluster.handing_over import hand_over
from arneb_cluster.replica import Replica
from arneb_cluster.settings import ShardSettings
from arneb_cluster.shard import Shard
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.engine.engine import Engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_pulsar.client import Client, ClientOptions, connect
from arneb_pulsar.client.testing import FakeBroker

pytestmark = pytest.mark.real_time

NODES = ("n0", "n1", "n2")
PREFER = {"orders": ("n0", "n1", "n2"), "audit": ("n1", "n2", "n0")}


class Part:
    """One shard on one node."""

    def __init__(self, path: Path, node: str, shard: str) -> None:
        self.node, self.name = node, shard
        self.path = path / node / shard
        self.core: Engine | None = None
        self.shard: Shard | None = None
        self.epochs: list[int] = []
        """Epochs in which it led."""

    async def run(self, client: Client) -> None:
        """Take part until cancelled."""
        topic = f"persistent://public/cluster/{self.name}"
        priority = PREFER[self.name].index(self.node)
        settings = ShardSettings(self.name, self.node, topic, priority=priority)
        with Store.open(self.path, follows=True) as store:
            self.shard = Shard(client, settings, Replica(store), self._serve)
            await self.shard.run()

    async def _serve(self, core: Engine) -> None:
        assert self.shard is not None
        self.core = core
        self.epochs.append(self.shard.node.reader.epoch)
        self.shard.let_in()
        try:
            await trio.sleep_forever()
        finally:
            self.core = None

    @property
    def leads(self) -> bool:
        return self.core is not None and self.shard is not None and self.shard.serves()


class Nodes:
    """Three nodes, and the broker."""

    def __init__(self, path: Path) -> None:
        self.broker = FakeBroker(deduplication=True)
        self.parts = [Part(path, node, shard) for node in NODES for shard in PREFER]
        self.scopes = {node: trio.CancelScope() for node in NODES}

    async def run(self, node: str) -> None:
        """One node: all of its shards with one client."""
        with self.scopes[node]:
            options = ClientOptions(dial=self.broker.dial, backoff_cap_s=1.0)
            async with connect(self.broker.url, options) as client, trio.open_nursery() as nursery:
                for each in self.parts:
                    if each.node == node:
                        nursery.start_soon(each.run, client)

    async def leader(self, shard: str, other_than: Part | None = None) -> Part:
        """The node that serves it."""
        found: list[Part] = []

        def look() -> bool:
            found[:] = [
                each
                for each in self.parts
                if each.name == shard and each.leads and each is not other_than
            ]
            assert len(found) <= 1, found
            return bool(found)

        await until(look)
        return found[0]

    async def led(self, shard: str) -> Part:
        """The preferred node, once it serves the shard. While nobody has ever written to the log,
        no candidate waits, so on a busy machine another node may have led before, or lead still."""
        found, wanted = await self.leader(shard), PREFER[shard][0]
        if found.node != wanted:
            assert found.shard is not None
            members = found.shard.membership
            await until(lambda: wanted in members.members.by_node)
            await hand_over(found.shard, wanted, wall_clock_ms)
            found = await self.leader(shard, other_than=found)
        return found

    async def caught_up(self) -> None:
        """All directories of a shard have all of it."""

        def numbers(shard: str) -> set[int]:
            # Heartbeats are in flight at any time, and mean nothing.
            return {
                each.shard.replica.flushed.link.number
                for each in self.parts
                if each.name == shard and each.shard is not None
            }

        led = {shard: await self.leader(shard) for shard in PREFER}
        wanted = {shard: max(numbers(shard)) for shard in led}
        await until(lambda: all(min(numbers(shard)) >= wanted[shard] for shard in led))


@asynccontextmanager
async def nodes_of(path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(path)
    async with trio.open_nursery() as nursery:
        for each in NODES:
            nursery.start_soon(nodes.run, each)
        yield nodes
        nursery.cancel_scope.cancel()


async def test_each_shard_has_its_own_leader_and_directories(tmp_path: Path) -> None:
    async with nodes_of(tmp_path) as nodes:
        orders, audit = await nodes.led("orders"), await nodes.led("audit")
        assert (orders.node, audit.node) == ("n0", "n1")
        for led, bodies in ((orders, [b"a", b"b"]), (audit, [b"c"])):
            assert led.core is not None
            await led.core.create_topic("t", subscriptions=["amqp"])
            assert await publish(led.core, "t", bodies) == bodies
        await nodes.caught_up()
    for each in nodes.parts:
        assert stored_in(each.path) == ([b"a", b"b"] if each.name == "orders" else [b"c"])
        assert check(each.path) == []


async def test_a_shard_is_handed_over_and_the_other_notices_nothing(tmp_path: Path) -> None:
    async with nodes_of(tmp_path) as nodes:
        orders, audit = await nodes.led("orders"), await nodes.led("audit")
        assert orders.core is not None
        assert audit.core is not None
        assert orders.shard is not None
        before = [list(each.epochs) for each in (orders, audit)]
        await orders.core.create_topic("t", subscriptions=["amqp"])
        await audit.core.create_topic("t", subscriptions=["amqp"])
        members = orders.shard.membership
        await until(lambda: "n1" in members.members.by_node)
        # To the node that leads the other one: then it leads both.
        done = await hand_over(orders.shard, "n1", wall_clock_ms)
        assert done.node == "n1"
        second = await nodes.leader("orders")
        assert (second.node, second.core is not None) == ("n1", True)
        assert audit.leads
        assert await publish(audit.core, "t", [b"c"]) == [b"c"]
        assert second.core is not None
        assert await publish(second.core, "t", [b"a"]) == [b"a"]
        # Each leads as before, whatever happened beside it.
        assert [orders.epochs, audit.epochs] == before
        assert second.epochs[-1] == before[0][-1] + 1


async def test_a_lost_node_loses_only_what_it_led(tmp_path: Path) -> None:
    async with nodes_of(tmp_path) as nodes:
        orders, audit = await nodes.led("orders"), await nodes.led("audit")
        assert audit.core is not None
        before = list(audit.epochs)
        await audit.core.create_topic("t", subscriptions=["amqp"])
        nodes.scopes["n0"].cancel()
        second = await nodes.leader("orders", other_than=orders)
        assert second.node == "n1"
        assert audit.leads
        assert await publish(audit.core, "t", [b"c"]) == [b"c"]
        assert audit.epochs == before
