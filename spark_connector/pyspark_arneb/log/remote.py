"""A broker's data API as a block source: usable from anywhere.

The rule: it gives exactly what the directory would give, because the broker reads its own store for
it. A read that continues where the last one ended continues in the same response.
"""

from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent, LedgerExtent
from arneb_core.store.reading.stored_blocks import StoredBlock
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.service.block_stream import blocks_of, first_blocks
from pyspark_arneb.service.connection import Address, ask
from pyspark_arneb.service.errors import ServiceError

GLANCE_BYTES: Final = 64 * 1024
"""A read of fewer bytes is a single look, which will not continue there."""


@dataclass(frozen=True, slots=True)
class Remote:
    """The location of a log that a broker serves."""

    address: Address

    def __str__(self) -> str:
        return self.address.url

    def open(self) -> BlockSource:
        """Return the source, which connects on first use."""
        return RemoteSource(self.address)


class RemoteSource:
    """Reads through a broker; see :class:`.BlockSource`."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._goes_on: tuple[TopicId, Position, Position] | None = None
        """The topic, next position and end of the response that is being read."""
        self._coming: Iterator[tuple[Position, bytes]] = iter(())

    def __repr__(self) -> str:
        return f"<RemoteSource {self._address}>"

    def topics(self) -> Collection[str]:
        found = ask(self._address, "GET", "/topics", parameters={"internal": "true"})
        return [each["name"] for each in found["topics"] if each["durable"]]

    def extents(self, topics: Iterable[str]) -> list[Extent]:
        found = ask(self._address, "POST", "/extents", body={"topics": list(topics)})
        return [
            Extent(**{**each, "ledgers": tuple(LedgerExtent(**one) for one in each["ledgers"])})
            for each in found["extents"]
        ]

    def read(
        self, topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        if bytes_max < GLANCE_BYTES:
            found = self._there(first_blocks(self._address, topic_id, first, last, bytes_max))
            return [StoredBlock(at, value) for at, value in found]
        if self._goes_on != (topic_id, first, last):
            self._coming = self._there(blocks_of(self._address, topic_id, first, last))
        self._goes_on = None
        blocks: list[StoredBlock] = []
        size = 0
        for at, value in self._coming:
            blocks.append(StoredBlock(at, value))
            size += len(value)
            if size >= bytes_max:
                self._goes_on = topic_id, Position(at + 1), last
                break
        return blocks

    def schemas(self, topic: str) -> Mapping[int, bytes]:
        found = ask(self._address, "GET", "/schemas", parameters={"topic": topic})
        return {int(number): b64decode(row) for number, row in found["schemas"].items()}

    def _there(self, blocks: Iterable[tuple[Position, bytes]]) -> Iterator[tuple[Position, bytes]]:
        """Yield the blocks; none if the topic is gone, as in a directory."""
        try:
            yield from blocks
        except ServiceError as error:
            if error.code != "topic_replaced":
                raise
