"""The registry: which tenants, namespaces and partitioned topics there are, and their policies.

The rule: it changes only through a commit, and memory follows the disk. Namespaces that are
configured, or that have topics, exist without a record; one that was created or given policies has
a record.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import trio

from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import CommitFailed, NotAllowed, TopicExists
from arneb_core.api.process.name_locks import NameLocks
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import NON_PERSISTENT, PERSISTENT, SYSTEM_NAMESPACE, TopicName
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import PARTITIONS_MAX
from arneb_pulsar.transactions.states import COORDINATORS

CLUSTERS: Final = "pulsar/cluster/"
TENANTS: Final = "pulsar/tenant/"
NAMESPACES: Final = "pulsar/namespace/"
PARTITIONED: Final = "pulsar/partitioned/"
TOPICS: Final = "pulsar/policies/"

NO_POLICIES: Final = Policies()


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """What is kept of one topic besides its log."""

    policies: Policies = NO_POLICIES
    terminated: int = 0
    """The id of the terminated topic, since a topic of the same name made later is not terminated;
    0 = none."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A partitioned topic."""

    partitions: int
    properties: Mapping[str, str] = field(default_factory=dict)


PLAIN: Final = TopicRecord()
ONE_PART: Final = Partitioned(1)


class NamespaceRegistry:
    """The tenants, namespaces and partitioned topics of one data directory."""

    def __init__(self, core: Core, configured: Iterable[str], defaults: Policies) -> None:
        self._core = core
        self.defaults = defaults
        """The policies that hold where none are set."""
        self._configured = frozenset({*configured, SYSTEM_NAMESPACE})
        self._locks = NameLocks()
        """By metadata key."""
        self._listeners: list[Callable[[], None]] = []
        read = {
            prefix: {
                key[len(prefix) :]: json.loads(raw) for key, raw in core.metadata(prefix).items()
            }
            for prefix in (CLUSTERS, TENANTS, NAMESPACES, PARTITIONED, TOPICS)
        }
        self._clusters: dict[str, Any] = read[CLUSTERS]
        self._tenants: dict[str, Any] = read[TENANTS]
        self._namespaces = {name: Policies.parse(each) for name, each in read[NAMESPACES].items()}
        self._partitioned = {
            name: Partitioned(each["partitions"], each.get("properties", {}))
            for name, each in read[PARTITIONED].items()
        }
        self._joined: dict[str, tuple[Policies, Policies]] = {}
        """Cache: the namespaces' own policies, and those that hold for them as a result."""
        self._topics: dict[str, TopicRecord] = {
            name: _read_topic(each) for name, each in read[TOPICS].items()
        }

        self.ended = {each.terminated for each in self._topics.values() if each.terminated}
        """The ids of terminated topics."""

    def __repr__(self) -> str:
        partitioned = f"{len(self._partitioned)} partitioned topics"
        return f"<NamespaceRegistry {len(self._namespaces)} namespaces, {partitioned}>"

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever policies of a namespace or a topic may have changed."""
        self._listeners.append(listener)

    def _tell_changed(self) -> None:
        for listener in self._listeners:
            listener()

    def change_defaults(self, defaults: Policies) -> None:
        """Apply these from now on where no policies are set."""
        self.defaults = defaults
        self._joined.clear()
        self._tell_changed()

    # Clusters, tenants and namespaces

    @property
    def clusters(self) -> Mapping[str, Mapping[str, Any]]:
        """The documents of clusters, by their names."""
        return self._clusters

    async def put_cluster(self, name: str, document: Mapping[str, Any] | None) -> None:
        """Store the document of a cluster; None removes it."""
        async with self._locks.holding(CLUSTERS + name):
            await self._put(CLUSTERS + name, document)
            if document is None:
                self._clusters.pop(name, None)
            else:
                self._clusters[name] = dict(document)

    @property
    def tenants(self) -> list[str]:
        """Return all tenants, sorted."""
        of_namespaces = {name.partition("/")[0] for name in self._all_namespaces()}
        return sorted(of_namespaces | self._tenants.keys())

    def tenant(self, name: str) -> Mapping[str, Any]:
        """Return the document of a tenant."""
        found: dict[str, Any] = self._tenants.get(name, {})
        return found

    def has_tenant(self, name: str) -> bool:
        """Return whether it was created or is configured. Cheap, since clients without rights may
        ask."""
        return name in self._tenants or any(
            each.partition("/")[0] == name for each in self._configured
        )

    def namespaces(self, tenant: str) -> list[str]:
        """Return the namespaces of a tenant, sorted."""
        return sorted(name for name in self._all_namespaces() if name.startswith(f"{tenant}/"))

    def has_namespace(self, namespace: str) -> bool:
        """Return whether it was created, is configured, or has a topic."""
        if namespace in self._configured or namespace in self._namespaces:
            return True
        prefixes = f"{PERSISTENT}://{namespace}/", f"{NON_PERSISTENT}://{namespace}/"
        return any(name.startswith(prefixes) for name in self._core.topics)

    def _all_namespaces(self) -> set[str]:
        # The broker's internal topics have names of other schemes, and are in no namespace.
        prefixes = f"{PERSISTENT}://", f"{NON_PERSISTENT}://"
        names = (name for name in self._core.topics if name.startswith(prefixes))
        used = {name.partition("://")[2].rpartition("/")[0] for name in names}
        return used | self._namespaces.keys() | self._configured

    async def put_tenant(self, name: str, document: Mapping[str, Any]) -> None:
        """Create a tenant, or change its document."""
        async with self._locks.holding(TENANTS + name):
            await self._put(TENANTS + name, document)
            self._tenants[name] = dict(document)

    async def drop_tenant(self, name: str) -> None:
        async with self._locks.holding(TENANTS + name):
            await self._put(TENANTS + name, None)
            self._tenants.pop(name, None)

    def namespace_policies(self, namespace: str) -> Policies:
        """Return the namespace's own policies."""
        return self._namespaces.get(namespace, NO_POLICIES)

    async def make_namespace(self, namespace: str) -> None:
        """Create a namespace, or a record of one that exists."""
        await self.change_namespace(namespace, lambda it: it)

    async def change_namespace(
        self, namespace: str, change: Callable[[Policies], Policies]
    ) -> None:
        """Change the policies of a namespace."""
        async with self._locks.holding(NAMESPACES + namespace):
            policies = change(self.namespace_policies(namespace))
            await self._put(NAMESPACES + namespace, policies.document)
            self._namespaces[namespace] = policies
        self._tell_changed()

    async def drop_namespace(self, namespace: str) -> None:
        async with self._locks.holding(NAMESPACES + namespace):
            await self._put(NAMESPACES + namespace, None)
            self._namespaces.pop(namespace, None)
            self._joined.pop(namespace, None)
        self._tell_changed()

    # Partitioned topics

    def partitioned(self, topic: TopicName) -> Partitioned | None:
        """Return the partitioned topic of that name."""
        found = self._partitioned.get(str(topic))
        return ONE_PART if found is None and str(topic) == COORDINATORS else found

    def partitions(self, topic: TopicName) -> int:
        """Return how many partitions it has; 0 = it is not partitioned."""
        found = self.partitioned(topic)
        return 0 if found is None else found.partitions

    def partitioned_in(self, domain: str, namespace: str) -> list[str]:
        """Return the names of the partitioned topics of a namespace, sorted."""
        prefix = f"{domain}://{namespace}/"
        names = {*self._partitioned, COORDINATORS}
        return sorted(name for name in names if name.startswith(prefix))

    async def put_partitioned(
        self, topic: TopicName, made: Partitioned, present: Partitioned | None = None
    ) -> None:
        """Create a partitioned topic, or give the ``present`` one more partitions. Raises
        :class:`NotAllowed`, and :class:`TopicExists` if it changed meanwhile."""
        if not 0 < made.partitions <= PARTITIONS_MAX:
            raise NotAllowed(f"Number of partitions should be 1 to {PARTITIONS_MAX}")
        async with self._locks.holding(PARTITIONED + str(topic)):
            if self._partitioned.get(str(topic)) != present:
                raise TopicExists("This topic already exists")
            await self._put(
                PARTITIONED + str(topic),
                {"partitions": made.partitions, "properties": dict(made.properties)},
            )
            self._partitioned[str(topic)] = made

    async def drop_partitioned(
        self, topic: TopicName, kept: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Remove the partitioned topic, with the metadata ``kept`` of it."""
        name = str(topic)
        async with self.removal(name) as record:
            gone = (PARTITIONED + name, None)
            await self._core.committed(Unit(metadata=[gone, *record, *kept]))
            self._partitioned.pop(name, None)

    # Topics

    def record(self, topic: str) -> TopicRecord:
        """Return the record of a topic; of a partition, its own."""
        return self._topics.get(topic, PLAIN)

    def topic_policies(self, topic: str) -> Policies:
        """Return the topic's own policies; of a partition, its own."""
        return self.record(topic).policies

    def topic_permissions(self, namespace: str) -> dict[str, dict[str, list[str]]]:
        """Return the permissions on topics of a namespace, by topic and role."""
        inside = f"://{namespace}/"
        return {
            topic: {role: list(actions) for role, actions in record.policies.permissions.items()}
            for topic, record in self._topics.items()
            if inside in topic and record.policies.permissions
        }

    async def terminate(self, topic: Topic) -> None:
        """Terminate the topic: nothing is appended from now on, not even while this becomes
        durable. Raises :class:`CommitFailed`."""
        was_ended = topic.id in self.ended
        self.ended.add(topic.id)
        try:
            await self.change_record(topic.name, lambda it: replace(it, terminated=topic.id))
        except CommitFailed:
            if not was_ended:
                self.ended.discard(topic.id)
            raise

    def policies(self, topic: TopicName) -> Policies:
        """Return the policies that hold for a topic: its own (or its partitioned topic's), then the
        namespace's, then the broker's."""
        own = self.record(str(topic.base)).policies
        above = self.broker_and_namespace(topic.namespace)
        return above if own is NO_POLICIES else own.under(above)

    def broker_and_namespace(self, namespace: str) -> Policies:
        """Return the policies that hold for a namespace: its own, then the broker's."""
        own = self.namespace_policies(namespace)
        if own is NO_POLICIES:
            return self.defaults
        found = self._joined.get(namespace)
        if found is None or found[0] is not own:
            found = self._joined[namespace] = own, _under_broker(own, self.defaults)
        return found[1]

    def properties(self, topic: TopicName) -> Mapping[str, str]:
        """Return the properties that operators gave the topic, which is not a partition."""
        found = self.partitioned(topic)
        return self.record(str(topic)).policies.properties if found is None else found.properties

    async def change_properties(
        self, topic: TopicName, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Change the properties of the topic. Raises :class:`TopicExists` if its partitions changed
        meanwhile."""
        found = self.partitioned(topic)
        if found is None:
            await self.change_record(
                str(topic),
                lambda it: replace(
                    it,
                    policies=replace(it.policies, properties=change(it.policies.properties)),
                ),
            )
        else:
            changed = replace(found, properties=change(found.properties))
            await self.put_partitioned(topic, changed, found)

    async def change_record(self, topic: str, change: Callable[[TopicRecord], TopicRecord]) -> None:
        """Change the record of a topic."""
        async with self._locks.holding(TOPICS + topic):
            await self._put_records({topic: change(self.record(topic))})
        self._tell_changed()

    async def change_topic_policies(
        self, changes: Mapping[str, Callable[[Policies], Policies]]
    ) -> None:
        """Change the policies of topics, all in one commit."""
        async with AsyncExitStack() as locks:
            for topic in sorted(changes):  # in one order, against deadlocks
                await locks.enter_async_context(self._locks.holding(TOPICS + topic))
            records = {
                topic: replace(was, policies=change(was.policies))
                for topic, change in changes.items()
                for was in [self.record(topic)]
            }
            await self._put_records(records)
        self._tell_changed()

    async def _put_records(self, records: Mapping[str, TopicRecord]) -> None:
        rows: list[tuple[str, bytes | None]] = [
            (TOPICS + topic, None if record == PLAIN else _json(_write_topic(record)))
            for topic, record in records.items()
        ]
        with trio.CancelScope(shield=True):  # what is on disk must be in memory too
            await self._core.committed(Unit(metadata=rows))
        for topic, record in records.items():
            if record == PLAIN:
                self._topics.pop(topic, None)
            else:
                self._topics[topic] = record

    @asynccontextmanager
    async def removal(self, topic: str) -> AsyncIterator[list[tuple[str, bytes | None]]]:
        """Remove a topic's record with it: the body does that durably, in the commit that removes
        the topic, so that the record of one recreated cannot go instead."""
        async with self._locks.holding(TOPICS + topic):
            with trio.CancelScope(shield=True):  # what is on disk must be in memory too
                yield [(TOPICS + topic, None)] if topic in self._topics else []
                was_kept = self._topics.pop(topic, None) is not None
        if was_kept:
            self._tell_changed()

    def sweep(self) -> None:
        """Remove the records of topics that are gone."""
        there = self._core.topics.keys() | self._partitioned.keys()
        gone = [name for name in self._topics if name not in there]
        for name in gone:
            del self._topics[name]
        if gone:
            # If it fails, the next start sweeps again.
            keys: list[tuple[str, bytes | None]] = [(TOPICS + name, None) for name in gone]
            self._core.commit(Unit(metadata=keys), lambda error: None)

    async def _put(self, key: str, document: Any) -> None:
        value = None if document is None else _json(document)
        with trio.CancelScope(shield=True):  # what is on disk must be in memory too
            await self._core.committed(Unit(metadata=[(key, value)]))


def _under_broker(own: Policies, broker: Policies) -> Policies:
    """Return what holds for a namespace, which cannot lift the broker's demands on producers."""
    found = own.under(broker)
    return replace(
        found,
        schema_validation=broker.schema_validation or found.schema_validation,
        encryption_required=broker.encryption_required or found.encryption_required,
    )


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _read_topic(document: Mapping[str, Any]) -> TopicRecord:
    policies = Policies.parse(document.get("policies", {}))
    return TopicRecord(policies, document.get("terminated", 0))


def _write_topic(record: TopicRecord) -> dict[str, Any]:
    return {"policies": record.policies.document, "terminated": record.terminated}
