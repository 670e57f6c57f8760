"""A contender: a node of a shard with its fencing producer, but without a directory or an engine.

The rule: the protocol's machine, its producer and the reader of the topic are the real ones, and
are used as a shard uses them. Only one thing is the test's: the node tries to lead when it is told
to, as if the leader had resigned.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from arneb_cluster.following import Following
from arneb_cluster.protocol.leadership import Act, State
from arneb_cluster.protocol.node import Apply, Node
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied, Link, Place
from arneb_cluster.protocol.window import ReadBack, Reattach, Send, SendError
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_cluster.pulsar.producer import FencingProducer
from arneb_cluster.settings import boot_s
from arneb_core.api.process.clock import wall_clock_ms
from arneb_pulsar.client import Client
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.names import parse_topic

TICK_S: Final = 0.1
ENTRY_BYTES_MAX: Final = 4_096
"""As if the broker had announced it: commits of a few kilobytes are sent in parts."""

SHARD: Final = "races"

logger = logging.getLogger(__name__)


class Contender:
    """One node of one topic."""

    def __init__(self, client: Client, topic: str, name: str, nursery: trio.Nursery) -> None:
        self.name = name
        self.applied = Applied("", FOUNDATION, NOWHERE, FOUNDATION)
        self._told_at: dict[Place, float] = {}
        self.receipts: list[tuple[int, Place]] = []
        """Epoch and place, as reported by brokers."""
        self.confirmed: list[Link] = []
        """The commits whose callers were told of them."""
        self.waits_s: list[float] = []
        """For each of these, the time from its receipt until it was read."""
        self.reattached = 0
        self.read_back = 0
        self.changed = trio.Event()
        self.node = Node(SHARD, name, self.applied, boot_s())
        self._client = client
        self._topic = topic
        self._nursery = nursery
        self._producer: FencingProducer | None = None
        self._following = Following(
            LogTopic(client, topic), self.node, boot_s, wall_clock_ms, self._gather, lambda: True,
            _room,
        )  # fmt: skip
        nursery.start_soon(self._following.run)
        nursery.start_soon(self._tick)

    def __repr__(self) -> str:
        return f"<Contender {self.name}, {self.node!r}>"

    @property
    def leads(self) -> bool:
        """Whether it may have records stored."""
        return self.node.state is State.LEADING

    @property
    def epoch(self) -> int:
        """Its own epoch, while it leads or tries to."""
        epoch = None if self._producer is None else self._producer.epoch
        return -1 if epoch is None else epoch

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for it."""
        while not holds():
            await self.changed.wait()

    def try_now(self) -> bool:
        """Fence the current leader; return whether it tries."""
        if self.node.state is not State.FOLLOWING:
            return False
        self.node.active(True)
        self.node.leadership.silence.came(boot_s(), resigned=True)
        self.node.tick(boot_s(), wall_clock_ms())
        self.node.active(False)
        self._gather()
        return self.node.state is State.FENCING

    def cut(self) -> None:
        """End its producer's connection; the producer reconnects with its epoch."""
        if self._producer is not None:
            self._producer.come_back()

    def commit(self, body: bytes) -> bool:
        """Have a commit stored; False means that it no longer leads."""
        taken = self.node.commit(body, wall_clock_ms(), _do_nothing, boot_s())
        self._gather()
        return taken

    # What a producer reports

    def attached(self) -> None:
        """See :class:`.Owner`."""
        self.node.attached(boot_s())
        self._gather()

    def detached(self) -> None:
        """See :class:`.Owner`."""
        self.node.detached()
        self._gather()

    def receipt(self, sequence: int, place: Place) -> None:
        """See :class:`.Owner`."""
        if sequence and place != NOWHERE:
            self.receipts.append((self.epoch, place))
            self._told_at[place] = boot_s()
        self.node.receipt(sequence, place, boot_s())
        self._gather()

    def refused(self, sequence: int, error: SendError, why: str) -> None:
        """See :class:`.Owner`."""
        self.node.refused(sequence, error, why, boot_s())
        self._gather()

    def gave_up(self, why: str) -> None:
        """See :class:`.Owner`."""
        self.node.gave_up(why, boot_s())
        self._gather()

    # Effects

    def _gather(self) -> None:
        effects, self.node.effects = self.node.effects, []
        for effect in effects:
            if isinstance(effect, Send):
                if self._producer is not None:
                    self._producer.send(effect.sequence, effect.data)
            elif isinstance(effect, Reattach):
                self.reattached += 1
                self.cut()
            elif isinstance(effect, ReadBack):
                self.read_back += 1
                self._start(self._following.read_back, effect.after)
            elif isinstance(effect, Apply):
                self.applied = effect.commit.applied
                if effect.ended is not None:
                    self.confirmed.append(self.applied.link)
                    if (told_at := self._told_at.pop(self.applied.place, None)) is not None:
                        self.waits_s.append(boot_s() - told_at)
            else:
                self._act(effect)
        self.changed.set()
        self.changed = trio.Event()

    def _act(self, act: Act) -> None:
        if act is Act.PROBE:
            self.node.probed(self.node.reader.place, boot_s())
        elif act is Act.FENCE:
            self._start(self._fence)
        elif act is Act.UNFENCE:
            self._drop()
        elif act is Act.OPEN:
            self.node.opened()
        elif act is Act.CLOSE:
            logger.info("%s leads no more: %s", self.name, self.node.leadership.why)
            self._drop()
            self.node.closed(self.applied, boot_s())
            self._following.begin()
        if act in (Act.PROBE, Act.OPEN):
            self._gather()

    def _start(self, task: Callable[..., Awaitable[None]], *args: object) -> None:
        self._nursery.start_soon(task, *args)

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    async def _fence(self) -> None:
        producer = FencingProducer(self._client.context, parse_topic(self._topic), SHARD, self)
        self._producer = producer
        try:
            await producer.open()
        except PulsarError as error:
            if self._producer is producer:
                self.gave_up(str(error))
            return
        if self._producer is producer and producer.epoch is not None:
            nonce = f"{self.name}/{producer.epoch}"
            self.node.fenced(producer.epoch, ENTRY_BYTES_MAX, nonce, boot_s())
            self._gather()

    async def _tick(self) -> None:
        while True:
            await trio.sleep(TICK_S)
            self.node.tick(boot_s(), wall_clock_ms())
            self._gather()


def _do_nothing() -> None:
    """The caller of a commit: notes when it is confirmed."""


async def _room() -> None:
    """There is always room: nothing is kept."""
