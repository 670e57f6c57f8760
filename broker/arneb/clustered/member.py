"""A member: one node of a cluster, its shard, and a broker of its own for as long as it leads.

The rule: the order of a start is: Pulsar is asked whether it may be relied on, the directory is
opened and judged, every port is served, and only then the node takes part. It stops the other way
round: a leader resigns, with nobody served any more, before its ports are closed.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final, Protocol

import trio

from arneb import __version__
from arneb.clustered.figures import about, about_copy
from arneb.clustered.followed_users import FollowedUsers
from arneb.clustered.hand_overs import HandOvers
from arneb.clustered.membership import membership
from arneb.clustered.ports import INTERNAL, Ports
from arneb.clustered.pulsar_service import (
    DEMAND,
    check_directory,
    check_service,
    client_options,
    internal_settings,
)
from arneb.config import Config
from arneb.ending import StartAgain, end_if_broken
from arneb.garbage import thaw
from arneb.handed import HandedOver
from arneb.listeners import Listeners
from arneb.opening import opener
from arneb.reloading import Hook
from arneb.run import serve_all
from arneb.shared import OwnNode, Say, Shared
from arneb.store_check import check_store
from arneb_amqp.server.admitted import Admitting
from arneb_cluster.copies.need import needs_copy
from arneb_cluster.copies.source import CopySource
from arneb_cluster.copies.taker import Taker
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.members import Copies
from arneb_cluster.protocol.successor import NoSuccessor, successor_of
from arneb_cluster.protocol.values import Applied
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_cluster.replica import Replica
from arneb_cluster.routing.leaders import EVERYTHING_ELSE, Leaders
from arneb_cluster.settings import ShardSettings
from arneb_cluster.shard import Shard
from arneb_core.api.clock import wall_clock_ms
from arneb_core.api.placement import NodeAddresses
from arneb_core.api.supervision import shielded_nursery, supervise
from arneb_core.engine.engine import Engine
from arneb_pulsar.client import Client, connect
from arneb_pulsar.client.errors import PulsarError

RESIGN_S: Final = 3.0
"""How long a stop waits for a leader to hand on, within what a stop may take: goodbyes, what is to
be written, and one record. Else the next leader waits for silence."""

THAW_AFTER_S: Final = 5.0
"""Clients that have come again through this node are at the next leader by then."""

RETRY_S: Final = 1.0
"""After Pulsar could not be reached."""

LOGGER: Final = logging.getLogger(__name__)


class MemberNode(OwnNode, Protocol):
    """The node that is a member."""

    shared: Shared | None
    """What the servers have in common while it leads."""
    cluster: Callable[[], Mapping[str, Any]] | None
    """Tells how it does as a member."""
    hands_over: Callable[[str, str], Awaitable[Mapping[str, Any]]] | None
    """Has another node lead a shard."""

    def is_up(self) -> None:
        """Every port is served."""
        ...


class Leading:
    """What a leader's broker sees of its node, for one leadership."""

    def __init__(self, node: MemberNode, shard: Shard) -> None:
        self.audit = node.audit
        self._node = node
        self._shard = shard
        self._forget: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Leading at {self._shard!r}>"

    @property
    def is_ready(self) -> bool:
        """Clients may be sent here."""
        return self._node.is_ready

    def follow(self, name: str, hook: Hook, *followed: str) -> Callable[[], None]:
        """As the node does, until this leadership ends."""
        forget = self._node.follow(name, hook, *followed)
        self._forget.append(forget)
        return forget

    def serves(self, shared: Shared) -> None:
        """Every server is ready for clients that are handed over."""
        lease, alarms = shared.core.lease, shared.alarms

        def look() -> None:
            alarms.log_answers(answers=lease.holds)

        alarms.log_trim_alarm = lambda: self._shard.membership.alarm
        lease.listen(look)
        look()
        self._node.shared = shared
        self._shard.let_in()

    def end(self) -> None:
        """This leadership is over."""
        self._node.shared = None
        for forget in self._forget:
            forget()


class Member:
    """One node of a cluster while it runs."""

    def __init__(self, config: Config, listeners: Listeners, say: Say, node: MemberNode) -> None:
        """Raises :class:`StoreUnusable` for files by which nodes cannot know each other."""
        table = config.cluster
        self._config = config
        self._listeners = listeners
        self._say = say
        self._node = node
        self._internal = internal_settings(table)
        self._leaders = Leaders({EVERYTHING_ELSE: table.shard})
        self._handed = HandedOver(
            table.node, self._leaders, Admitting(), self._figures, self._membership
        )
        self._left = trio.Event()
        """A broker of this node has ended."""
        self.shard: Shard | None = None
        self.ports: Ports | None = None

    def __repr__(self) -> str:
        return f"<Member {self._config.cluster.node} of {self.shard!r}>"

    def _figures(self) -> str:
        return "" if self.ports is None else self.ports.figures()

    def _membership(self) -> dict[str, Any]:
        assert self.shard is not None, "it takes part"
        assert self.ports is not None, "they are made together"
        return membership(about(self.shard, self.ports))

    async def run(self) -> None:
        """Take part until cancelled. Raises :class:`StoreUnusable`."""
        config, table = self._config, self._config.cluster
        path = config.data_dir.absolute()
        self._say(DEMAND)
        for line in await check_service(table.pulsar):
            self._say(line)
        replica = await trio.to_thread.run_sync(Replica.open, path)
        try:
            self._say(f"arneb {__version__}, data in {path}")
            async with connect(table.pulsar.url, client_options(table.pulsar)) as client:
                topic = LogTopic(client, table.topic)
                await check_directory(topic, replica)
                settings = self._shard_settings()
                while await self._needs_copy(client, topic, settings, replica.applied):
                    replica.store.close()
                    await self._take_copy(client, settings, replica.applied)
                    replica = await trio.to_thread.run_sync(Replica.open, path)
                await self._take_part(client, replica, settings)
        finally:
            self._node.cluster = self._node.hands_over = None
            replica.store.close()

    async def _needs_copy(
        self, client: Client, topic: LogTopic, settings: ShardSettings, applied: Applied
    ) -> bool:
        while True:
            try:
                return await needs_copy(client, topic, settings, applied)
            except PulsarError as error:
                LOGGER.warning("%r: %s", topic, error)
                await trio.sleep(RETRY_S)

    async def _take_copy(self, client: Client, settings: ShardSettings, applied: Applied) -> None:
        path = self._config.data_dir.absolute()
        taker = Taker(client, self._internal, settings, path, applied, check_store)
        self._say(f"{path} lacks what {settings.topic} has no more, or is empty: takes a copy")
        self._node.cluster = lambda: about_copy(taker.statistics, settings)
        await taker.take()
        self._node.cluster = None
        self._say(f"{path} has a copy of what node {taker.statistics.source} has")

    async def stop(self) -> None:
        """Hand on what this node leads, as far as that is possible in time: to the node that has
        most, or to whoever is active next."""
        shard, own = self.shard, self._config.cluster.node
        if shard is None:
            return
        number, members = shard.replica.applied.link.number, shard.membership.members
        try:
            successor = successor_of(members, own, "", number, wall_clock_ms())
        except NoSuccessor:
            successor = ""
        await shard.resign("its node stops", RESIGN_S, successor)

    def _shard_settings(self) -> ShardSettings:
        table = self._config.cluster
        told = asdict(self._addresses())
        del told["node"]
        copies = Copies(table.copies_min, table.member_gone_after_s)
        return ShardSettings(table.shard, table.node, table.topic, told, copies, table.priority)

    async def _take_part(self, client: Client, replica: Replica, settings: ShardSettings) -> None:
        table, addresses = self._config.cluster, self._addresses()
        users = FollowedUsers(replica)
        shard = Shard(
            client, settings, replica, self._lead,
            placed=lambda placement: self._leaders.say(table.shard, placement),
            applied=users.applied, opens=opener(self._config),
        )  # fmt: skip
        source = CopySource(
            table.shard, replica, lambda: shard.state is not State.STOPPED, table.copy_bytes_per_s
        )
        hand_overs = HandOvers(self._internal, shard)
        ports = Ports(
            self._config, self._listeners, self._internal, self._leaders, self._handed, users,
            addresses, shard, source, hand_overs, lambda: self._node.is_ready,
        )  # fmt: skip
        self.shard, self.ports = shard, ports
        self._node.cluster = lambda: about(shard, ports)
        self._node.hands_over = hand_overs.hand_over
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervise, "the users of the cluster", users.run)
            self._tell_ready()
            await nursery.start(ports.serve)
            nursery.start_soon(shard.run)
            nursery.start_soon(_start_again_for_a_copy, shard)
            nursery.start_soon(source.run)
            thawing = partial(self._thaw, shard)
            nursery.start_soon(supervise, "the look for what a broker has left", thawing)
            self._node.is_up()

    async def _lead(self, core: Engine) -> None:
        """Serve clients with an engine until cancelled."""
        assert self.shard is not None, "it has an engine"
        leading = Leading(self._node, self.shard)
        table, without = self._config.cluster, self._listeners.without_sockets(INTERNAL)
        self._say(f"{table.node} leads {table.shard} in epoch {self.shard.node.reader.epoch}")
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(end_if_broken, core, self._say)
                await serve_all(core, self._config, without, self._say, leading, self._handed)
        finally:
            self._handed.pulsar = None
            leading.end()
            self._say(f"{table.node} serves {table.shard} no more")
            self._left.set()

    async def _thaw(self, shard: Shard) -> None:
        """Find what a broker has left when others need not wait for it: the whole loop does, a
        tenth of a second for a small one, and the next leader waits for a resignation."""
        while True:
            await self._left.wait()
            self._left = trio.Event()
            while shard.state in (State.RESIGNING, State.CLOSING):
                await shard.changed()
            await trio.sleep(THAW_AFTER_S)
            if self._node.shared is None:  # else the broker that is there looks for it, too
                thaw()

    def _addresses(self) -> NodeAddresses:
        config = self._config
        told, pulsar = config.cluster.told, config.pulsar
        internal = told.internal
        if not internal and self._listeners.by_name.get(INTERNAL):
            internal = str(self._listeners.addresses(INTERNAL)[0])
        return NodeAddresses(
            config.cluster.node,
            internal=internal,
            pulsar=told.pulsar or pulsar.advertised_url,
            pulsar_tls=told.pulsar_tls or pulsar.advertised_tls_url,
            http=told.http,
            http_pulsar=told.http_pulsar,
        )

    def _tell_ready(self) -> None:
        for name in self._listeners.by_name:
            for address in self._listeners.addresses(name):
                self._say(f"{name} ready on {address}")


async def _start_again_for_a_copy(shard: Shard) -> None:
    """A start asks what a directory lacks, and takes a copy before anything is served."""
    await shard.lacks()
    raise StartAgain(f"{shard.settings.shard}: {shard.node.leadership.why}")


async def serve_member(config: Config, listeners: Listeners, say: Say, node: MemberNode) -> None:
    """Be a node of a cluster until cancelled, and hand on then what it leads. Raises
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
