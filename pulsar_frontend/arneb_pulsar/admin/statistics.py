"""Statistics of topics, as the admin API gives them."""

from typing import Final

from arneb_pulsar.admin.documents import internal_document, partitioned_document, topic_document
from arneb_pulsar.admin.exchange import AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.router import Route
from arneb_pulsar.admin.topics import plain, routes_of_topics, topic_of
from arneb_pulsar.server.door import Door


async def stats(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    plain(door, name)
    return document(topic_document(door, name))


async def internal(door: Door, request: AdminRequest) -> AdminReply:
    return document(internal_document(plain(door, topic_of(door, request))))


async def partitioned(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if not door.registry.partitions(name):
        raise AdminError(404, f"Partitioned Topic not found: {name}")
    each = request.query.get("perPartition", "true").lower() == "true"
    return document(partitioned_document(door, name, each=each))


async def partitioned_internal(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    count = door.registry.partitions(name)
    if not count:
        raise AdminError(404, f"Partitioned Topic not found: {name}")
    shown = {
        str(part): internal_document(door.core.topic(part.core_name))
        for part in door.all_topics.parts(name)
    }
    return document({"metadata": {"partitions": count, "deleted": False}, "partitions": shown})


ROUTES: Final[list[Route]] = routes_of_topics(
    ("GET", "/{topic}/stats", stats),
    ("GET", "/{topic}/internalStats", internal),
    ("GET", "/{topic}/partitioned-stats", partitioned),
    ("GET", "/{topic}/partitioned-internalStats", partitioned_internal),
)
