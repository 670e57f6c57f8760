"""Streams: queues that keep messages after delivery; each consumer reads from any point.

The rule: each consumer of a stream has a subscription of its own, not stored on disk, so its
acknowledgements affect nobody else: they only make room in its prefetch window. Messages go by the
retention of the topic.
"""

from collections.abc import Callable
from dataclasses import replace

from arneb_amqp.routing.stream_filter import StreamFilter
from arneb_amqp.topology.queues.consumer_arguments import (
    Start,
    StartsAt,
    filter_of,
    matches_unfiltered,
)
from arneb_amqp.wire.tables import Table
from arneb_core.api.entries.entry import Origin, messages_in
from arneb_core.api.entries.position import LedgerId, Position, before, entry_of, ledger_of
from arneb_core.api.subscriptions.consumer import Sink
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.topic import Topic

_ORIGIN_AT = 1


async def subscribe(
    topic: Topic, starts_at: StartsAt, new_name: Callable[[], str]
) -> tuple[Subscription, int]:
    """Return a subscription for one consumer of the stream, and the offset of its first message.

    Raises :class:`~arneb_core.api.errors.StoreFailed`, :class:`~arneb_core.api.errors.TopicFenced`.
    """
    position = await _first_position(topic, starts_at)
    subscription = await topic.subscribe(
        f"amqp.stream-{new_name()}", durable=False, initial=InitialPosition.LATEST, start=position
    )
    first = Position(subscription.mark_delete + 1)
    return subscription, await topic.offset_of(first)


def stream_filter_of(arguments: Table, queue: str, starts_at: StartsAt) -> StreamFilter:
    """Return the filter of a consumer of ``queue`` with these arguments."""
    exact = starts_at.number if starts_at.start is Start.OFFSET else 0
    return StreamFilter(queue, exact, filter_of(arguments, queue), matches_unfiltered(arguments))


class StreamSink:
    """The sink of a stream's consumer, which numbers its messages; see
    :class:`arneb_core.api.subscriptions.consumer.Sink`.

    Invariant: the message at ``_next``, if there is one, has the offset ``_offset``.
    """

    __slots__ = ("_next", "_offset", "_sink", "_topic")

    def __init__(self, sink: Sink, topic: Topic, first: Position, offset: int) -> None:
        self._sink = sink
        self._topic = topic
        self._next = first
        self._offset = offset

    def __repr__(self) -> str:
        return f"<StreamSink at offset {self._offset} before {self._sink!r}>"

    def deliver(self, run: Deliveries) -> None:
        """Pass the run on with the offset of each entry's first message."""
        self._sink.deliver(replace(run, offsets=self._number(run)))

    def active_changed(self, active: bool) -> None:
        self._sink.active_changed(active)

    def closed_by_core(self, reason: str) -> None:
        self._sink.closed_by_core(reason)

    def _number(self, run: Deliveries) -> list[int]:
        offsets: list[int] = []
        for position, entry in zip(run.positions, run.entries, strict=True):
            if position == self._next:
                offset = self._offset
            elif position == before(self._next):
                # More of the batch delivered last.
                offset = self._offset - messages_in(entry)
            else:
                offset = self._jump(position)
            offsets.append(offset)
            self._next = Position(position + 1)
            self._offset = offset + (1 if entry[_ORIGIN_AT] == Origin.AMQP else messages_in(entry))
        return offsets

    def _jump(self, position: Position) -> int:
        """Return the offset of an unexpected ``position``: it begins another ledger, because older
        ones are full or gone."""
        base = self._topic.first_offset(LedgerId(ledger_of(position)))
        return self._offset if base is None else base + entry_of(position)


async def _first_position(topic: Topic, starts_at: StartsAt) -> Position | None:
    """Return the first entry to deliver; None = the next to come."""
    match starts_at.start:
        case Start.FIRST:
            return topic.first
        case Start.LAST:
            return topic.last
        case Start.OFFSET:
            return await topic.find_offset(starts_at.number)
        case Start.TIME:
            return await topic.first_published(starts_at.number)
    return None
