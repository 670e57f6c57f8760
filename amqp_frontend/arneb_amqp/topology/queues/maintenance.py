"""Maintenance: what the queues of a vhost need from time to time.

The rule: whoever calls holds the topology's lock. What cannot be done for one queue is tried again
the next time, and keeps nothing else from being done. Only queues that need something are looked
at: a broker with 50,000 others is not kept busy by doing nothing for them.
"""

import logging
from contextlib import suppress
from typing import Final

import trio

from arneb_amqp.topology.names import SUBSCRIPTION
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.queues.queues import Queues
from arneb_core.api.errors import CoreError, TopicBusy

QUEUES_PER_TURN: Final = 2_000
"""Looked at before others have their turn: some 2 ms."""

LOGGER: Final = logging.getLogger(__name__)


async def delete_expired(queues: Queues, now_ms: int) -> tuple[float, bool]:
    """Remove queues that nobody has used for as long as they said; ms until the next may have to
    go, and whether all could be removed that had to be."""
    soonest_ms, all_done = float("inf"), True
    for number, queue in enumerate(list(queues.attended.values()), 1):
        if number % QUEUES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
        expires_ms = queue.options.expires_ms
        if expires_ms is None:
            continue
        if _is_consumed(queue):
            queue.used_at_ms = now_ms
        left_ms = queue.used_at_ms + expires_ms - now_ms
        if left_ms > 0:
            soonest_ms = min(soonest_ms, left_ms)
        elif not await _deleted(queues, queue):
            all_done = False
    return soonest_ms, all_done


async def retry_dead_letters(queues: Queues) -> None:
    """Try again what could not be committed."""
    for number, queue in enumerate(list(queues.attended.values()), 1):
        if number % QUEUES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
        if queue.dead_lettering is not None:
            queue.dead_lettering.retry()


def _is_consumed(queue: Queue) -> bool:
    """Somebody consumes; who polled, or has only answers left to give, does not."""
    subscription = queue.topic.subscriptions.get(SUBSCRIPTION)
    there = () if subscription is None else subscription.consumers
    return any(each not in queue.unseen for each in there)


async def _deleted(queues: Queues, queue: Queue) -> bool:
    """Remove a queue that has expired; False when the core could not, which is logged."""
    try:
        with suppress(TopicBusy):  # somebody came to it meanwhile
            await queues.delete(queue, only_if=lambda _: not _is_consumed(queue))
    except CoreError as error:
        LOGGER.warning("cannot delete expired %s, will retry: %s", queue, error)
        return False
    return True
