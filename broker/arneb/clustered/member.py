"""A member: one node of a cluster, its shards, and a broker for each of those that it leads.

The rule: a start checks Pulsar's settings, opens and checks the directories, serves every port, and
only then takes part. A stop is the reverse: a leader that no longer serves any client resigns
before its ports are closed.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import trio

from arneb import __version__
from arneb.clustered.membership import membership
from arneb.clustered.ports.ports import INTERNAL, Ports
from arneb.clustered.shards.directories import Directories
from arneb.clustered.shards.figures import DIVISION, about
from arneb.clustered.shards.hand_overs import HandOvers
from arneb.clustered.shards.leading import MemberNode
from arneb.clustered.shards.part import Part
from arneb.clustered.shards.pulsar_service import (
    DEMAND,
    check_service,
    client_options,
    internal_settings,
)
from arneb.clustered.shards.shards import check_directories, config_of, division_of, other_shards
from arneb.clustered.trusted import Trusted
from arneb.control.serving import NotPossible
from arneb.listening.listeners import Listeners
from arneb.logs.log_lines import Say
from arneb.runtime.garbage import thaw
from arneb.servers.shared import Shared
from arneb.settings.config import Config
from arneb_amqp.server.admission.occupancy import Occupancy
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.members import Copies
from arneb_cluster.routing.leaders import Leaders
from arneb_cluster.settings import ShardSettings
from arneb_core.api.nodes.placement import NodeAddresses
from arneb_core.api.process.supervision import shielded_nursery, supervise
from arneb_pulsar.client import Client, connect

THAW_AFTER_S: Final = 5.0
"""The delay of a thaw, by which time clients have reconnected to the next leader."""


class Member:
    """One node of a cluster while it runs."""

    def __init__(self, config: Config, listeners: Listeners, say: Say, node: MemberNode) -> None:
        """Raises :class:`StoreUnusable` if the nodes' secret or certificates are unusable."""
        table = config.cluster
        self._config = config
        self._listeners = listeners
        self._say = say
        self._node = node
        self._internal = internal_settings(table)
        self._others = other_shards(table)
        self._leaders = Leaders(division_of(table.shard, self._others))
        self.parts: list[Part] = []
        """The parts of all shards, the first shard's first, once the node takes part."""
        self.ports: Ports | None = None

    def __repr__(self) -> str:
        return f"<Member {self._config.cluster.node} of {self.parts!r}>"

    def _figures(self) -> str:
        return "" if self.ports is None else self.ports.figures()

    def _membership(self) -> dict[str, Any]:
        return membership(self._about())

    def _about(self) -> dict[str, Any]:
        assert self.ports is not None, "it takes part"
        return about([each.shard for each in self.parts], self.ports)

    async def run(self) -> None:
        """Take part until cancelled. Raises :class:`StoreUnusable`."""
        table = self._config.cluster
        self._say(DEMAND)
        for line in await check_service(table.pulsar):
            self._say(line)
        self._say(f"arneb {__version__}, data in {self._config.data_dir.absolute()}")
        try:
            async with (
                AsyncExitStack() as directories,
                connect(table.pulsar.url, client_options(table.pulsar)) as client,
            ):
                self.parts = await self._opened(client, directories)
                await self._take_part()
        finally:
            self._node.cluster = self._node.hands_over = self._node.trusted = None
            self._node.flushes = None
            self.parts = []

    async def _opened(self, client: Client, stack: AsyncExitStack) -> list[Part]:
        """Return every shard's part; their directories are open until ``stack`` closes."""
        config, addresses = self._config, asdict(self._addresses())
        check_directories(config.data_dir, self._others)
        del addresses["node"]
        if digest := self._leaders.division.digest:
            addresses[DIVISION] = digest  # a leader publishes the settings that it leads by
        directories = Directories(client, self._internal, self._say, self._tell_copying)
        without, collecting = self._listeners.without_sockets(INTERNAL), trio.Lock()
        wanted = [(config, ()), *((config_of(config, each), each.vhosts) for each in self._others)]
        parts: list[Part] = []
        occupancy: list[Occupancy] = []
        for each, vhosts in wanted:
            settings = _settings_of(each, addresses)
            replica = await directories.open(each.data_dir.absolute(), settings)
            stack.callback(replica.store.close)
            made = Part(
                each, settings, client, replica, self._leaders, without, self._node, self._say,
                self._figures, self._membership, collecting, occupancy,
                parts[0] if parts else None, vhosts,
            )  # fmt: skip
            parts.append(made)
        return parts

    def _tell_copying(self, tell: Any) -> None:
        self._node.cluster = tell

    async def stop(self) -> None:
        """Hand over what this node leads."""
        async with trio.open_nursery() as nursery:
            for each in self.parts:
                nursery.start_soon(each.resign)

    async def _flush(self) -> None:
        for each in self.parts:
            if not await each.shard.flush():
                raise NotPossible(f"the directory of shard '{each.name}' takes nothing more")

    async def _take_part(self) -> None:
        parts: Sequence[Part] = self.parts
        hand_overs = HandOvers(self._internal, [each.shard for each in parts])
        self.ports = Ports(
            self._config, self._listeners, self._internal, self._leaders, parts, self._addresses(),
            hand_overs, lambda: self._node.is_ready,
        )  # fmt: skip
        self._node.cluster = self._about
        self._node.hands_over = hand_overs.hand_over
        self._node.flushes = self._flush
        if self._leaders.division.is_divided:
            shards = tuple(each.name for each in parts)
            target_of = self.ports.http_apps.management_target
            self._node.trusted = Trusted(self._leaders, self._brokers, target_of, shards)
        async with trio.open_nursery() as nursery:
            for each in parts:
                nursery.start_soon(each.follow_users)
            self._tell_ready()
            await nursery.start(self.ports.serve)
            for each in parts:
                nursery.start_soon(each.run)
                thawing = partial(self._thaw, each)
                nursery.start_soon(supervise, "the look for what a broker has left", thawing)
            self._node.is_up()

    def _brokers(self) -> dict[str, Shared]:
        """This node's brokers, by shard."""
        first, node = self._config.cluster.shard, self._node
        return node.others if node.shared is None else {first: node.shared, **node.others}

    async def _thaw(self, part: Part) -> None:
        """Free the objects of a stopped broker some time after it: that blocks the loop, a tenth of
        a second for a small broker, and the next leader waits for the resignation."""
        while True:
            await part.left.wait()
            part.left = trio.Event()
            while part.shard.state in (State.RESIGNING, State.CLOSING):
                await part.shard.changed()
            await trio.sleep(THAW_AFTER_S)
            if self._node.shared is None and not self._node.others:
                thaw()  # else the running broker's schedule thaws

    def _addresses(self) -> NodeAddresses:
        config = self._config
        addresses, pulsar = config.cluster.advertised, config.pulsar
        internal = addresses.internal
        if not internal and self._listeners.by_name.get(INTERNAL):
            internal = str(self._listeners.addresses(INTERNAL)[0])
        return NodeAddresses(
            config.cluster.node,
            internal=internal,
            pulsar=addresses.pulsar or pulsar.advertised_url,
            pulsar_tls=addresses.pulsar_tls or pulsar.advertised_tls_url,
            http=addresses.http,
            http_pulsar=addresses.http_pulsar,
        )

    def _tell_ready(self) -> None:
        for name in self._listeners.by_name:
            for address in self._listeners.addresses(name):
                self._say(f"{name} ready on {address}")


def _settings_of(config: Config, addresses: dict[str, str]) -> ShardSettings:
    table = config.cluster
    copies = Copies(table.copies_min, table.member_gone_after_s)
    return ShardSettings(table.shard, table.node, table.topic, addresses, copies, table.priority)


async def serve_member(config: Config, listeners: Listeners, say: Say, node: MemberNode) -> None:
    """Run a node of a cluster until cancelled, then hand over what it leads. Raises
    :class:`StoreUnusable`."""
    member = Member(config, listeners, say, node)
    async with trio.open_nursery() as outer:
        nursery: trio.Nursery = await outer.start(shielded_nursery)
        nursery.start_soon(member.run)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await member.stop()
            nursery.cancel_scope.cancel()
