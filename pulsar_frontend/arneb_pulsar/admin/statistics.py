"""Statistics of topics, as the admin API gives them."""

from typing import Final

from arneb_pulsar.admin.documents import (
    Detail,
    internal_document,
    partitioned_document,
    topic_document,
)
from arneb_pulsar.admin.exchange import AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.router import Route
from arneb_pulsar.admin.rules import on_topic
from arneb_pulsar.admin.topics import plain, routes_of_topics, topic_of
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.services.context import BrokerContext


async def stats(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    plain(context, name)
    return document(topic_document(context, name, _detail(request)))


async def internal(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(internal_document(plain(context, topic_of(context, request))))


async def partitioned(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    if not context.namespaces.partitions(name):
        raise AdminError(404, f"Partitioned Topic not found: {name}")
    each = request.query.get("perPartition", "true").lower() == "true"
    return document(partitioned_document(context, name, _detail(request), each=each))


async def partitioned_internal(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    count = context.namespaces.partitions(name)
    if not count:
        raise AdminError(404, f"Partitioned Topic not found: {name}")
    shown = {
        str(part): internal_document(context.core.topic(part.core_name))
        for part in context.topics.parts(name)
    }
    return document({"metadata": {"partitions": count, "deleted": False}, "partitions": shown})


def _detail(request: AdminRequest) -> Detail:
    return Detail(
        publishers=not request.flag("excludePublishers"),
        consumers=not request.flag("excludeConsumers"),
    )


ROUTES: Final[list[Route]] = routes_of_topics(
    Route("GET", "/{topic}/stats", on_topic(TopicOperation.GET_STATS), stats),
    Route("GET", "/{topic}/internalStats", on_topic(TopicOperation.GET_STATS), internal),
    Route("GET", "/{topic}/partitioned-stats", on_topic(TopicOperation.GET_STATS), partitioned),
    Route(
        "GET",
        "/{topic}/partitioned-internalStats",
        on_topic(TopicOperation.GET_STATS),
        partitioned_internal,
    ),
)
