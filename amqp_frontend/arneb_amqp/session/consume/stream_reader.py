"""A stream reader: selects and numbers the messages of one stream consumer.

The rule: pure. The core delivers a stream's messages in order, each once; the reader selects those
that the consumer asked for and adds the header with their offset. The others are answered on the
consumer's behalf.

Source: RabbitMQ's documentation of streams, offset tracking and filtering (3.13).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from arneb_amqp.errors import not_implemented
from arneb_amqp.routing.stream_filter import StreamFilter
from arneb_amqp.session.compressed_runs import Messages
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId, consumer_of
from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.properties import decode_properties
from arneb_amqp.wire.route import content_start
from arneb_amqp.wire.stamp import OffsetStamp
from arneb_amqp.wire.tables import lookup_text
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries

FILTER_VALUE: Final = "x-stream-filter-value"
"""The header in which a publisher sets a message's filter value."""


class StreamReader:
    """Selects and stamps the messages for one consumer."""

    __slots__ = ("_stamp", "filter")

    def __init__(self, filter_: StreamFilter) -> None:
        self.filter = filter_
        self._stamp = OffsetStamp()

    def __repr__(self) -> str:
        return f"<StreamReader of {self.filter.queue} from {self.filter.offset_min}>"

    def chosen(self, entries: Sequence[bytes], offsets: Sequence[int]) -> list[int] | None:
        """Return the indexes of the messages that the consumer sees; None = all of them."""
        wanted = self.filter
        if offsets[0] >= wanted.offset_min and wanted.values is None:
            return None
        return [
            index
            for index, (entry, offset) in enumerate(zip(entries, offsets, strict=True))
            if offset >= wanted.offset_min and self._matches(entry)
        ]

    def stamp(self, entries: Sequence[bytes], offsets: Sequence[int]) -> list[bytes]:
        """Return the messages as they are sent."""
        return self._stamp.stamp(entries, offsets)

    def _matches(self, entry: bytes) -> bool:
        if self.filter.values is None:
            return True
        start = content_start(entry)
        headers = decode_properties(properties_of(entry, start)).headers or {}
        value = lookup_text(headers, FILTER_VALUE)
        if value is None:
            return self.filter.match_unfiltered
        return value in self.filter.values


def check_no_stream(
    groups: Sequence[AnsweredDeliveries], streams: Mapping[ConsumerId, str]
) -> None:
    """Raises 540 if deliveries of a stream are to be returned: they can only be acknowledged.
    ``streams``: the queue of each consumer that reads one."""
    for answered in groups if streams else ():
        queue = streams.get(consumer_of(answered.consumer))
        if queue is not None:
            raise not_implemented(
                f"basic.nack and basic.reject not supported by stream queues {queue}"
            )


def of_stream(
    stream: StreamReader, owner: ConsumerId, run: Deliveries, messages: Messages
) -> tuple[list[Position], list[bytes], dict[int, int], AnsweredDeliveries | None]:
    """Return those ``messages`` of a run that the consumer wants, with their offsets, and the
    answer to the others."""
    positions, entries, parts = messages
    assert run.offsets is not None, "a stream's sink numbers what it passes on"
    first = dict(zip(run.positions, run.offsets, strict=True))
    offsets = [first[position] for position in positions]
    for index, part in parts.items():
        offsets[index] += part
    chosen = stream.chosen(entries, offsets)
    if chosen is None:
        return positions, stream.stamp(entries, offsets), parts, None
    passed = AnsweredDeliveries(owner, [])
    for index in set(range(len(positions))).difference(chosen):
        position = positions[index]
        if index in parts:
            passed.masks[position] = passed.masks.get(position, 0) | 1 << parts[index]
        else:
            passed.positions.append(position)
    wanted = stream.stamp([entries[i] for i in chosen], [offsets[i] for i in chosen])
    left = {new: parts[old] for new, old in enumerate(chosen) if old in parts}
    return [positions[i] for i in chosen], wanted, left, passed if passed.messages else None
