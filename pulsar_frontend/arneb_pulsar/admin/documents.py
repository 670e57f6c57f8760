"""Documents: what is known of topics, in the fields of Pulsar's statistics.

The rule: a figure that is not known is left out, and rates are not kept: clients count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arneb_core.api.consumers import Consumer
from arneb_core.api.position import render
from arneb_core.api.subscription_types import SubscriptionType
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.names import TopicName
from arneb_pulsar.producers.access import AccessMode
from arneb_pulsar.services.consumers import AttachedConsumer
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.producers import ProducerClaim

Document = dict[str, Any]

SHARING: Final = frozenset({SubscriptionType.SHARED, SubscriptionType.KEY_SHARED})

ACCESS_MODES: Final = {
    AccessMode.SHARED: "Shared",
    AccessMode.EXCLUSIVE: "Exclusive",
    AccessMode.WAIT_FOR_EXCLUSIVE: "WaitForExclusive",
    AccessMode.EXCLUSIVE_WITH_FENCING: "ExclusiveWithFencing",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """What a caller wants to see of a topic beside figures."""

    publishers: bool = True
    consumers: bool = True


def topic_document(context: BrokerContext, name: TopicName, detail: Detail) -> Document:
    """``GET …/stats`` of one topic."""
    topic = context.core.topic(name.core_name)
    figures = topic.statistics()
    subscriptions = topic.subscriptions
    backlog = max((each.backlog_bytes for each in subscriptions.values()), default=0)
    average = figures.bytes / figures.entries if figures.entries else 0.0
    connected = {id(each.consumer): each for each in context.consumers.of(topic)}
    publishers = context.producers.of(topic) if detail.publishers else ()
    return {
        "msgInCounter": figures.appended_messages_total,
        "bytesInCounter": figures.appended_bytes_total,
        "msgOutCounter": sum(each.delivered_messages_total for each in figures.subscriptions),
        "averageMsgSize": average,
        "storageSize": figures.bytes,
        "backlogSize": backlog,
        "publishers": [_publisher(claim) for claim in publishers],
        "subscriptions": {
            key: subscription_document(each, connected, detail)
            for key, each in subscriptions.items()
        },
        "replication": {},
        "deduplicationStatus": "Enabled" if context.deduplications.of(topic) else "Disabled",
        "ownerBroker": "",
    }


def _publisher(claim: ProducerClaim) -> Document:
    producer = claim.holder
    return {
        "producerId": producer.producer_id,
        "producerName": claim.name,
        "accessMode": ACCESS_MODES[claim.mode],
        "address": producer.connection.address,
        "connectedSince": producer.since,
        "clientVersion": producer.connection.client_name,
        "metadata": dict(producer.properties),
    }


def subscription_document(
    subscription: Subscription, connected: Mapping[int, AttachedConsumer], detail: Detail
) -> Document:
    """One subscription of a topic, some of whose consumers are ``connected`` here."""
    figures = subscription.statistics()
    consumers = subscription.consumers if detail.consumers else ()
    # Pulsar counts what is unacknowledged where several share a subscription.
    shares = figures.type in SHARING
    found: Document = {
        "msgOutCounter": figures.delivered_messages_total,
        "msgBacklog": figures.backlog_entries,
        "msgBacklogNoDelayed": figures.backlog_entries - figures.delayed_entries,
        "msgDelayed": figures.delayed_entries,
        "backlogSize": subscription.backlog_bytes,
        "unackedMessages": figures.in_flight_messages if shares else 0,
        "type": "None" if figures.type is None else figures.type.traits.title,
        "nonContiguousDeletedMessagesRanges": figures.holes,
        "consumers": [
            _consumer(each, connected.get(id(each)), counts=shares) for each in consumers
        ],
        "subscriptionProperties": dict(subscription.properties),
        # Pulsar has both names for each.
        "durable": figures.durable,
        "isDurable": figures.durable,
        "replicated": False,
        "isReplicated": False,
    }
    if (active := subscription.active_name) is not None:
        found["activeConsumerName"] = active
    return found


def _consumer(consumer: Consumer, attached: AttachedConsumer | None, *, counts: bool) -> Document:
    found: Document = {
        "consumerName": consumer.name,
        "unackedMessages": consumer.in_flight if counts else 0,
        "availablePermits": consumer.permits,
        "blockedConsumerOnUnackedMsgs": consumer.is_shut_off,
        "metadata": dict(consumer.properties),
    }
    if attached is None:
        return found  # it is a client of another protocol
    return found | {
        "address": attached.connection.address,
        "connectedSince": attached.since,
        "clientVersion": attached.connection.client_name,
    }


def partitioned_document(
    context: BrokerContext, name: TopicName, detail: Detail, *, each: bool
) -> Document:
    """``GET …/partitioned-stats``: the sums, and with ``each`` every partition by itself."""
    parts = {
        str(part): topic_document(context, part, detail) for part in context.topics.parts(name)
    }
    found = _sum(parts.values())
    found["metadata"] = {"partitions": context.namespaces.partitions(name), "deleted": False}
    found["partitions"] = parts if each else {}
    return found


def _sum(documents: Iterable[Mapping[str, Any]]) -> Document:
    """Numbers added up, lists joined, tables taken together; of the rest, the first."""
    total: Document = {}
    for document in documents:
        for key, value in document.items():
            if key not in total:
                total[key] = _sum([value]) if isinstance(value, Mapping) else value
            elif isinstance(value, Mapping):
                total[key] = _sum([total[key], value])
            elif isinstance(value, (int, float, list)) and not isinstance(value, bool):
                total[key] = total[key] + value
    return total


def internal_document(topic: Topic) -> Document:
    """``GET …/internalStats`` of one topic."""
    ledgers = topic.ledgers()
    figures = topic.statistics()
    last = ledgers[-1] if ledgers else None
    return {
        "entriesAddedCounter": figures.appended_messages_total,
        "numberOfEntries": figures.entries,
        "totalSize": figures.bytes,
        "currentLedgerEntries": last.entries if last is not None else 0,
        "currentLedgerSize": last.bytes if last is not None else 0,
        "lastConfirmedEntry": "-1:-1" if topic.last is None else render(topic.last),
        "state": "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": each.id,
                # Pulsar shows nothing of a ledger that is open; the Spark connector knows that.
                "entries": each.entries if each.closed_ms else 0,
                "size": each.bytes if each.closed_ms else 0,
                "offloaded": False,
                "underReplicated": False,
            }
            for each in ledgers
        ],
        "cursors": {name: _cursor(each) for name, each in topic.subscriptions.items()},
    }


def _cursor(subscription: Subscription) -> Document:
    figures = subscription.statistics()
    return {
        "markDeletePosition": render(figures.mark_delete),
        "messagesConsumedCounter": figures.acknowledged_entries_total,
        "individuallyDeletedMessages": f"{figures.holes} ranges",
        "numberOfEntriesSinceFirstNotAckedMessage": figures.backlog_entries,
        "cursorLedger": -1,
        "state": "Open",
        "active": bool(subscription.consumers),
    }
