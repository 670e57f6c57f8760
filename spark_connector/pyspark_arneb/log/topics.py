"""Topic names as a user of the connector may write them, and which topics a read selects.

The rule: a log is stored under its full name, ``persistent://tenant/namespace/topic``; the
short form means a topic of ``public/default``, where AMQP's vhost ``/`` keeps its queues.
Partition *n* of a partitioned topic is a log of its own, named ``…-partition-n``.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

SCHEME: Final = "persistent://"
DEFAULT_NAMESPACE: Final = "public/default"
NO_PARTITION: Final = -1
"""Pulsar's partition index of a topic that has no partitions."""

_PARTITION = re.compile(r"^(?P<base>.+)-partition-(?P<index>\d{1,9})$")

_UNFIT = re.compile(r"[\x00-\x20?#\\\x7f]")
"""What a queue's name may hold and a topic's may not, and what is percent-encoded there. The
slash and the percent sign are too, but in a short name they may mean themselves."""


def full_name(name: str) -> str:
    """The name under which the log is stored.

    Raises :class:`ValueError` on a name that is neither ``topic``,
    ``tenant/namespace/topic`` nor the full form.
    """
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
    """``orders`` for a topic of ``public/default``; other names lose the scheme only."""
    return full.removeprefix(SCHEME).removeprefix(DEFAULT_NAMESPACE + "/")


def partition_index(full: str) -> int:
    """The index that ends the name of a partition, else :data:`NO_PARTITION`."""
    found = _PARTITION.match(full)
    return int(found["index"]) if found else NO_PARTITION


def without_partition(full: str) -> str:
    """The partitioned topic to which the log belongs; the same name if to none."""
    found = _PARTITION.match(full)
    return found["base"] if found else full


def _encode(unfit: re.Match[str]) -> str:
    return f"%{ord(unfit[0]):02X}"


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics a read asks for: full names, or a pattern, never both."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def choose(self, present: Collection[str]) -> tuple[list[str], list[str]]:
        """The selected logs among ``present`` in name order, and the names that match none.

        The name of a partitioned topic selects its partitions. A pattern that matches
        nothing is an empty table, as with Kafka, so it is never among the missing.
        """
        if self.pattern is not None:
            return sorted(name for name in present if self._matches(name)), []
        chosen: set[str] = set()
        missing: list[str] = []
        for name in self.names:
            found = {name} & set(present) or set(_partitions(name, present))
            chosen |= found
            if not found:
                missing.append(name)
        return sorted(chosen), missing

    def _matches(self, full: str) -> bool:
        assert self.pattern is not None, "only called for a pattern"
        spellings = (full, full.removeprefix(SCHEME), short_name(full))
        return any(re.fullmatch(self.pattern, spelling) for spelling in spellings)


def _partitions(name: str, present: Iterable[str]) -> Iterable[str]:
    return (log for log in present if log != name and without_partition(log) == name)
