"""Housekeeping: what the queues of a vhost need from time to time.

The rule: whoever calls holds the topology's lock.
"""

from contextlib import suppress

from arneb_amqp.topology.queue import SUBSCRIPTION
from arneb_amqp.topology.queues import Queues
from arneb_core.errors import TopicBusy
from arneb_core.interface import Topic


async def delete_expired(queues: Queues, now_ms: int) -> float:
    """Remove queues that nobody has used for as long as they said; ms until the next may have to
    go."""
    soonest_ms = float("inf")
    for queue in queues:
        keeping = queue.keeping
        if keeping is None or keeping.expires_ms is None:
            continue
        if _consumers_of(queue.topic):
            queue.used_at_ms = now_ms
        left_ms = queue.used_at_ms + keeping.expires_ms - now_ms
        if left_ms <= 0:
            with suppress(TopicBusy):  # somebody came to it meanwhile
                await queues.delete(queue, only_if=lambda topic: not _consumers_of(topic))
        else:
            soonest_ms = min(soonest_ms, left_ms)
    return soonest_ms


def retry_dead_letters(queues: Queues) -> None:
    """Try again what could not be committed."""
    for queue in queues:
        if queue.keeping is not None and queue.keeping.office is not None:
            queue.keeping.office.retry()


def _consumers_of(topic: Topic) -> bool:
    subscription = topic.subscriptions.get(SUBSCRIPTION)
    return subscription is not None and bool(subscription.consumers)
