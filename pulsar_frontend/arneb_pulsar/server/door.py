"""The door: what all connections of the server share."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from arneb_core.errors import TopicExists, TopicNotFound
from arneb_core.interface import Core, Topic
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.names import PERSISTENT, TopicName
from arneb_pulsar.server.producers import Producers
from arneb_pulsar.session.effects import ListTopics
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer

AMQP_SUBSCRIPTION: Final = "amqp"
"""The subscription of an AMQP queue. Pulsar consumers may join it; only AMQP removes it."""


class Door:
    """The core, the settings, and who is connected."""

    def __init__(self, core: Core, config: PulsarConfig, server_version: str, token: str) -> None:
        self.core = core
        self.config = config
        self.server_version = server_version
        self.producers = Producers(core, token)
        self._attached: dict[tuple[str, str], Counter[Peer]] = {}
        """Connections with the number of their consumers, by topic and subscription."""

    def has_namespace(self, namespace: str) -> bool:
        """It is configured, or a topic stands in it."""
        if namespace in self.config.namespaces:
            return True
        prefix = f"{PERSISTENT}://{namespace}/"
        return any(name.startswith(prefix) for name in self.core.topics)

    def check(self, topic: TopicName, *, create: bool) -> None:
        """Raise :class:`TopicNotFound` unless the topic is there or may be made."""
        if topic.core_name in self.core.topics:
            return
        if not self.has_namespace(topic.namespace):
            raise TopicNotFound(f"Namespace {topic.namespace} not found")
        if not create:
            raise TopicNotFound(f"Topic {topic} not found")

    async def topic(self, topic: TopicName, *, create: bool) -> Topic:
        """The topic, made if that is allowed. Raises :class:`TopicNotFound`, and
        :class:`CommitFailed` if it cannot be made durable."""
        self.check(topic, create=create)
        name = topic.core_name
        if name not in self.core.topics:
            try:
                return await self.core.create_topic(name)
            except TopicExists:
                pass  # somebody else made it while we waited
        return self.core.topic(name)

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

    def topics(self, wanted: ListTopics) -> Sequence[str]:
        """The names of a namespace's topics, sorted."""
        if wanted.mode == CommandGetTopicsOfNamespace.NON_PERSISTENT:
            return []
        prefix = f"{PERSISTENT}://{wanted.namespace}/"
        return sorted(name for name in self.core.topics if name.startswith(prefix))
