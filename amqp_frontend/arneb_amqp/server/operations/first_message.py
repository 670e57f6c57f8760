"""The first message of a queue, read without taking it.

The rule: it is read from the log like any other, so callers ask about one queue, not all.
"""

from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.properties import decode_properties
from arneb_amqp.wire.route import content_start
from arneb_core.api.entries.entry import Origin


async def first_timestamp(queue: Queue) -> int | None:
    """Return the property ``timestamp``, in seconds, of the first unacknowledged message, ready or
    in flight; None if it has none or the queue is empty. Messages of other clients than AMQP's have
    none, nor have a stream's. Raises :class:`.StoreFailed`."""
    if queue.type is QueueType.STREAM or not queue.is_complete:
        return None
    waiting = queue.subscription.unacknowledged(1)
    entry = await queue.topic.entry_at(waiting[0]) if waiting else None
    if entry is None or entry[1] != Origin.AMQP:
        return None
    start = content_start(entry)
    return decode_properties(properties_of(entry, start)).timestamp
