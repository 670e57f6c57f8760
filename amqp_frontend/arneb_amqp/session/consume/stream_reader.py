"""A stream reading: what one consumer of a stream is to see, and as what.

The rule: pure. The core delivers a stream's messages in order, each once; here those are chosen
that the consumer asked for and get the header with their offset. Messages that were not asked
for are answered on the consumer's behalf.

Source: RabbitMQ's documentation of streams, offset tracking and filtering (3.13).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.properties import decode_properties
from arneb_amqp.wire.stamp import OffsetStamp
from arneb_amqp.wire.tables import lookup_text
from arneb_core.api.entry import HEADER_BYTES, read_header

FILTER_VALUE: Final = "x-stream-filter-value"
"""The header by which a publisher says what its message is for."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a consumer of a stream asked for. ``queue``: as in error texts. ``offset_min``: from
    which message on. ``values``: None = whatever filter value a message has; else one of these,
    or none at all if ``match_unfiltered``."""

    queue: str
    offset_min: int = 0
    values: frozenset[str] | None = None
    match_unfiltered: bool = False


class StreamReader:
    """Chooses and stamps the messages for one consumer."""

    __slots__ = ("_stamp", "reading")

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._stamp = OffsetStamp()

    def __repr__(self) -> str:
        return f"<StreamReader of {self.reading.queue} from {self.reading.offset_min}>"

    def chosen(self, entries: Sequence[bytes], offsets: Sequence[int]) -> list[int] | None:
        """The indexes of the messages that the consumer sees; None = all of them."""
        reading = self.reading
        if offsets[0] >= reading.offset_min and reading.values is None:
            return None
        return [
            index
            for index, (entry, offset) in enumerate(zip(entries, offsets, strict=True))
            if offset >= reading.offset_min and self._matches(entry)
        ]

    def stamp(self, entries: Sequence[bytes], offsets: Sequence[int]) -> list[bytes]:
        """The messages as they are sent."""
        return self._stamp.stamp(entries, offsets)

    def _matches(self, entry: bytes) -> bool:
        if self.reading.values is None:
            return True
        start = HEADER_BYTES + read_header(entry).hint
        headers = decode_properties(properties_of(entry, start)).headers or {}
        value = lookup_text(headers, FILTER_VALUE)
        if value is None:
            return self.reading.match_unfiltered
        return value in self.reading.values
