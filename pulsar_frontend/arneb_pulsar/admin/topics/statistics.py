"""Statistics of topics, as the admin API gives them."""

from collections.abc import Sequence
from typing import Final

from arneb_pulsar.admin.calls.requests import AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_topic
from arneb_pulsar.admin.documents.internal_documents import info_document, internal_document
from arneb_pulsar.admin.documents.topic_documents import (
    Detail,
    metadata_document,
    partitioned_document,
    topic_document,
)
from arneb_pulsar.admin.topics.topics import plain, routes_of_topics, topic_of, whole_topic_of
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.names import TopicName
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.limits.quotas import oldest_ms


async def stats(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    plain(context, name)
    detail = await _detail(context, request, [name])
    return document(topic_document(context, name, detail, request.host))


async def internal(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    if not name.is_persistent and name.core_name not in context.core.topics:
        raise AdminError(404, "Topic not found")
    found = internal_document(plain(context, name))
    if not name.is_persistent:
        found = {key: value for key, value in found.items() if key not in OF_LEDGERS}
    return document(found)


NOTHING_WAITS: Final = -1
"""Publish time of a backlog's oldest message if there is none; 0 if it was not requested."""

OF_LEDGERS: Final = frozenset(
    {
        "compactedLedger",
        "lastConfirmedEntry",
        "lastLedgerCreatedTimestamp",
        "ledgers",
        "schemaLedgers",
        "state",
    }
)
"""Fields that a non-persistent topic does not have."""


async def partitioned(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = whole_topic_of(context, request)
    _check_partitioned(context, name)
    each = request.flag("perPartition", default=True)
    detail = await _detail(context, request, context.topics.parts(name))
    return document(partitioned_document(context, name, detail, request.host, each=each))


async def partitioned_internal(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    _check_partitioned(context, name)
    shown = {
        str(part): internal_document(context.core.topic(part.core_name))
        for part in context.topics.parts(name)
    }
    return document({"metadata": metadata_document(context, name), "partitions": shown})


def _check_partitioned(context: BrokerContext, name: TopicName) -> None:
    """Raise :class:`AdminError` unless the topic is partitioned, with either of Pulsar's two
    texts."""
    if not context.namespaces.partitions(name):
        persistent = f"Partitioned Topic {name} not found"
        text = persistent if name.is_persistent else f"Partitioned topic not found {name}"
        raise AdminError(404, text)


async def info(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return what is stored of a topic's log; for a partitioned topic, of each partition."""
    name = topic_of(context, request)
    count = context.namespaces.partitions(name)
    if not count:
        found = info_document(plain(context, name))
        properties = dict(context.namespaces.properties(name))
        return document(found | ({"properties": properties} if properties else {}))
    shown = {
        str(part): info_document(context.core.topic(part.core_name))
        for part in context.topics.parts(name)
    }
    return document({"version": 0, "partitions": shown})


async def _detail(
    context: BrokerContext, request: AdminRequest, topics: Sequence[TopicName]
) -> Detail:
    earliest: dict[str, dict[str, int]] = {}
    if request.flag("getEarliestTimeInBacklog"):
        for name in topics:
            topic = context.core.topic(name.core_name)
            earliest[topic.name] = {
                key: NOTHING_WAITS if (ms := await oldest_ms(topic, each)) is None else ms
                for key, each in list(topic.subscriptions.items())
            }
    return Detail(
        publishers=not request.flag("excludePublishers"),
        consumers=not request.flag("excludeConsumers"),
        backlog_bytes=request.flag("subscriptionBacklogSize", default=True),
        earliest_ms=earliest,
    )


ROUTES: Final[list[Route]] = routes_of_topics(
    Route("GET", "/{topic}/stats", on_topic(TopicOperation.GET_STATS), stats),
    Route("GET", "/{topic}/internalStats", on_topic(TopicOperation.GET_STATS), internal),
    Route("GET", "/{topic}/internal-info", on_topic(TopicOperation.GET_STATS), info),
    Route("GET", "/{topic}/partitioned-stats", on_topic(TopicOperation.GET_STATS), partitioned),
    Route(
        "GET",
        "/{topic}/partitioned-internalStats",
        on_topic(TopicOperation.GET_STATS),
        partitioned_internal,
    ),
)
