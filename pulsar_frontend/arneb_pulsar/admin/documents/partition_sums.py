"""Adds up the statistics of partitions, as Apache Pulsar does.

The rule: producers and consumers are joined by their index in the partitions' lists, and what they
do not share is left out: addresses, properties, and when something last happened. Pulsar's own sums
show no more; see its ``TopicStatsImpl.add``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from arneb_pulsar.admin.documents.subscription_documents import NEVER, Document

EARLIEST: Final = frozenset({"earliestMsgPublishTimeInBacklog", "earliestMsgPublishTimeInBacklogs"})
LATEST: Final = frozenset({"backlogQuotaLimitSize", "backlogQuotaLimitTime", "type"})
"""Fields whose value is that of the last partition; all have the same."""

OF_ONE_TOPIC: Final[Document] = {
    "msgChunkPublished": False,
    "systemTopicBytesInCounter": 0,
    "bytesOutInternalCounter": 0,
    "oldestBacklogMessageAgeSeconds": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
    "compaction": {
        "lastCompactionRemovedEventCount": 0,
        "lastCompactionSucceedTimestamp": 0,
        "lastCompactionFailedTimestamp": 0,
        "lastCompactionDurationTimeInMills": 0,
    },
}
"""Fields of a topic that sums show, but never with a value."""

OF_ONE_SUBSCRIPTION: Final[Document] = {
    "blockedSubscriptionOnUnackedMsgs": False,
    "lastExpireTimestamp": 0,
    "lastConsumedFlowTimestamp": 0,
    "lastConsumedTimestamp": 0,
    "lastAckedTimestamp": 0,
    "lastMarkDeleteAdvancedTimestamp": 0,
}

OF_ONE_PRODUCER: Final[Document] = {
    "chunkedMessageRate": 0.0,
    "producerId": 0,
    "supportsPartialProducer": False,
}

OF_ONE_CONSUMER: Final[Document] = {
    "chunkedMessageRate": 0.0,
    "avgMessagesPerEntry": 0,
    "lastAckedTimestamp": 0,
    "lastConsumedTimestamp": 0,
    "lastConsumedFlowTimestamp": 0,
    "lastAckedTime": NEVER,
    "lastConsumedTime": NEVER,
}

LEFT_OUT: Final = (
    "deduplicationStatus",
    "topicEpoch",
    "ownerBroker",
    "activeConsumerName",
    "keySharedMode",
)

PRODUCER_SUMMED: Final = ("msgRateIn", "msgThroughputIn", "msgDropRate")
"""Fields of a producer; the last of non-persistent topics only."""

CONSUMER_SUMMED: Final = (
    "msgRateOut",
    "msgThroughputOut",
    "bytesOutCounter",
    "msgOutCounter",
    "msgRateRedeliver",
    "messageAckRate",
    "availablePermits",
    "unackedMessages",
    "drainingHashesClearedTotal",
)

CONSUMER_LATEST: Final = (
    "consumerName",
    "blockedConsumerOnUnackedMsgs",
    "drainingHashesCount",
    "drainingHashesUnackedMessages",
    "drainingHashes",
    "keyHashRangeArrays",
)
"""Fields of a consumer that are those of the last partition, and absent if it has none."""

MEAN: Final = "averageMsgSize"
PRODUCERS: Final = "publishers"
SUBSCRIPTIONS: Final = "subscriptions"
CONSUMERS: Final = "consumers"


def earliest_of(times_ms: Iterable[int]) -> int:
    """Return the earliest known time; 0 if there is none."""
    return min((each for each in times_ms if each > 0), default=0)


def sum_of_topics(documents: Sequence[Document]) -> Document:
    """Return the sum of the statistics of some topics, of which there is at least one."""
    found = _sum(documents, OF_ONE_TOPIC)
    found[MEAN] = sum(each[MEAN] for each in documents) / len(documents)
    found[PRODUCERS] = _producers([each[PRODUCERS] for each in documents])
    names = dict.fromkeys(name for each in documents for name in each[SUBSCRIPTIONS])
    found[SUBSCRIPTIONS] = {
        name: _sum_of_subscriptions(
            [each[SUBSCRIPTIONS][name] for each in documents if name in each[SUBSCRIPTIONS]]
        )
        for name in names
    }
    return found


def _sum_of_subscriptions(documents: Sequence[Document]) -> Document:
    found = _sum(documents, OF_ONE_SUBSCRIPTION)
    found[CONSUMERS] = _consumers([each[CONSUMERS] for each in documents])
    return found


def _sum(documents: Iterable[Document], of_one: Document) -> Document:
    """Add numbers, and merge tables; what is true of one partition is true of the sum."""
    total: Document = {}
    for document in documents:
        for key, value in document.items():
            if key in LEFT_OUT or key in of_one or isinstance(value, list):
                continue
            if key not in total or key in LATEST:
                total[key] = value
            elif isinstance(value, Mapping):
                total[key] = {**total[key], **value}
            elif isinstance(value, bool):
                total[key] = total[key] or value
            elif key not in EARLIEST:
                total[key] += value
            if key in EARLIEST:
                total[key] = earliest_of((total[key], value))
    return total | of_one


def _producers(partitions: Iterable[Sequence[Document]]) -> list[Document]:
    """Join the producers at each index of the partitions' lists."""
    joined: list[list[Document]] = []
    for producers in partitions:
        joined += [[] for _ in range(len(producers) - len(joined))]
        for place, each in enumerate(producers):
            joined[place].append(each)
    return [
        {key: sum(one[key] for one in each) for key in PRODUCER_SUMMED if key in each[0]}
        | {MEAN: sum(one[MEAN] for one in each) / len(each)}
        | OF_ONE_PRODUCER
        for each in joined
    ]


def _consumers(partitions: Iterable[Sequence[Document]]) -> list[Document]:
    """Join the consumers at each index, if a partition has as many as were found before it; the
    others are listed unchanged."""
    joined: list[list[Document]] = []
    for consumers in partitions:
        if len(consumers) != len(joined):
            joined += [[each] for each in consumers]
        else:
            for before, each in zip(joined, consumers, strict=True):
                before.append(each)
    return [_sum_of_consumers(each) for each in joined]


def _sum_of_consumers(documents: Sequence[Document]) -> Document:
    found = {key: sum(each.get(key, 0) for each in documents) for key in CONSUMER_SUMMED}
    latest = documents[-1]
    return found | {key: latest[key] for key in CONSUMER_LATEST if key in latest} | OF_ONE_CONSUMER
