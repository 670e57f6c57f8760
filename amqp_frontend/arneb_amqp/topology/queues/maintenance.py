"""Maintenance: periodic work for the queues of a vhost.

The rule: the caller holds the topology's lock. What fails for one queue is retried the next time
and does not hold up the rest. Only queues that need something are visited: a broker with 50,000
others is not kept busy doing nothing for them.
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
"""Queues visited in one turn: some 2 ms."""

logger = logging.getLogger(__name__)


async def delete_expired(queues: Queues, now_ms: int) -> tuple[float, bool]:
    """Remove queues unused for their expiry; return the ms until the next expiry, and whether all
    due removals succeeded."""
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
    """Retry dead letters that could not be committed, or that no queue has taken."""
    for number, queue in enumerate(list(queues.attended.values()), 1):
        if queue.dead_lettering is not None:
            queue.dead_lettering.retry()
        if number % QUEUES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()


def _is_consumed(queue: Queue) -> bool:
    """Whether the queue has a consumer, other than getters and cancelled consumers with answers
    due."""
    subscription = queue.topic.subscriptions.get(SUBSCRIPTION)
    there = () if subscription is None else subscription.consumers
    return any(each not in queue.unseen for each in there)


async def _deleted(queues: Queues, queue: Queue) -> bool:
    """Remove an expired queue; False when the core could not, which is logged."""
    try:
        with suppress(TopicBusy):  # a consumer came meanwhile
            await queues.delete(queue, only_if=lambda _: not _is_consumed(queue))
    except CoreError as error:
        logger.warning("cannot delete expired %s, will retry: %s", queue, error)
        return False
    return True
