"""Counters of a queue: what has gone through it, and what is in it.

The rule: read from the core when they are asked for.
"""

from typing import Final

from arneb_amqp.topology.names import SUBSCRIPTION
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue

MESSAGE_COUNTS: Final = ("messages", "messages_ready", "messages_unacknowledged")
STATISTICS: Final = ("publish", "deliver_get", "ack", "redeliver")
"""Of ``message_stats``."""


def unacknowledged(queue: Queue) -> int:
    """Messages at consumers."""
    if not queue.is_complete or queue.type is QueueType.STREAM:
        return 0
    return sum(each.in_flight for each in queue.subscription.consumers)


def ready(queue: Queue) -> int:
    """Messages that wait."""
    return queue.message_count if queue.is_complete else 0


def counters_of(queue: Queue) -> dict[str, int]:
    """All counters of a queue."""
    found = queue.topic.statistics()
    waiting, away = ready(queue), unacknowledged(queue)
    counters = {
        "publish": found.appended_messages_total,
        "deliver_get": 0,
        "ack": 0,
        "redeliver": 0,
        "messages": waiting + away,
        "messages_ready": waiting,
        "messages_unacknowledged": away,
    }
    for each in found.subscriptions:
        if each.name == SUBSCRIPTION:
            counters["deliver_get"] = each.delivered_messages_total
            counters["ack"] = each.acknowledged_entries_total
            counters["redeliver"] = each.redelivered_entries_total
    return counters
