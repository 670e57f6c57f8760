"""Documents of subscriptions and their consumers, in the fields of Pulsar's statistics.

The rule: as for topics; a consumer of another protocol has only what the core knows of it.
"""

from collections.abc import Sequence
from typing import Any, Final

from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.key_sharing import KeyShare, KeySharingMode
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.services.clients.consumers import ClientConsumer
from arneb_pulsar.services.clock import iso_of
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.rates import KEEPS_NOTHING, expired_of

Document = dict[str, Any]

NEVER: Final = "1970-01-01T00:00:00Z"

NO_FILTERS: Final = {
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
}
"""Fields of entry filters, which do not exist here."""

DRAINING: Final = ("Count", "ClearedTotal", "UnackedMessages")

RUNS_SHOWN_MAX: Final = 10_000
"""The most runs of individual acknowledgements that are shown: some 300 KB."""


def subscription_document(
    context: BrokerContext,
    topic: Topic,
    subscription: Subscription,
    with_consumers: bool,
    earliest_ms: int,
) -> Document:
    """Return the document of one subscription, some of whose consumers are connected here."""
    figures = subscription.statistics()
    rates = context.rates.of_subscription(topic, subscription)
    counts = context.rates.counts(topic, subscription)
    messages, size, acks, again, expired, dropped = rates.meter.rates
    consumers = _in_order(subscription.consumers, figures.type)
    connected = {id(each.consumer): each for each in context.consumers.of(topic)}
    # Pulsar counts unacknowledged messages only where consumers share a subscription.
    shares = figures.type is not None and figures.type.traits.sharing
    keys = subscription.key_shares()
    shown = [
        _consumer(context, each, connected.get(id(each)), keys.get(each), shares=shares)
        for each in consumers
    ]
    found: Document = {
        "msgRateOut": messages,
        "msgThroughputOut": size,
        "bytesOutCounter": counts.bytes,
        "msgOutCounter": figures.delivered_messages_total,
        "msgRateRedeliver": again,
        "messageAckRate": acks,
        "chunkedMessageRate": 0.0,
        "msgBacklog": figures.backlog_entries,
        "backlogSize": backlog_bytes(topic, subscription),
        "earliestMsgPublishTimeInBacklog": earliest_ms,
        "msgBacklogNoDelayed": figures.backlog_entries - figures.delayed_entries,
        "blockedSubscriptionOnUnackedMsgs": any(
            each.subscription_is_shut_off for each in consumers
        ),
        "msgDelayed": figures.delayed_entries,
        "unackedMessages": figures.in_flight_messages if shares else 0,
        "type": "None" if figures.last_type is None else figures.last_type.traits.title,
        "msgRateExpired": expired,
        "totalMsgExpired": expired_of(topic, subscription),
        "lastExpireTimestamp": rates.expired_ms,
        "lastConsumedFlowTimestamp": context.rates.wall_ms(counts.flowed_at),
        "lastConsumedTimestamp": context.rates.wall_ms(counts.delivered_at),
        "lastAckedTimestamp": context.rates.wall_ms(counts.acked_at),
        "lastMarkDeleteAdvancedTimestamp": rates.advanced_ms,
        "consumers": shown if with_consumers else [],
        "consumersAfterMarkDeletePosition": {},
        "nonContiguousDeletedMessagesRanges": subscription.acknowledged_runs,
        "nonContiguousDeletedMessagesRangesSerializedSize": subscription.acknowledged_runs_bytes,
        "delayedMessageIndexSizeInBytes": 0,
        "msgInReplay": subscription.replaying_entries if shares else 0,
        **{
            f"drainingHashes{each}": sum(one[f"drainingHashes{each}"] for one in shown)
            for each in DRAINING
        },
        **context.dispatch_throttles.throttled_events(topic, subscription.name),
        **NO_FILTERS,
        "subscriptionProperties": dict(subscription.properties),
        # Pulsar has both names for each.
        "durable": figures.durable,
        "isDurable": figures.durable,
        "replicated": False,
        "isReplicated": False,
        "allowOutOfOrderDelivery": False,
    }
    if topic.name.startswith(KEEPS_NOTHING):
        found["msgDropRate"] = dropped
    if figures.type is SubscriptionType.KEY_SHARED:
        sharing = [each.sharing for each in connected.values() if each.subscription is subscription]
        is_sticky = any(each.mode is KeySharingMode.STICKY for each in sharing)
        found["keySharedMode"] = "STICKY" if is_sticky else "AUTO_SPLIT"
        found["allowOutOfOrderDelivery"] = any(not each.in_order for each in sharing)
    active = subscription.active_name
    if figures.type is SubscriptionType.EXCLUSIVE and consumers:
        active = consumers[0].name
    if active is not None:
        found["activeConsumerName"] = active
    return found


def _in_order(consumers: Sequence[Consumer], kind: SubscriptionType | None) -> Sequence[Consumer]:
    """Return consumers in the order of Pulsar's dispatchers: by priority, and of a failover
    subscription by name."""
    if kind is SubscriptionType.FAILOVER:
        consumers = sorted(consumers, key=lambda each: each.name)
    return sorted(consumers, key=lambda each: each.priority)


def backlog_bytes(topic: Topic, subscription: Subscription) -> int:
    """Return the bytes of metadata and payloads after the mark-delete position; approximate if
    entries differ in size."""
    figures = topic.statistics()
    if not figures.bytes:
        return 0
    bodies = figures.bytes - HEADER_BYTES * figures.entries
    return subscription.backlog_bytes * bodies // figures.bytes


def _consumer(
    context: BrokerContext,
    consumer: Consumer,
    attached: ClientConsumer | None,
    keys: KeyShare | None,
    *,
    shares: bool,
) -> Document:
    draining = () if keys is None else keys.draining
    found: Document = {
        "drainingHashesCount": len(draining),
        "drainingHashesClearedTotal": 0 if keys is None else keys.drained_total,
        "drainingHashesUnackedMessages": sum(each.entries for each in draining),
        "msgOutCounter": consumer.delivered_messages_total,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.in_flight if shares else 0,
        "blockedConsumerOnUnackedMsgs": consumer.is_shut_off,
        "metadata": dict(consumer.properties),
    }
    if keys is not None:
        found["keyHashRangeArrays"] = [list(each) for each in keys.ranges]
    is_parted = attached is not None and attached.sharing.mode is not KeySharingMode.STICKY
    if draining or (keys is not None and is_parted and keys.drains):
        found["drainingHashes"] = [
            {"hash": each.slot, "unackMsgs": each.entries, "blockedAttempts": each.waiting}
            for each in draining
        ]
    if attached is None:
        return found  # it is a client of another protocol
    counts, wall_ms = attached.counts, context.rates.wall_ms
    messages, size, acks, again = counts.meter.rates
    delivered, entries = consumer.delivered_messages_total, counts.entries
    acked_ms, delivered_ms = wall_ms(counts.acked_at), wall_ms(counts.delivered_at)
    return found | {
        "availablePermits": consumer.permits + context.dispatch_throttles.held(attached),
        "msgRateOut": messages,
        "msgThroughputOut": size,
        "bytesOutCounter": counts.bytes,
        "messageAckRate": acks,
        "msgRateRedeliver": again,
        "chunkedMessageRate": 0.0,
        "avgMessagesPerEntry": max(1, round(delivered / entries)) if entries else 0,
        "address": f"/{attached.connection.address}",
        "connectedSince": attached.since,
        "clientVersion": attached.connection.client_name,
        "lastAckedTimestamp": acked_ms,
        "lastConsumedTimestamp": delivered_ms,
        "lastConsumedFlowTimestamp": wall_ms(counts.flowed_at),
        "lastAckedTime": iso_of(acked_ms) if acked_ms else NEVER,
        "lastConsumedTime": iso_of(delivered_ms) if delivered_ms else NEVER,
    }
