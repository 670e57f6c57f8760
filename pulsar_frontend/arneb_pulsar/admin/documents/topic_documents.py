"""Documents: statistics of topics, in Pulsar's fields.

The rule: an unknown figure is left out; bytes are those of metadata and payloads, without the
headers that entries have here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.documents.partition_sums import earliest_of, sum_of_topics
from arneb_pulsar.admin.documents.subscription_documents import Document, subscription_document
from arneb_pulsar.names import TopicName
from arneb_pulsar.namespaces.rules import QuotaType
from arneb_pulsar.producers.access import AccessMode
from arneb_pulsar.services.clients.producers import ProducerClaim
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.rates import bytes_in

ACCESS_MODES: Final = {
    AccessMode.SHARED: "Shared",
    AccessMode.EXCLUSIVE: "Exclusive",
    AccessMode.WAIT_FOR_EXCLUSIVE: "WaitForExclusive",
    AccessMode.EXCLUSIVE_WITH_FENCING: "ExclusiveWithFencing",
}

NO_QUOTA: Final = -1
NOT_KNOWN: Final = -1
NOTHING_OFFLOADED: Final = {
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
}
"""Fields of offloading, which does not exist here."""


NO_BACKLOG: Final = {
    "backlogQuotaLimitSize": 0,
    "backlogQuotaLimitTime": 0,
    "oldestBacklogMessageAgeSeconds": 0,
}
"""What is shown for the backlog of a non-persistent topic, which has none."""

NOT_DROPPED: Final[Document] = {"msgDropRate": 0.0}
"""How many messages a second a non-persistent topic and its producers lost on their way to the
topic: none, for a producer is read no faster than its messages are processed."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The optional parts of a topic's statistics that a caller requested."""

    publishers: bool = True
    consumers: bool = True
    backlog_bytes: bool = True
    earliest_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """When the oldest message of each subscription's backlog was published, by topic and
    subscription, if requested."""


def topic_document(
    context: BrokerContext, name: TopicName, detail: Detail, host: str = ""
) -> Document:
    """Return ``GET …/stats`` of one topic, requested from the broker at ``host``."""
    topic = context.core.topic(name.core_name)
    figures = topic.statistics()
    subscriptions = topic.subscriptions
    publishers = sorted(context.producers.producing(topic), key=lambda claim: claim.name)
    earliest = detail.earliest_ms.get(topic.name, {})
    subscription_documents = {
        key: subscription_document(context, topic, each, detail.consumers, earliest.get(key, 0))
        for key, each in subscriptions.items()
    }
    shown = subscription_documents.values()
    # A reader keeps nothing in the log.
    backlog = max((each["backlogSize"] for each in shown if each["isDurable"]), default=0)
    if not detail.backlog_bytes:
        for each in shown:
            each["backlogSize"] = -1
    messages, size = context.rates.of_topic(topic)
    throttle = context.throttles.of(topic)
    quotas = context.namespaces.policies(name).quotas
    if name.is_persistent:
        is_on = context.deduplications.of(topic)
        of_kind: Document = {"deduplicationStatus": "Enabled" if is_on else "Disabled"}
        of_producer: Document = {}
    else:
        of_kind, of_producer = {**NO_BACKLOG, **NOT_DROPPED}, NOT_DROPPED
    epoch = context.producers.epoch(topic)
    if epoch is not None:
        of_kind["topicEpoch"] = epoch
    ended = context.transactions.memory
    by_size, by_age = quotas.get(QuotaType.SIZE), quotas.get(QuotaType.AGE)
    return {
        "msgRateIn": messages,
        "msgThroughputIn": size,
        "msgRateOut": sum((each["msgRateOut"] for each in shown), 0.0),
        "msgThroughputOut": sum((each["msgThroughputOut"] for each in shown), 0.0),
        "bytesInCounter": bytes_in(figures),
        "msgInCounter": figures.appended_messages_total,
        "systemTopicBytesInCounter": 0,
        "bytesOutCounter": context.consumers.delivered_bytes(topic),
        "msgOutCounter": figures.delivered_messages_total,
        "bytesOutInternalCounter": 0,
        "averageMsgSize": size / messages if messages else 0.0,
        "msgChunkPublished": any(claim.holder.counts.chunks for claim in publishers),
        "storageSize": figures.bytes - HEADER_BYTES * figures.entries,
        "backlogSize": backlog,
        "backlogQuotaLimitSize": NO_QUOTA if by_size is None else by_size.limit_bytes,
        "backlogQuotaLimitTime": NO_QUOTA if by_age is None else by_age.limit_s,
        "publishRateLimitedTimes": 0 if throttle is None else throttle.exceeded_total,
        "oldestBacklogMessageAgeSeconds": NOT_KNOWN,
        "ongoingTxnCount": ended.sending.get(topic.id, 0),
        "abortedTxnCount": ended.aborted[topic.id],
        "committedTxnCount": ended.committed[topic.id],
        "earliestMsgPublishTimeInBacklogs": earliest_of(earliest.values()),
        **NOTHING_OFFLOADED,
        "publishers": [
            _publisher(claim) | of_producer for claim in publishers if detail.publishers
        ],
        "waitingPublishers": len(context.producers.of(topic)) - len(publishers),
        "subscriptions": subscription_documents,
        "replication": {},
        **of_kind,
        "nonContiguousDeletedMessagesRanges": sum(
            each["nonContiguousDeletedMessagesRanges"] for each in shown
        ),
        "nonContiguousDeletedMessagesRangesSerializedSize": sum(
            each["nonContiguousDeletedMessagesRangesSerializedSize"] for each in shown
        ),
        "delayedMessageIndexSizeInBytes": 0,
        "compaction": _compaction(context, topic),
        "ownerBroker": host,
    }


def _compaction(context: BrokerContext, topic: Topic) -> Document:
    outcome = context.compactor.outcome(topic)
    return {
        "lastCompactionRemovedEventCount": outcome.removed,
        "lastCompactionSucceedTimestamp": outcome.succeeded_ms,
        "lastCompactionFailedTimestamp": outcome.failed_ms,
        "lastCompactionDurationTimeInMills": outcome.took_ms,
    }


def _publisher(claim: ProducerClaim) -> Document:
    producer = claim.holder
    messages, size, chunks = producer.counts.meter.rates
    return {
        "accessMode": ACCESS_MODES[claim.mode],
        "msgRateIn": messages,
        "msgThroughputIn": size,
        "averageMsgSize": size / messages if messages else 0.0,
        "chunkedMessageRate": chunks,
        "producerId": producer.producer_id,
        "supportsPartialProducer": False,
        "producerName": claim.name,
        "address": f"/{producer.connection.address}",
        "connectedSince": producer.since,
        "clientVersion": producer.connection.client_name,
        "metadata": dict(producer.properties),
    }


def partitioned_document(
    context: BrokerContext, name: TopicName, detail: Detail, host: str, *, each: bool
) -> Document:
    """Return ``GET …/partitioned-stats``: the sums, and with ``each`` every partition by itself."""
    parts = {
        str(part): topic_document(context, part, detail, host)
        for part in context.topics.parts(name)
    }
    found = sum_of_topics(list(parts.values()))
    found["metadata"] = metadata_document(context, name)
    found["partitions"] = parts if each else {}
    return found


def metadata_document(context: BrokerContext, name: TopicName) -> Document:
    """Return the metadata of a partitioned topic."""
    found: Document = {"partitions": context.namespaces.partitions(name), "deleted": False}
    properties = dict(context.namespaces.properties(name))
    return found | ({"properties": properties} if properties else {})
