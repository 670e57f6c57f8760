"""Topic names: ``persistent://tenant/namespace/local``.

Short names are completed as every Pulsar client does it: ``orders`` is
``persistent://public/default/orders``, ``t/n/orders`` is ``persistent://t/n/orders``. A
partition of a partitioned topic is a topic of its own whose name ends in ``-partition-N``.
"""

import re
from dataclasses import dataclass
from typing import Final

PERSISTENT: Final = "persistent"
NON_PERSISTENT: Final = "non-persistent"
DEFAULT_NAMESPACE: Final = "public/default"

DOMAINS: Final = (PERSISTENT, NON_PERSISTENT)

NAME_BYTES_MAX: Final = 1024
"""The most bytes of a complete topic name, or of a subscription's. Pulsar has no bound. The longest
name of an AMQP queue, percent-encoded, needs about 800."""

ENTITY: Final = re.compile(r"[-=:.\w]+")
"""Pulsar's rule for the names of tenants and namespaces."""

AMQP_SUBSCRIPTION: Final = "amqp"
"""The subscription of an AMQP queue. Pulsar consumers may join it; only AMQP removes it."""

COMPACTION: Final = "__compaction"
"""The subscription whose acknowledged entries are the superseded ones; Pulsar's own name."""

RESERVED_SUBSCRIPTIONS: Final = frozenset({AMQP_SUBSCRIPTION, COMPACTION})
"""Subscriptions that Pulsar's policies and clients may neither remove nor move."""

SYSTEM_TOPICS: Final = frozenset(
    {
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_segments",
        "__transaction_buffer_snapshot_indexes",
    }
)
"""Topics in which Apache Pulsar stores a namespace's internal state. Here they are topics like
others if a client makes them, and listings omit them unless they are requested."""

SYSTEM_NAMESPACE: Final = "pulsar/system"
"""A namespace that always exists: clients look for the transaction coordinator in it."""

INTERNAL_TOPICS: Final = (
    "persistent://pulsar/system/transaction_coordinator_assign",
    "persistent://pulsar/system/__transaction_log_",
)
PENDING_ACKS: Final = "__transaction_pending_ack"
"""The beginnings and the end of names that no client may use: Pulsar's transactions use them."""

PARTITION: Final = re.compile(r".+-partition-(0|[1-9][0-9]{0,8})", re.DOTALL)
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class InvalidTopicName(ValueError):
    """A name that no topic can have; the text says why."""


class ClusterTopicName(InvalidTopicName):
    """``persistent://tenant/cluster/namespace/local``, a form of Pulsar 1."""


@dataclass(frozen=True, slots=True)
class TopicName:
    """A complete, valid topic name."""

    domain: str
    namespace: str
    """``tenant/namespace``."""
    local: str

    def __str__(self) -> str:
        return f"{self.domain}://{self.namespace}/{self.local}"

    @property
    def core_name(self) -> str:
        """The name under which the core keeps the topic; AMQP queues have the same form."""
        return str(self)

    @property
    def is_persistent(self) -> bool:
        return self.domain == PERSISTENT

    @property
    def partition(self) -> int:
        """The index at the end of a partition's name; -1 if the topic is not a partition."""
        found = PARTITION.fullmatch(self.local)
        return int(found[1]) if found else -1

    @property
    def base(self) -> "TopicName":
        """The partitioned topic of a partition; the topic itself if it is not a partition."""
        found = PARTITION.fullmatch(self.local)
        if found is None:
            return self
        return TopicName(self.domain, self.namespace, self.local[: -len(f"-partition-{found[1]}")])

    @property
    def is_internal(self) -> bool:
        """Whether it belongs to transactions, so that no client may use it."""
        name = str(self.base)
        return name.startswith(INTERNAL_TOPICS) or name.endswith(PENDING_ACKS)

    @property
    def is_system(self) -> bool:
        """Whether Pulsar makes it for itself."""
        return self.base.local in SYSTEM_TOPICS or self.is_internal

    def part(self, index: int) -> "TopicName":
        """Return the partition with that index."""
        return TopicName(self.domain, self.namespace, f"{self.local}-partition-{index}")


def parse_topic(name: str) -> TopicName:
    """Return the topic that ``name`` means. Raises :class:`InvalidTopicName`."""
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise InvalidTopicName(f"expected a topic name of at most {NAME_BYTES_MAX} bytes")
    domain, separator, rest = name.partition("://")
    if not separator:
        domain, rest = PERSISTENT, name
        if "/" not in name:
            rest = f"{DEFAULT_NAMESPACE}/{name}"
    if domain not in (PERSISTENT, NON_PERSISTENT):
        raise InvalidTopicName(f"expected persistent:// or non-persistent://, got {name!r}")
    parts = rest.split("/")
    if len(parts) > 3:
        raise ClusterTopicName(f"expected tenant/namespace/topic without a cluster, got {rest!r}")
    if len(parts) != 3:
        raise InvalidTopicName(f"expected tenant/namespace/topic, got {rest!r}")
    tenant, namespace, local = parts
    if not local.strip() or CONTROL.search(local):
        raise InvalidTopicName(f"expected a topic's own name, got {local!r}")
    return TopicName(domain, parse_namespace(f"{tenant}/{namespace}"), local)


def topic_name_of(name: str) -> TopicName | None:
    """Return the topic that ``name`` means; None for a name that is invalid in Pulsar."""
    try:
        return parse_topic(name)
    except InvalidTopicName:
        return None


def is_system_name(name: str) -> bool:
    """Whether a name is of a topic that Pulsar makes for itself. A cheap check rules out nearly all
    names."""
    if "__" not in name:
        return name.startswith(INTERNAL_TOPICS)
    found = topic_name_of(name)
    return found is not None and found.is_system


def parse_namespace(name: str) -> str:
    """Return ``tenant/namespace`` after a check. Raises :class:`InvalidTopicName`."""
    parts = name.split("/")
    if len(parts) != 2 or not all(ENTITY.fullmatch(part) for part in parts):
        raise InvalidTopicName(f"expected tenant/namespace, got {name!r}")
    return name
