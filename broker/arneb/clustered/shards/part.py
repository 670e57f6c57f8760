"""A part: one shard on this node, its directory, and the shard's own broker while this node leads
it.

The rule: parts know nothing of each other, except that the first one has the users. A part's broker
gets only what belongs to its shard: the directory, the entry points, and the share.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio

from arneb.clustered.shards.leading import Leading, MemberNode
from arneb.clustered.share.copied_tenants import CopiedTenants
from arneb.clustered.share.copied_users import CopiedUsers
from arneb.clustered.share.followed_users import FollowedUsers
from arneb.clustered.share.share import Share, placements_of
from arneb.http.routing.caught_up import UsersUnknown
from arneb.listening.listeners import Listeners
from arneb.logs.log_lines import Say
from arneb.logs.shard_label import labelled_shard
from arneb.runtime.ending import StartAgain, end_if_broken
from arneb.servers.handed_over import HandedOver
from arneb.servers.run import serve_all
from arneb.settings.config import Config
from arneb.store.opening import taking_over
from arneb_amqp.server.admission.occupancy import Occupancy
from arneb_amqp.server.admitted import Admitting
from arneb_cluster.copies.source import CopySource
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.successor import NoSuccessor, successor_of
from arneb_cluster.protocol.values import Place
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_cluster.replica import Replica
from arneb_cluster.routing.leaders import Leaders
from arneb_cluster.settings import ShardSettings
from arneb_cluster.shard import Shard
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.process.supervision import supervise
from arneb_core.engine.engine import Engine
from arneb_pulsar.client import Client

RESIGN_S: Final = 3.0
"""How long a stop, within its own time limit, waits for a leader to hand over: goodbyes, pending
writes and one record. Without a hand-over, the next leader waits until this one has been silent for
long enough."""


class Part:
    """One shard on this node while it runs."""

    def __init__(
        self,
        config: Config,
        settings: ShardSettings,
        client: Client,
        replica: Replica,
        leaders: Leaders,
        listeners: Listeners,
        node: MemberNode,
        say: Say,
        figures: Callable[[], str],
        membership: Callable[[], dict[str, Any]],
        collecting: trio.Lock,
        occupancy: list[Occupancy],
        first: "Part | None" = None,
        vhosts: tuple[str, ...] = (),
    ) -> None:
        """``config`` has the settings of this shard's broker, which opens no sockets; ``listeners``
        are the node's. ``first`` is the first shard's part, None for that part itself. ``vhosts``
        are those that the settings put in this shard."""
        name = settings.shard
        self.name = name
        self.replica = replica
        self.is_first = first is None
        self.users = FollowedUsers(replica)
        """The users in this shard's directory."""
        self.copied = None if first is None else CopiedUsers(first)
        self._tenants = None if first is None else CopiedTenants(first)
        share = Share(leaders.division, name, vhosts, self.copied, self._tenants)
        self.handed = HandedOver(
            settings.node, placements_of(leaders, name), Admitting(), figures, membership, share,
            collecting=collecting, occupancy=occupancy,
            label=name if leaders.division.is_divided else "",
        )  # fmt: skip
        self.shard = Shard(
            client, settings, replica, self._lead, placed=partial(leaders.say, name),
            applied=self._applied, opens=taking_over(config),
        )  # fmt: skip
        self.source = CopySource(
            name, replica, lambda: self.shard.state is not State.STOPPED,
            config.cluster.copy_bytes_per_s,
        )  # fmt: skip
        self._config = config
        self._listeners = listeners
        self._node = node
        self._say = say
        self._topic = LogTopic(client, settings.topic)
        self._more = trio.Event()
        """Set when the directory has more than before."""
        self.left = trio.Event()
        """Set when a broker of this part has ended; the waiting task then replaces the event."""

    def __repr__(self) -> str:
        return f"<Part {self.shard!r}>"

    async def run(self) -> None:
        """Take part until cancelled. Raises :class:`.StartAgain` when a copy is needed."""
        with labelled_shard(self.handed.label):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.shard.run)
                nursery.start_soon(self._start_again_for_a_copy)
                nursery.start_soon(self.source.run)

    async def follow_users(self) -> None:
        """Follow the users in the directory, until cancelled."""
        with labelled_shard(self.handed.label):
            await supervise(f"the users of {self.name}", self.users.run)

    async def resign(self) -> None:
        """Hand the leadership over, as far as time allows: to the most up-to-date node, or to the
        next that becomes active."""
        shard, own = self.shard, self.shard.settings.node
        number, members = shard.replica.applied.link.number, shard.membership.members
        try:
            successor = successor_of(members, own, "", number, wall_clock_ms())
        except NoSuccessor:
            successor = ""
        await shard.resign("its node stops", RESIGN_S, successor)

    # For the parts of other shards, as the first shard

    async def ends(self) -> Place:
        """Return where its topic ends now."""
        return await self._topic.hold()

    async def has(self, place: Place) -> None:
        """Wait until the directory has everything up to a place. Raises :class:`.UsersUnknown`."""
        shard = self.shard
        while shard.node.reader.place < place:
            if shard.state is State.STOPPED:
                raise UsersUnknown(f"shard {self.name} stopped here: {shard.node.leadership.why}")
            await shard.changed()
        applied = trio.Event()

        def done(_: object) -> None:
            applied.set()

        shard.tidy_up(done)  # runs after everything read so far is applied
        await applied.wait()

    async def metadata_other_than(self, changes: int) -> None:
        """Wait until :attr:`.Replica.metadata_changes` differs from ``changes``."""
        while self.replica.metadata_changes == changes:
            await self._more.wait()

    def _applied(self) -> None:
        self.users.applied()
        self._more.set()
        self._more = trio.Event()

    # Leading

    async def _lead(self, core: Engine) -> None:
        """Serve clients with an engine until cancelled."""
        leading = Leading(self._node, self.shard, is_first=self.is_first)
        node, name = self.shard.settings.node, self.name
        self._say(f"{node} leads {name} in epoch {self.shard.node.reader.epoch}")
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(end_if_broken, core, self._say)
                await serve_all(
                    core, self._config, self._listeners, self._say_of_it, leading, self.handed
                )
        finally:
            self.handed.pulsar = None
            if self.copied is not None:
                self.copied.end()
            if self._tenants is not None:
                self._tenants.end()
            leading.end()
            self._say(f"{node} no longer serves {name}")
            self.left.set()

    def _say_of_it(self, line: str) -> None:
        """Print a line of this part's broker."""
        label = self.handed.label
        self._say(f"{label}: {line}" if label else line)

    async def _start_again_for_a_copy(self) -> None:
        """Wait until the directory needs a copy, then have the node start again: a start takes the
        copy before anything is served."""
        await self.shard.lacks()
        raise StartAgain(f"{self.name}: {self.shard.node.leadership.why}")
