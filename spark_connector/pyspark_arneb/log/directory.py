"""A data directory as a block source: on this machine's disk or a shared file system.

The rule: every call is a transaction of its own that ends before the call returns, so that a slow
query never keeps the broker from reusing its pages.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.store.format.schema import Table, TopicId, frontend_key
from arneb_core.store.reading.extents import Extent, find_extents, topic_names
from arneb_core.store.reading.stored_blocks import StoredBlock, read_stored_blocks
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.log.environment import environment
from pyspark_arneb.log.topics import SCHEME, without_partition

SCHEMAS: Final = "pulsar/schema/"
"""Prefix of the catalogue's keys for schemas; the topic's name and the version's number follow."""


@dataclass(frozen=True, slots=True)
class Directory:
    """The location of a data directory, by its absolute path."""

    path: str

    def __str__(self) -> str:
        return self.path

    def open(self) -> BlockSource:
        """Open the directory. Raises :class:`arneb_core.api.errors.StoreUnusable`."""
        return DirectorySource(self.path)


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """Reads a data directory; see :class:`.BlockSource`."""

    path: str

    def topics(self) -> Collection[str]:
        with environment(self.path).snapshot() as snapshot:
            return topic_names(snapshot)

    def extents(self, topics: Iterable[str]) -> list[Extent]:
        with environment(self.path).snapshot() as snapshot:
            return find_extents(snapshot, topics)

    def read(
        self, topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        with environment(self.path).snapshot() as snapshot:
            return read_stored_blocks(snapshot, topic_id, first, last, bytes_max)

    def schemas(self, topic: str) -> Mapping[int, bytes]:
        whole = without_partition(topic).removeprefix(SCHEME)
        prefix = frontend_key(f"{SCHEMAS}{whole}/")
        with environment(self.path).snapshot() as snapshot:
            rows = snapshot.scan(Table.CATALOG, prefix)
            return {int(key.removeprefix(prefix)): value for key, value in rows}
