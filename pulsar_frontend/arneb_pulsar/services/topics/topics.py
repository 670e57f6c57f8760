"""Topics: found, created and removed by Pulsar's rules.

The rule: a partition is a topic like any other, and its partitioned topic exists only as a record;
the policies that hold for a topic decide whether it may be created, and how.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import NotAllowed, TopicExists, TopicNotFound
from arneb_core.api.process.waiting import together
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import DOMAINS, TopicName, is_system_name, parse_topic
from arneb_pulsar.namespaces.policies import retention_of
from arneb_pulsar.services.namespaces.registry import NamespaceRegistry, Partitioned
from arneb_pulsar.transactions.states import COORDINATOR, COORDINATORS

MADE_BY: Final = "made-by"
PULSAR: Final = "pulsar"
"""The property of topics created by Pulsar's rules; only those follow them."""

COORDINATOR_PART: Final = parse_topic(COORDINATORS).part(COORDINATOR)

UNDIVIDED: Final = ("-DLQ", "-RETRY")
"""Ends of the names that clients give to topics for dead letters and retries. Pulsar creates these
without partitions, whatever the rule says, and so do we."""

NO_NAMESPACE: Final = "Namespace {} not found"


class Topics:
    """The topics of the Pulsar frontend."""

    def __init__(self, core: Core, registry: NamespaceRegistry) -> None:
        self._core = core
        self._registry = registry
        self._leaving: set[TopicName] = set()
        """Partitioned topics being removed: none of their partitions may be created again."""

        self._coming: Counter[str] = Counter()
        """How many topics are being created, by namespace."""

    def __repr__(self) -> str:
        return f"<Topics: {len(self._core.topics)}, {len(self._leaving)} being removed>"

    def named(self, namespace: str, domains: Iterable[str] = DOMAINS) -> list[str]:
        """Return the names of a namespace's topics, sorted."""
        prefixes = tuple(f"{domain}://{namespace}/" for domain in domains)
        return sorted(name for name in self._core.topics if name.startswith(prefixes))

    def listed(self, namespace: str, domains: Iterable[str] = DOMAINS) -> list[str]:
        """As :meth:`named`, without Pulsar's system topics."""
        return [name for name in self.named(namespace, domains) if not is_system_name(name)]

    def exists(self, topic: TopicName) -> bool:
        """Return whether there is such a topic, plain or partitioned."""
        return topic.core_name in self._core.topics or bool(self._registry.partitions(topic))

    def check(self, topic: TopicName, *, create: bool) -> None:
        """Raise :class:`TopicNotFound` or :class:`NotAllowed` unless the topic exists or may be
        created by being used."""
        if self.exists(topic) or topic == COORDINATOR_PART:
            return
        if not self._registry.has_namespace(topic.namespace):
            raise TopicNotFound(NO_NAMESPACE.format(topic.namespace))
        if not create or topic.base in self._leaving:
            raise TopicNotFound(f"Topic {topic} not found")
        partitions = self._registry.partitions(topic.base)
        if topic.base is topic or not partitions:
            rule = self._registry.policies(topic).auto_topic
            if rule is not None and not rule.allowed and not topic.is_system:
                raise TopicNotFound(f"Topic {topic} does not exist")
        elif topic.partition >= partitions:
            text = f"Illegal topic partition name {topic} with max allowed {partitions} partitions"
            raise TopicNotFound(text)

    async def open(self, topic: TopicName, *, create: bool) -> Topic:
        """Return the topic, created if that is allowed. Raises as :meth:`check`, and
        :class:`CommitFailed` if it cannot be made durable."""
        self.check(topic, create=create)
        if topic.base == COORDINATOR_PART.base:
            raise NotAllowed(f"Topic {topic} only says who coordinates transactions")
        if topic.is_internal:
            raise NotAllowed(f"Can not create transaction system topic {topic}")
        if topic.core_name not in self._core.topics and self._registry.partitions(topic):
            raise NotAllowed(f"Topic {topic} is partitioned: its partitions are used")
        return await self.make(topic)

    def check_room(self, namespace: str, more: int) -> None:
        """Raise :class:`NotAllowed` if ``more`` topics are too many for the namespace."""
        most = self._registry.broker_and_namespace(namespace).max_topics
        if most and len(self.listed(namespace)) + self._coming[namespace] + more > most:
            raise NotAllowed("Exceed maximum number of topics in namespace.")

    async def make(self, topic: TopicName) -> Topic:
        """Return the topic, created if it does not exist, by no rule but their number. Raises
        :class:`NotAllowed`."""
        name = topic.core_name
        if name not in self._core.topics:
            self.check_room(topic.namespace, 1)
            ms, size = retention_of(self._registry.policies(topic))
            settings = TopicSettings(
                durable=topic.is_persistent,
                retention_ms=ms,
                retention_bytes=size,
                properties={MADE_BY: PULSAR},
            )
            try:
                self._coming[topic.namespace] += 1
                return await self._core.create_topic(name, settings)
            except TopicExists:
                pass  # it was created while we waited
            finally:
                self._coming[topic.namespace] -= 1
        return self._core.topic(name)

    def partitions_to_make(self, topic: TopicName) -> int:
        """Return with how many partitions asking for the topic creates it; 0 = it does not."""
        if self.exists(topic) or topic.partition >= 0 or topic.local.endswith(UNDIVIDED):
            return 0
        rule = self._registry.policies(topic).auto_topic
        return 0 if rule is None or not rule.allowed else rule.partitions

    async def partitions(self, topic: TopicName, *, create: bool) -> int:
        """Return how many partitions the topic has (0 = it is not partitioned); it is created if
        that is allowed. Raises as :meth:`check`."""
        self.check(topic, create=create)
        if create and (wanted := self.partitions_to_make(topic)):
            self.check_room(topic.namespace, wanted)
            with suppress(TopicExists):  # another client asked at the same time
                await self._registry.put_partitioned(topic, Partitioned(wanted))
        return self._registry.partitions(topic)

    async def make_partitioned(self, topic: TopicName, made: Partitioned) -> None:
        """Create a partitioned topic with all its partitions. Raises :class:`TopicExists`."""
        if self.exists(topic):
            raise TopicExists("This topic already exists")
        self.check_room(topic.namespace, made.partitions)
        await self._registry.put_partitioned(topic, made)
        await self.make_missing(topic)

    async def make_missing(self, topic: TopicName) -> None:
        """Create the partitions that do not exist yet."""
        parts = range(self._registry.partitions(topic))
        await together([partial(self.make, topic.part(index)) for index in parts])

    async def add_partitions(self, topic: TopicName, partitions: int) -> None:
        """Add partitions, with every durable subscription of the first one. Raises
        :class:`TopicNotFound` and :class:`NotAllowed`."""
        present = self._registry.partitioned(topic)
        if present is None:
            raise TopicNotFound(f"Topic {topic} is not a partitioned topic")
        if partitions < present.partitions:
            text = f"Desired partitions {partitions} can't be less than the current partitions"
            raise NotAllowed(f"{text} {present.partitions}.")
        if partitions > present.partitions:
            self.check_room(topic.namespace, partitions - present.partitions)
            grown = Partitioned(partitions, present.properties)
            await self._registry.put_partitioned(topic, grown, present)
        await self.make_missing(topic)
        first = self._core.topics.get(topic.part(0).core_name)
        subscriptions = [] if first is None else list(first.subscriptions.values())
        made = [
            self._core.topic(topic.part(index).core_name)
            for index in range(present.partitions, partitions)
        ]
        await together(
            [
                partial(part.subscribe, each.name, properties=each.properties)
                for part in made
                for each in subscriptions
                if each.statistics().durable
            ]
        )

    async def drop(
        self,
        topic: TopicName,
        kept: Sequence[tuple[str, bytes | None]] = (),
        *,
        only_if: Callable[[Topic], bool] | None = None,
    ) -> None:
        """Remove a plain topic or one partition, and in the same commit the metadata ``kept`` of
        it. Raises :class:`TopicNotFound`, and :class:`TopicBusy` if ``only_if`` is false."""
        name = topic.core_name
        async with self._registry.removal(name) as record:
            unit = Unit(metadata=[*record, *kept])
            await self._core.delete_topic(name, unit=unit, only_if=only_if)

    async def drop_partitioned(
        self,
        topic: TopicName,
        kept: Sequence[tuple[str, bytes | None]] = (),
        *,
        only_if: Callable[[Topic], bool] | None = None,
    ) -> None:
        """Remove a partitioned topic with its partitions. Raises as :meth:`drop`; partitions
        removed before that stay removed."""
        if not self._registry.partitions(topic):
            raise TopicNotFound(f"Partitioned Topic not found: {topic}")
        self._leaving.add(topic)
        try:
            parts = self.parts(topic)
            if only_if is None:
                await together([partial(self.drop, each) for each in parts])
            else:
                for each in parts:  # the first that must stay ends it
                    await self.drop(each, only_if=only_if)
            await self._registry.drop_partitioned(topic, kept)
        finally:
            self._leaving.discard(topic)

    def parts(self, topic: TopicName) -> list[TopicName]:
        """Return the existing partitions of a partitioned topic; of a plain one, itself."""
        count = self._registry.partitions(topic)
        each = [topic.part(index) for index in range(count)] if count else [topic]
        return [one for one in each if one.core_name in self._core.topics]
