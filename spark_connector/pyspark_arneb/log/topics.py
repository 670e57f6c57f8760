"""Topic names as a user of the connector may write them, and which topics a read selects.

The rule: a log is stored under its full name, ``persistent://tenant/namespace/topic``; the short
form means a topic of ``public/default``, where AMQP's vhost ``/`` keeps its queues. Partition *n*
of a partitioned topic is a log of its own, named ``…-partition-n``. The broker's own logs are
internal: they are selected only by name or with ``internalTopics``.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from arneb_core.access.namespaces import carried_namespace

SCHEME: Final = "persistent://"
DEFAULT_NAMESPACE: Final = "public/default"
NO_PARTITION: Final = -1
"""Pulsar's partition index of a topic that has no partitions."""

_PARTITION: Final = re.compile(r"^(?P<base>.+)-partition-(?P<index>\d{1,9})$")

_UNFIT: Final = re.compile(r"[\x00-\x20?#\\\x7f]")
"""Characters that a queue's name may have and a topic's may not, so they are percent-encoded there.
The slash and the percent sign are too, but in a short name they may stand for themselves."""

INTERNAL_SCHEME: Final = "amqp-delayed://"
"""Scheme of the logs of messages that delayed-message exchanges hold back."""
INTERNAL_PREFIX: Final = "__"
"""Prefix of the local names of Pulsar's system topics."""

_ENCODED: Final = frozenset(b"/%?#\\\x7f" + bytes(range(0x21)))
"""The octets of a queue's name that are percent-encoded in the topic's."""


def queue_topic(namespace: str, queue: str) -> str:
    """Return the full name of an AMQP queue's log, whatever characters its name has; as the AMQP
    frontend names it."""
    return f"{SCHEME}{namespace}/{_encoded(queue)}"


def queues_of(vhost: str, present: Collection[str]) -> list[str]:
    """Return the AMQP names of the queues, and the names of other topics, among ``present`` in the
    vhost's namespace. Internal logs are left out."""
    begin = f"{SCHEME}{carried_namespace(vhost, present)}/"
    names = (name.removeprefix(begin) for name in present if name.startswith(begin))
    return sorted(unquote(name) for name in names if not name.startswith(INTERNAL_PREFIX))


def _encoded(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    if _ENCODED.isdisjoint(raw):
        return name
    parts = (b"%%%02X" % octet if octet in _ENCODED else bytes((octet,)) for octet in raw)
    return b"".join(parts).decode("utf-8", "surrogateescape")


def is_internal(full: str) -> bool:
    """Return whether a log is the broker's own."""
    return not full.startswith(SCHEME) or full.rpartition("/")[2].startswith(INTERNAL_PREFIX)


def full_name(name: str) -> str:
    """Return the name under which the log is stored.

    Raises :class:`ValueError` on a name that is neither ``topic``, ``tenant/namespace/topic`` nor
    the full form.
    """
    if name.startswith(INTERNAL_SCHEME):
        return name
    scheme, separator, local = name.partition("://")
    if separator and scheme != "persistent":
        raise ValueError(f"only persistent:// topics are kept in the log, got {name!r}")
    parts = (local if separator else name).split("/")
    if len(parts) == 1 and not separator:
        parts = [*DEFAULT_NAMESPACE.split("/"), _UNFIT.sub(_encode, parts[0])]
    if len(parts) != 3 or not all(parts):
        raise ValueError(
            f"expected topic, tenant/namespace/topic or {SCHEME}tenant/namespace/topic, "
            f"got {name!r}; a slash inside a queue's name is written %2F"
        )
    return SCHEME + "/".join(parts)


def short_name(full: str) -> str:
    """Return ``orders`` for a topic of ``public/default``; other names lose only the scheme."""
    return full.removeprefix(SCHEME).removeprefix(DEFAULT_NAMESPACE + "/")


def partition_index(full: str) -> int:
    """Return the index at the end of a partition's name, else :data:`NO_PARTITION`."""
    found = _PARTITION.match(full)
    return int(found["index"]) if found else NO_PARTITION


def without_partition(full: str) -> str:
    """Return the partitioned topic of a partition's log; any other name unchanged."""
    found = _PARTITION.match(full)
    return found["base"] if found else full


def _encode(unfit: re.Match[str]) -> str:
    return f"%{ord(unfit[0]):02X}"


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics a read selects: by full names, a pattern, a queue or single partitions, never
    two of these."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    internal: bool = False
    """Whether the pattern may select internal logs too."""
    queue: tuple[str, str] | None = None
    """A vhost and a queue, instead of names."""
    partitions: tuple[tuple[str, int], ...] = ()
    """Full names with a partition's number, instead of names. A topic without partitions has
    partition 0, as in Kafka."""

    def choose(self, present: Collection[str]) -> tuple[list[str], list[str]]:
        """Return the selected logs among ``present`` in name order, and the names that match none.

        The name of a partitioned topic selects its partitions. A pattern that matches nothing gives
        an empty table, as with Kafka, so it is never among the missing.
        """
        if self.pattern is not None:
            return sorted(filter(self._matches, present)), []
        if self.partitions:
            return self._numbered(present)
        chosen: set[str] = set()
        missing: list[str] = []
        for name in self._names(present):
            found = {name} & set(present) or set(partitions_of(name, present))
            chosen |= found
            if not found:
                missing.append(name)
        return sorted(chosen), missing

    def _numbered(self, present: Collection[str]) -> tuple[list[str], list[str]]:
        chosen: set[str] = set()
        missing: list[str] = []
        for name, number in self.partitions:
            partition = f"{name}-partition-{number}"
            if partition in present:
                chosen.add(partition)
            elif not number and name in present:
                chosen.add(name)
            else:
                missing.append(partition)
        return sorted(chosen), missing

    def _names(self, present: Collection[str]) -> tuple[str, ...]:
        if self.queue is None:
            return self.names
        vhost, queue = self.queue
        return (queue_topic(carried_namespace(vhost, present), queue),)

    def _matches(self, full: str) -> bool:
        assert self.pattern is not None, "only called for a pattern"
        if is_internal(full) and not self.internal:
            return False
        spellings = (full, full.removeprefix(SCHEME), short_name(full))
        return any(re.fullmatch(self.pattern, spelling) for spelling in spellings)


def partitions_of(name: str, present: Iterable[str]) -> Iterable[str]:
    """Return the logs among ``present`` that are partitions of the topic."""
    return (log for log in present if log != name and without_partition(log) == name)
