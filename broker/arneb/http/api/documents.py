"""Documents: statistics as JSON values.

The rule: field names are the statistics' own, so a figure has one name in the code, in
``/api/topics`` and on the screen; only a position changes, to ``ledger:entry``.
"""

from typing import Any

from arneb_core.api.entries.position import render
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.topics.statistics import TopicStatistics

Document = dict[str, Any]


def topic_document(topic: TopicStatistics) -> Document:
    """Return one topic and its subscriptions."""
    return {
        "name": topic.name,
        "durable": topic.durable,
        "entries": topic.entries,
        "messages": topic.messages,
        "bytes": topic.bytes,
        "ledgers": topic.ledgers,
        "last": None if topic.last is None else render(topic.last),
        "appended_messages_total": topic.appended_messages_total,
        "appended_bytes_total": topic.appended_bytes_total,
        "appended_entries_total": topic.appended_entries_total,
        "departed_messages_total": topic.departed_messages_total,
        "subscriptions": [subscription_document(each) for each in topic.subscriptions],
    }


def subscription_document(subscription: SubscriptionStatistics) -> Document:
    """Return one subscription."""
    return {
        "name": subscription.name,
        "type": None if subscription.type is None else subscription.type.value,
        "last_type": None if subscription.last_type is None else subscription.last_type.value,
        "durable": subscription.durable,
        "consumers": subscription.consumers,
        "backlog_entries": subscription.backlog_entries,
        "ready_entries": subscription.ready_entries,
        "delayed_entries": subscription.delayed_entries,
        "lost_entries_total": subscription.lost_entries_total,
        "in_flight_messages": subscription.in_flight_messages,
        "holes": subscription.holes,
        "mark_delete": render(subscription.mark_delete),
        "delivered_messages_total": subscription.delivered_messages_total,
        "acknowledged_entries_total": subscription.acknowledged_entries_total,
        "redelivered_entries_total": subscription.redelivered_entries_total,
        "unreadable": None if subscription.unreadable is None else render(subscription.unreadable),
    }
