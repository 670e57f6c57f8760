"""Documents of subscriptions and their consumers, in the fields of Pulsar's statistics.

The rule: as of topics; a consumer of another protocol has what the core knows of it.
"""

from typing import Any, Final

from arneb_core.api.consumers import Consumer
from arneb_core.api.entry import HEADER_BYTES
from arneb_core.api.key_sharing import KeySharingMode
from arneb_core.api.subscription_types import SubscriptionType
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.services.clock import iso_of
from arneb_pulsar.services.consumers import AttachedConsumer
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.rates import expired_of

Document = dict[str, Any]

NEVER: Final = "1970-01-01T00:00:00Z"

NO_FILTERS: Final = {
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
}
"""There are no entry filters."""


def subscription_document(
    context: BrokerContext,
    topic: Topic,
    subscription: Subscription,
    with_consumers: bool,
    earliest_ms: int,
) -> Document:
    """One subscription of a topic, some of whose consumers are connected here."""
    figures = subscription.statistics()
    rates = context.rates.of_subscription(topic, subscription)
    counts = context.rates.counts(topic, subscription)
    messages, size, acks, again, expired = rates.meter.rates
    consumers = subscription.consumers
    connected = {id(each.consumer): each for each in context.consumers.of(topic)}
    # Pulsar counts what is unacknowledged where several share a subscription.
    shares = figures.type is not None and figures.type.traits.sharing
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
        "totalMsgExpired": expired_of(subscription),
        "lastExpireTimestamp": rates.expired_ms,
        "lastConsumedFlowTimestamp": context.rates.wall_ms(counts.flowed_at),
        "lastConsumedTimestamp": context.rates.wall_ms(counts.delivered_at),
        "lastAckedTimestamp": context.rates.wall_ms(counts.acked_at),
        "lastMarkDeleteAdvancedTimestamp": rates.advanced_ms,
        "consumers": [
            _consumer(context, each, connected.get(id(each)), shares=shares)
            for each in consumers
            if with_consumers
        ],
        "consumersAfterMarkDeletePosition": {},
        "nonContiguousDeletedMessagesRanges": figures.holes,
        **NO_FILTERS,
        "subscriptionProperties": dict(subscription.properties),
        # Pulsar has both names for each.
        "durable": figures.durable,
        "isDurable": figures.durable,
        "replicated": False,
        "isReplicated": False,
        "allowOutOfOrderDelivery": False,
    }
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


def backlog_bytes(topic: Topic, subscription: Subscription) -> int:
    """Bytes of metadata and payloads behind the mark-delete position; about, if entries differ in
    size."""
    figures = topic.statistics()
    if not figures.bytes:
        return 0
    bodies = figures.bytes - HEADER_BYTES * figures.entries
    return subscription.backlog_bytes * bodies // figures.bytes


def _consumer(
    context: BrokerContext,
    consumer: Consumer,
    attached: AttachedConsumer | None,
    *,
    shares: bool,
) -> Document:
    found: Document = {
        "msgOutCounter": consumer.delivered_messages_total,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.in_flight if shares else 0,
        "blockedConsumerOnUnackedMsgs": consumer.is_shut_off,
        "metadata": dict(consumer.properties),
    }
    if attached is None:
        return found  # it is a client of another protocol
    counts, wall_ms = attached.counts, context.rates.wall_ms
    messages, size, acks = counts.meter.rates
    acked_ms, delivered_ms = wall_ms(counts.acked_at), wall_ms(counts.delivered_at)
    return found | {
        "availablePermits": consumer.permits + context.dispatch_throttles.held(attached),
        "msgRateOut": messages,
        "msgThroughputOut": size,
        "bytesOutCounter": counts.bytes,
        "messageAckRate": acks,
        "address": f"/{attached.connection.address}",
        "connectedSince": attached.since,
        "clientVersion": attached.connection.client_name,
        "lastAckedTimestamp": acked_ms,
        "lastConsumedTimestamp": delivered_ms,
        "lastConsumedFlowTimestamp": wall_ms(counts.flowed_at),
        "lastAckedTime": iso_of(acked_ms) if acked_ms else NEVER,
        "lastConsumedTime": iso_of(delivered_ms) if delivered_ms else NEVER,
    }
