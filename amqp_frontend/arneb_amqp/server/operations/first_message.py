"""The first message of a queue, looked at where it lies and not taken.

The rule: it is read from the log like anything else, so whoever asks for it asks of one queue and
not of all.
"""

from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.properties import decode_properties
from arneb_amqp.wire.route import content_start
from arneb_core.api.entry import Origin


async def first_timestamp(queue: Queue) -> int | None:
    """The property ``timestamp``, in seconds, of the first message that is not acknowledged, ready
    or at a consumer; None if it has none, and of an empty queue. A message that no AMQP client
    published has none, nor has what a stream keeps. Raises :class:`.StoreFailed`."""
    if queue.type is QueueType.STREAM or not queue.is_complete:
        return None
    waiting = queue.subscription.unacknowledged(1)
    entry = await queue.topic.entry_at(waiting[0]) if waiting else None
    if entry is None or entry[1] != Origin.AMQP:
        return None
    start = content_start(entry)
    return decode_properties(properties_of(entry, start)).timestamp
