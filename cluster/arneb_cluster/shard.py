"""A shard on this node: runs the protocol's machine on Pulsar, a directory and an engine.

The rule: the machine's effects are carried out in order; only writes to the topic wait for nothing
else. An engine exists from the time when this node's own TAKE counts until leadership ends, and the
directory has nothing without a receipt.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from uuid import uuid4

import trio

from arneb_cluster.applying import Applying, Own, TidyUp
from arneb_cluster.commit_log import Applied, PulsarLog, at_once
from arneb_cluster.following import Following
from arneb_cluster.membership import Membership
from arneb_cluster.observing import ShardStatistics, statistics_of, who_leads
from arneb_cluster.ordered import Ordered
from arneb_cluster.protocol.leadership import Act, State
from arneb_cluster.protocol.node import Effect, Node
from arneb_cluster.protocol.values import Place
from arneb_cluster.protocol.window import ReadBack, Reattach, Send, SendError
from arneb_cluster.pulsar.election import Election
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_cluster.pulsar.producer import FencingProducer
from arneb_cluster.replica import Replica
from arneb_cluster.serving import OpenEngine, Placed, Serve, do_nothing, ignore_placement
from arneb_cluster.serving_lease import ServingLease
from arneb_cluster.settings import ShardSettings, boot_s
from arneb_cluster.warming import Warming
from arneb_core.api.errors import EngineFenced
from arneb_core.api.nodes.placement import NOBODY, Placement
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.engine.engine import open_engine
from arneb_core.store.commit.commit_log import CommitLog
from arneb_core.store.commit.local import CommittingStore, InLoop
from arneb_core.store.format.changes import Changes
from arneb_pulsar.client import Client
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.names import parse_topic

TICK_S: Final = 0.1
"""The resolution of silence and leases; serving checks by itself."""

logger = logging.getLogger(__name__)


class Shard:
    """Follows, leads and follows again until it is cancelled."""

    def __init__(
        self,
        client: Client,
        settings: ShardSettings,
        replica: Replica,
        serve: Serve,
        *,
        placed: Placed = ignore_placement,
        applied: Callable[[], None] = do_nothing,
        opens: OpenEngine = open_engine,
        now: Callable[[], float] = boot_s,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.replica = replica
        self.settings = settings
        self._client = client
        self._serve = serve
        self._opens = opens
        self._now = now
        self._now_ms = now_ms
        self.node = Node(
            settings.shard, settings.node, replica.applied, now(), dict(settings.addresses)
        )
        self._producer: FencingProducer | None = None
        self._log: PulsarLog | None = None
        self._leading, self._led = trio.CancelScope(), trio.Event()
        """Set once the engine is closed, if there was one."""
        self._led.set()
        self._applying = Applying(replica, self._apply_failed)
        self._ordered = Ordered(self._applying, self._act, self._has_more)
        self._warming = Warming(replica, lambda: self.state is State.FOLLOWING)
        self._topic = LogTopic(client, settings.topic)
        self._following = Following(
            self._topic,
            self.node,
            now,
            now_ms,
            self._gather,
            self._ordered.has_room,
            self._ordered.room,
        )
        self.membership = Membership(
            client, settings, self._topic, replica, self.node, self, now_ms
        )  # fmt: skip
        self._election = Election(
            client, settings.election_topic, settings.node, self.node.active, settings.priority,
            self._warming.warm,
        )  # fmt: skip
        self._changed = trio.Event()
        """Set whenever anything has changed."""
        self._placed = placed
        self._applied = applied
        self.placement: Placement = NOBODY
        """The leader, as far as this node knows."""
        self._lets_in = False
        self._lease = ServingLease(self.serves)
        """The lease of the last leadership."""
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<Shard {self.settings.shard}, {self.node!r}>"

    @property
    def state(self) -> State:
        """This node's state."""
        return self.node.state

    def serves(self) -> bool:
        """Whether it may deliver and answer at this instant."""
        return self.node.serves(self._now())

    def statistics(self) -> ShardStatistics:
        """Return this node's statistics at this instant."""
        unapplied = self._ordered.unapplied_bytes
        return statistics_of(
            self.node, self.settings, self.replica.applied, self.membership, self._now(),
            self._now_ms(), unapplied,
        )  # fmt: skip

    def let_in(self) -> None:
        """Admit clients from now on: called by the server of the engine once it is ready."""
        self._lets_in = True
        self._gather()

    async def flush(self) -> bool:
        """Write everything that this process's readers see to disk; return whether that
        succeeded."""
        return await self._applying.flush()

    async def lacks(self) -> None:
        """Wait until the topic no longer has what the directory lacks, if that ever happens."""
        while not self.node.lacks:
            await self._changed.wait()

    async def run(self) -> None:
        """Take part until cancelled."""
        await self._topic.hold()
        try:
            async with trio.open_nursery() as self._nursery:
                for each in (
                    self._election, self._following, self.membership, self._warming, self._applying,
                ):  # fmt: skip
                    self._nursery.start_soon(each.run)
                for task in (self._ordered.run, self._tick, self._lose_with_run):
                    self._nursery.start_soon(task)
        finally:
            self._nursery = None
            self._changed.set()

    async def changed(self) -> None:
        """Wait until anything changes."""
        await self._changed.wait()

    async def resign(self, why: str, within_s: float = math.inf, successor: str = "") -> None:
        """Let another node lead, ``successor`` if given, and wait until this node has stopped
        serving. What is not stored ``within_s`` is abandoned."""
        self.node.resign(why, successor)
        self._gather()
        with trio.move_on_after(within_s):
            await self._until_not(State.RESIGNING, State.CLOSING)
        if self.state is State.RESIGNING:
            self.gave_up(f"its log does not answer: {why}")
        await self._until_not(State.CLOSING)

    async def _until_not(self, *states: State) -> None:
        """Wait until the state is none of these, or an error has ended the shard."""
        while self.state in states and self._nursery is not None:
            await self._changed.wait()

    async def _lose_with_run(self) -> None:
        """End waiting commits together with this task: closing an engine waits for them, and
        nothing else ends them any more."""
        try:
            await trio.sleep_forever()
        finally:
            if self._log is not None:
                self._log.lose("this node stops")

    # Calls of a leader's commit log

    def commit(self, body: bytes, changes: Changes, ended: Applied) -> bool:
        """See :class:`.Leading`."""
        taken = self.node.commit(body, self._now_ms(), Own(changes, ended), self._now())
        self._gather()
        return taken

    def tidy_up(self, ended: Applied) -> None:
        """See :class:`.Leading`."""
        self._ordered.add(TidyUp(ended))
        self._ordered.start_next()

    # Calls of the producer

    def attached(self) -> None:
        """See :class:`.Owner`."""
        self.node.attached(self._now())
        self._gather()

    def detached(self) -> None:
        """See :class:`.Owner`."""
        self.node.detached()
        self._gather()

    def receipt(self, sequence: int, place: Place) -> None:
        """See :class:`.Owner`."""
        self.node.receipt(sequence, place, self._now())
        self._gather()

    def refused(self, sequence: int, error: SendError, why: str) -> None:
        """See :class:`.Owner`."""
        self.node.refused(sequence, error, why, self._now())
        self._gather()

    def gave_up(self, why: str) -> None:
        """See :class:`.Owner`."""
        self.node.gave_up(why, self._now())
        self._gather()

    # Effects

    def _gather(self) -> None:
        """Take the machine's effects; what goes to the topic goes at once."""
        self._changed.set()
        self._changed = trio.Event()
        self._lease.look()
        placement = who_leads(self.node, self.settings.node, self._now(), lets_in=self._lets_in)
        if placement != self.placement:
            self.placement = placement
            self._placed(placement)
        effects, self.node.effects = self.node.effects, list[Effect]()
        for effect in effects:
            if isinstance(effect, Send):
                if self._producer is not None:
                    self._producer.send(effect.sequence, effect.data)
            elif isinstance(effect, Reattach):
                if self._producer is not None:
                    self._producer.come_back()
            elif isinstance(effect, ReadBack):
                self._start(self._following.read_back, effect.after)
            else:
                self._ordered.add(effect)
        # After everything that goes to the topic: the notification of a commit may lead to the next
        # write.
        self._ordered.start_next()

    def _start(self, task: Callable[..., Awaitable[None]], *args: object) -> None:
        assert self._nursery is not None, "it runs"
        self._nursery.start_soon(task, *args)

    def _has_more(self) -> None:
        self._applied()
        self._changed.set()
        self._changed = trio.Event()

    def _apply_failed(self, why: str) -> None:
        logger.error("%s: %s", self.settings.shard, why)
        if self._log is not None:
            self._log.lose(why)
        self.node.apply_failed(why, self._now())
        self._gather()

    async def _act(self, act: Act) -> None:
        logger.info("%s: %s in epoch %s", self.settings.shard, act.name, self.node.reader.epoch)
        tasks: dict[Act, Callable[[], Awaitable[None]]] = {
            Act.PROBE: self._following.probe,
            Act.LOOK: partial(self._following.look, self._election.is_leader_gone),
            Act.SUSPECT: self._election.suspect,
            Act.FENCE: self._fence,
            Act.RESIGN: self._resign,
        }
        if act in tasks:
            self._start(tasks[act])
        elif act is Act.UNFENCE:
            self._drop_producer()
        elif act is Act.OPEN:
            self._leading, self._led = trio.CancelScope(), trio.Event()
            self._lease = ServingLease(self.serves)
            self._start(self._lead, self._leading, self._led)
            self._election.leads(True)
        elif act is Act.CLOSE:
            await self._close()

    async def _close(self) -> None:
        why = self.node.leadership.why
        self._lease.end()
        if self._log is not None:
            self._log.lose(why)
        self._leading.cancel()
        await self._led.wait()
        self._election.leads(False)
        self._log = None
        self._drop_producer()
        logger.warning("%s: %s leads no more: %s", self.settings.shard, self.settings.node, why)
        self.node.closed(self.replica.applied, self._now())
        self._following.begin()
        self._gather()

    async def _resign(self) -> None:
        """Close the engine first: what it writes when closing precedes the resignation."""
        self._leading.cancel()
        await self._led.wait()
        self.node.write_resignation(self._now_ms(), self._now())
        self._gather()

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    # Leading

    async def _lead(self, scope: trio.CancelScope, led: trio.Event) -> None:
        try:
            with scope:
                self._log = PulsarLog(self, at_once)
                await self._log.forget_ahead(self.replica.store)
                async with self._opens(
                    self.replica.store.path,
                    store=self.replica.store,
                    commit_log=self._commit_log,
                    now_ms=self._stamp,
                    lease=self._lease,
                    counts=self._warming.counts,
                ) as core:
                    try:
                        self.node.opened()
                        self._gather()
                        await self._until_it_serves()
                        await self._serve(core)
                    finally:
                        self._lets_in = False
                        self._gather()
                        # What is left is stored and applied only on resignation.
                        if self.state is not State.RESIGNING and self._log is not None:
                            self._log.lose(self.node.leadership.why or "this node stops")
        except* EngineFenced:
            pass  # another node leads, or serving failed, which is reported separately
        finally:
            led.set()

    async def _until_it_serves(self) -> None:
        """Wait until every other lease has ended, and the first record has its receipt."""
        while not self.serves():
            with trio.move_on_after(self.node.leadership.others_last_s(self._now())):
                await self._changed.wait()

    def _stamp(self) -> int:
        return self.node.stamps.now(self._now_ms())

    def _commit_log(self, store: CommittingStore, in_loop: InLoop) -> CommitLog:
        self._log = PulsarLog(self, in_loop)
        return self._log

    # Pulsar

    async def _fence(self) -> None:
        producer = self._producer = FencingProducer(
            self._client.context, parse_topic(self.settings.topic), self.settings.shard, self
        )
        try:
            await producer.open()
        except PulsarError as error:
            if self._producer is producer:
                self.gave_up(str(error))
            return
        if self._producer is producer and producer.epoch is not None:
            self.node.fenced(producer.epoch, producer.entry_bytes_max, str(uuid4()), self._now())
            self._gather()

    async def _tick(self) -> None:
        while True:
            await trio.sleep(TICK_S)
            self.node.tick(self._now(), self._now_ms())
            self._gather()
