"""The door: what all connections of the server share."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from arneb_core.api.core import Core
from arneb_core.api.entry import Origin
from arneb_core.api.errors import NotAllowed, SubscriptionNotFound
from arneb_core.api.long_turns import LongTurns
from arneb_core.api.position import Position
from arneb_core.api.settings import EXCLUSIVE
from arneb_core.api.subscriptions import InitialPosition, Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.identity.files import read_proofs
from arneb_pulsar.names import NON_PERSISTENT, PERSISTENT, TopicName, parse_topic
from arneb_pulsar.places.rates import PublishRate
from arneb_pulsar.places.registry import Registry
from arneb_pulsar.schemas.compatibility import Strategy
from arneb_pulsar.server.compactor import COMPACTION, Compactor
from arneb_pulsar.server.deduplication import Deduplications
from arneb_pulsar.server.guard import Guard
from arneb_pulsar.server.keeper import Keeper
from arneb_pulsar.server.producers import Producers
from arneb_pulsar.server.receivers import Receiver
from arneb_pulsar.server.schemas import SchemaRegistry
from arneb_pulsar.server.throttles import Throttles
from arneb_pulsar.server.topics import Topics
from arneb_pulsar.server.watchers import Watchers
from arneb_pulsar.session.effects import AppendRun, ListTopics
from arneb_pulsar.wire.metadata import batch_size_of
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer

UNDEFINED: Final = (None, "UNDEFINED")
"""No strategy is asked for."""

DOMAINS: Final = {
    CommandGetTopicsOfNamespace.PERSISTENT: (PERSISTENT,),
    CommandGetTopicsOfNamespace.NON_PERSISTENT: (NON_PERSISTENT,),
    CommandGetTopicsOfNamespace.ALL: (PERSISTENT, NON_PERSISTENT),
}
"""What each mode of listing asks for."""


class Door:
    """The core, the settings, and who is connected."""

    def __init__(self, core: Core, config: PulsarConfig, server_version: str, token: str) -> None:
        self.core = core
        self.config = config
        self.server_version = server_version
        self.producers = Producers(core, token)
        self.service_url = config.advertised_url
        """Where clients that asked over HTTP find the door; empty = nowhere."""
        self.tls_service_url = config.advertised_tls_url
        """The same for those that come by TLS."""
        self.guard = Guard(read_proofs(config.authentication))
        self.registry = Registry(core, config.namespaces, config.policies)
        self.all_topics = Topics(core, self.registry)
        self.deduplications = Deduplications(core, self.producers, self._deduplicates)
        self.schemas = SchemaRegistry(core, self.compatibility)
        self.throttles = Throttles(self.producers, self._rate_of)
        self.registry.changed = self._policies_changed
        self.compactor = Compactor(core)
        self.watchers = Watchers(core)
        self.keeper = Keeper(self)
        self.long_turns = LongTurns()
        self.showing = trio.Lock()
        """Whoever shows a message to an administrator: one is in memory at a time."""
        self.kept = False
        """The keeper is at work."""
        self._attached: dict[tuple[str, str], Counter[Peer]] = {}
        """Connections with the number of their consumers, by topic and subscription."""

    def _deduplicates(self, topic: str) -> bool:
        """Whether what a producer sends twice is stored once there."""
        return bool(self.registry.policies(parse_topic(topic)).deduplication)

    def _rate_of(self, topic: str) -> PublishRate | None:
        """How much may come there in a second."""
        return self.registry.policies(parse_topic(topic)).publish_rate

    def _policies_changed(self) -> None:
        self.deduplications.refresh_all()
        self.throttles.refresh_all()

    def compatibility(self, topic: TopicName) -> Strategy:
        """What a new schema of a topic must be to those that are there."""
        wanted = self.registry.policies(topic).schema_compatibility
        return Strategy(self.config.schema_compatibility if wanted in UNDEFINED else wanted)

    @property
    def crowded(self) -> bool:
        """More is waiting to be stored than should be; connections must not be read."""
        return self.core.crowded or self.deduplications.crowded

    async def room(self) -> None:
        """Wait until not :attr:`crowded`."""
        await self.core.room()
        await self.deduplications.room()

    def advertised(self, url: str) -> bool:
        """The settings name this URL as the one to be told."""
        return url in (self.config.advertised_url, self.config.advertised_tls_url)

    def check(self, topic: TopicName, *, create: bool) -> None:
        """Raise unless the topic is there or may be made; see :meth:`Topics.check`."""
        self.all_topics.check(topic, create=create)

    async def topic(self, topic: TopicName, *, create: bool) -> Topic:
        """The topic, made if that is allowed, for somebody who wants to use it. Raises as
        :meth:`Topics.open`, and :class:`NotAllowed` for one that is somebody else's."""
        found = await self.all_topics.open(topic, create=create)
        _check_common(found)
        return found

    async def subscribe(
        self,
        topic: Topic,
        name: TopicName,
        subscription: str,
        *,
        forced: bool = False,
        **wanted: Any,
    ) -> Subscription:
        """The subscription, made if that is allowed: as :meth:`Topic.subscribe`, and
        :class:`SubscriptionNotFound`."""
        _check_common(topic)
        if subscription == COMPACTION:
            raise NotAllowed(f"Subscription {COMPACTION!r} is the broker's own")
        if (
            not forced
            and wanted.get("durable", True)
            and subscription not in topic.subscriptions
            and not self.registry.policies(name).auto_subscription
        ):
            raise SubscriptionNotFound("Subscription does not exist")
        if not name.is_persistent:
            # Nothing is there from before, and nothing will wait.
            wanted |= {"initial": InitialPosition.LATEST, "start": None}
        found = await topic.subscribe(subscription, **wanted)
        self.keeper.subscribed(topic)
        return found

    async def overlook_superseded(self, topic: Topic, subscription: Subscription) -> None:
        """Have a subscription without consumers read without what is superseded."""
        marks = topic.subscriptions.get(COMPACTION)
        if marks is not None and not subscription.consumers:
            await subscription.overlook(marks)

    async def last_message(self, topic: Topic, *, compacted: bool) -> tuple[Position | None, int]:
        """Where the last entry is, and how many messages it has up to its last one; -1 = it is no
        batch. ``compacted``: of those that a compaction left. Raises :class:`StoreFailed`."""
        marks = topic.subscriptions.get(COMPACTION) if compacted else None
        if marks is None:
            found = await topic.last_entry()
            return (None, -1) if found is None else (found[0], _batch_size(found[1]))
        place = marks.last_unacknowledged
        entry = None if place is None else await topic.entry_at(place)
        if place is None or entry is None:
            return None, -1
        left = marks.masks.get(place)
        return place, _batch_size(entry) if left is None else left.bit_length()

    def check_end(self, topic: Topic, subscription: Subscription) -> None:
        """Tell the consumers of a subscription if they are done with a terminated topic."""
        if topic.id in self.registry.ended and not subscription.statistics().backlog_entries:
            for peer in list(self._attached.get((topic.name, subscription.name), ())):
                peer.end_reached(subscription)

    async def terminate(self, topic: Topic) -> None:
        """Have nothing be added to the topic any more. Raises :class:`CommitFailed`."""
        await self.registry.terminate(topic)
        self.disconnect_producers(topic)
        for subscription in topic.subscriptions.values():
            self.check_end(topic, subscription)

    def disconnect_producers(self, topic: Topic) -> None:
        """Have the producers of a topic come again."""
        for claim in self.producers.of(topic):
            claim.holder.peer.publishing.expel(claim.holder.key)

    def consumer_came(self, topic: str, subscription: str, peer: "Peer") -> None:
        """A consumer of ``peer`` is attached there."""
        self._attached.setdefault((topic, subscription), Counter())[peer] += 1

    def consumer_left(self, topic: str, subscription: str, peer: "Peer") -> None:
        """A consumer of ``peer`` is attached there no more."""
        place = topic, subscription
        self._attached[place] -= Counter([peer])
        if not self._attached[place]:
            del self._attached[place]

    async def bury_dead(self, topic: str, subscription: str, asking: "Peer") -> bool:
        """End the connections with consumers there that show no sign of life; were there any?"""
        found = False
        for peer in list(self._attached.get((topic, subscription), ())):
            if peer is not asking and not await peer.is_alive():
                peer.kill()
                found = True
        return found

    def connected(self, topic: Topic) -> set["Peer"]:
        """The connections with producers or consumers on a topic."""
        producing = {claim.holder.peer for claim in self.producers.of(topic)}
        consuming = [peers for (name, _), peers in self._attached.items() if name == topic.name]
        return producing.union(*consuming)

    def receivers(self, topic: Topic) -> dict[int, tuple["Peer", Receiver]]:
        """The consumers of a topic that are connected here, by their identity in the core."""
        return {
            id(each.consumer): (peer, each)
            for peer in self.connected(topic)
            for each in peer.receivers.values()
            if each.topic is topic
        }

    def is_used(self, topic: Topic) -> bool:
        """It has producers, or consumers that expect something of its messages."""
        consumers = sum(len(each.consumers) for each in topic.subscriptions.values())
        easy = sum(
            receiver.topic is topic and receiver.takes_any
            for peer in self.connected(topic)
            for receiver in peer.receivers.values()
        )
        return bool(self.producers.of(topic)) or consumers > easy

    def disconnect(self, topic: Topic) -> None:
        """Have the producers and consumers of a topic come again."""
        for peer in self.connected(topic):
            peer.disconnect(topic)

    async def drop(
        self, name: TopicName, *, only_if: Callable[[Topic], bool] | None = None
    ) -> None:
        """Remove a topic, whoever uses it, or on a condition. Raises as :meth:`Topics.drop`."""
        topic = self.core.topic(name.core_name)
        _check_common(topic)
        if name.partition < 0:
            async with self.schemas.removal(name) as schemas:
                await self.all_topics.drop(name, schemas, only_if=only_if)
        else:
            await self.all_topics.drop(name, only_if=only_if)
        self.disconnect(topic)

    async def drop_partitioned(
        self, name: TopicName, *, only_if: Callable[[Topic], bool] | None = None
    ) -> None:
        """Remove a partitioned topic, as :meth:`drop`."""
        parts = [self.core.topic(each.core_name) for each in self.all_topics.parts(name)]
        async with self.schemas.removal(name) as schemas:
            await self.all_topics.drop_partitioned(name, schemas, only_if=only_if)
        for topic in parts:
            self.disconnect(topic)

    def forget_gone(self) -> None:
        """Let go of what is known of topics that are gone, whoever deleted them."""
        there = {topic.id for topic in self.core.topics.values()}
        self.producers.keep(there)
        self.deduplications.keep(there)
        self.throttles.keep(there)
        self.compactor.keep(there)

    def expect(self, topic: Topic, run: AppendRun) -> None:
        """Say what is special about entries that are about to be appended."""
        if run.delayed:
            self.core.expect_delays(topic)
        if any(outcome.chunks for outcome in run.outcomes):
            topic.expect_groups()

    def topics(self, wanted: ListTopics) -> Sequence[str]:
        """The names of a namespace's topics, sorted."""
        prefixes = tuple(f"{domain}://{wanted.namespace}/" for domain in DOMAINS[wanted.mode])
        return sorted(name for name in self.core.topics if name.startswith(prefixes))


def _check_common(topic: Topic) -> None:
    """Raise :class:`NotAllowed` for a topic that belongs to one connection of another protocol."""
    owner = topic.properties.get(EXCLUSIVE)
    if owner is not None:
        text = f"Topic {topic.name} belongs to one {owner.upper()} connection, which is there"
        raise NotAllowed(text)


def _batch_size(entry: bytes) -> int:
    return batch_size_of(entry) if entry[1] == Origin.PULSAR else -1
