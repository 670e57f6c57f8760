"""Topics: made, listed, removed, terminated, partitioned and shown."""

from collections.abc import Callable
from typing import Any, Final

from arneb_core.api.position import ENTRY_MASK, Position
from arneb_core.api.topics import Topic
from arneb_pulsar.admin.exchange import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.router import Route
from arneb_pulsar.names import (
    PERSISTENT,
    InvalidTopicName,
    TopicName,
    parse_namespace,
    parse_topic,
)
from arneb_pulsar.places.policies import PARTITIONS_MAX
from arneb_pulsar.places.registry import Partitioned
from arneb_pulsar.server.door import Door
from arneb_pulsar.session.effects import ListTopics
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

BUSY: Final = "Topic has active producers/subscriptions"


def topic_of(door: Door, request: AdminRequest) -> TopicName:
    """The topic that a path names, in a namespace that is there. Raises :class:`AdminError`."""
    names = request.names
    try:
        namespace = parse_namespace(f"{names['tenant']}/{names['namespace']}")
        topic = parse_topic(f"{names.get('domain', PERSISTENT)}://{namespace}/{names['topic']}")
    except InvalidTopicName as error:
        raise AdminError(412, f"Topic name is not valid: {error}") from error
    if not door.registry.has_namespace(namespace):
        raise AdminError(404, "Namespace not found")
    return topic


def plain(door: Door, name: TopicName) -> Topic:
    """The topic of that name, which is not partitioned. Raises :class:`AdminError`."""
    found = door.core.topics.get(name.core_name)
    if found is None:
        raise AdminError(404, f"Topic {name} not found")
    return found


def parts(door: Door, name: TopicName) -> list[TopicName]:
    """The partitions of a topic, or itself if it has none. Raises :class:`AdminError`."""
    if not door.all_topics.exists(name):
        raise AdminError(404, f"Topic {name} not found")
    return door.all_topics.parts(name)


# Coming and going


async def list_topics(door: Door, request: AdminRequest) -> AdminReply:
    return document(_listed(door, request, partitioned=False))


async def list_partitioned(door: Door, request: AdminRequest) -> AdminReply:
    return document(_listed(door, request, partitioned=True))


def _listed(door: Door, request: AdminRequest, *, partitioned: bool) -> list[str]:
    names = request.names
    try:
        namespace = parse_namespace(f"{names['tenant']}/{names['namespace']}")
    except InvalidTopicName as error:
        raise AdminError(412, f"Namespace name is not valid: {error}") from error
    if not door.registry.has_namespace(namespace):
        raise AdminError(404, "Namespace does not exist")
    if partitioned:
        return door.registry.partitioned_in(names["domain"], namespace)
    mode = CommandGetTopicsOfNamespace.ALL
    prefix = f"{names['domain']}://"
    found = door.topics(ListTopics(0, namespace, mode, ""))
    return [each for each in found if each.startswith(prefix)]


async def make(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if name.partition >= 0 and door.registry.partitions(name.base) <= name.partition:
        raise AdminError(412, f"Topic name {name} is that of a partition")
    if door.all_topics.exists(name):
        raise AdminError(409, "This topic already exists")
    await door.all_topics.make(name)
    return DONE


async def drop(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if door.registry.partitions(name):
        text = f"{name} is a partitioned topic, instead of calling delete topic, please call "
        raise AdminError(409, text + "delete-partitioned-topic.")
    plain(door, name)
    await door.drop(name, only_if=_only_if(door, request))
    return DONE


async def terminate(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if door.registry.partitions(name):
        raise AdminError(405, "Termination of a partitioned topic is not allowed")
    topic = plain(door, name)
    await door.terminate(topic)
    return document(message_id(topic.last, name.partition))


async def terminate_partitions(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if not door.registry.partitions(name):
        raise AdminError(405, "Termination of a non-partitioned topic is not allowed")
    ended: dict[str, dict[str, int]] = {}
    for part in door.all_topics.parts(name):
        topic = door.core.topic(part.core_name)
        await door.terminate(topic)
        ended[str(part.partition)] = message_id(topic.last, part.partition)
    return document(ended)


async def compact(door: Door, request: AdminRequest) -> AdminReply:
    for part in parts(door, topic_of(door, request)):
        if not part.is_persistent:
            raise AdminError(405, "Non-persistent topics cannot be compacted")
        if not door.compactor.want(door.core.topic(part.core_name)):
            raise AdminError(409, "Compaction already in progress")
    return DONE


async def compaction(door: Door, request: AdminRequest) -> AdminReply:
    outcome = door.compactor.outcome(plain(door, topic_of(door, request)))
    return document({"status": outcome.status.value, "lastError": outcome.error})


async def unload(door: Door, request: AdminRequest) -> AdminReply:
    for each in parts(door, topic_of(door, request)):
        door.disconnect(door.core.topic(each.core_name))
    return DONE


def _only_if(door: Door, request: AdminRequest) -> Callable[[Topic], bool] | None:
    """On what condition a topic is removed. Raises :class:`AdminError`."""

    def is_unused(topic: Topic) -> bool:
        if door.connected(topic) or any(each.consumers for each in topic.subscriptions.values()):
            raise AdminError(412, BUSY)
        return True

    return None if request.flag("force") else is_unused


# Partitions


def _number_of_partitions(request: AdminRequest) -> Partitioned:
    wanted = request.json()
    properties: dict[str, str] = {}
    if isinstance(wanted, dict):
        properties = wanted.get("properties") or {}
        wanted = wanted.get("partitions")
    if type(wanted) is not int or not 0 < wanted <= PARTITIONS_MAX:
        raise AdminError(
            406, f"Number of partitions should be more than 0 and at most {PARTITIONS_MAX}"
        )
    return Partitioned(wanted, properties)


async def make_partitioned(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if name.partition >= 0:
        raise AdminError(412, "Partitioned Topic Name should not contain '-partition-'")
    made = _number_of_partitions(request)
    if door.all_topics.exists(name):
        raise AdminError(409, "This topic already exists")
    await door.all_topics.make_partitioned(name, made)
    return DONE


async def add_partitions(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    wanted = _number_of_partitions(request).partitions
    present = door.registry.partitions(name)
    if not present:
        raise AdminError(409, f"Topic {name} is not the partitioned topic.")
    if wanted < present:
        text = f"Desired partitions {wanted} can't be less than the current partitions {present}."
        raise AdminError(422, text)
    await door.all_topics.add_partitions(name, wanted)
    return DONE


async def get_partitions(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if request.flag("checkAllowAutoCreation"):
        await door.all_topics.partitions(name, create=True)
    elif not door.all_topics.exists(name):
        raise AdminError(404, f"Topic {name} not found")
    found = door.registry.partitioned(name)
    count, properties = (0, {}) if found is None else (found.partitions, dict(found.properties))
    answer: dict[str, Any] = {"partitions": count, "deleted": False}
    return document(answer | ({"properties": properties} if properties else {}))


async def drop_partitioned(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    if name.core_name in door.core.topics:
        text = f"{name} is a non-partitioned topic. Instead of calling delete-partitioned-topic "
        raise AdminError(409, text + "please call delete.")
    if not door.registry.partitions(name):
        raise AdminError(404, f"Partitioned Topic not found: {name} has zero partitions")
    only_if = _only_if(door, request)
    if only_if is not None:
        for part in door.all_topics.parts(name):  # before the first of them goes
            only_if(door.core.topic(part.core_name))
    await door.drop_partitioned(name, only_if=only_if)
    return DONE


async def make_missing(door: Door, request: AdminRequest) -> AdminReply:
    await door.all_topics.make_missing(topic_of(door, request))
    return DONE


# Message ids


def message_id(place: Position | None, partition: int = -1) -> dict[str, int]:
    """A message id as JSON; None = before everything."""
    if place is None:
        return {"ledgerId": -1, "entryId": -1, "partitionIndex": partition}
    ledger, entry = place >> 32, place & ENTRY_MASK
    if entry == ENTRY_MASK:
        ledger, entry = ledger + 1, -1
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": partition}


async def last_message_id(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    return document(message_id(plain(door, name).last, name.partition))


async def id_of_time(door: Door, request: AdminRequest) -> AdminReply:
    name = topic_of(door, request)
    topic = plain(door, name)
    found = await topic.first_published(request.number("timestamp"))
    return document(message_id(topic.last if found is None else found, name.partition))


_DOMAINS: Final = ("persistent", "non-persistent")


def routes_of_topics(*routes: Route) -> list[Route]:
    """Routes below a topic's namespace, for both domains."""
    root = "/admin/v2/{{domain={}}}/{{tenant}}/{{namespace}}"
    return [
        (method, root.format(domain) + path, handler)
        for domain in _DOMAINS
        for method, path, handler in routes
    ]


ROUTES: Final[list[Route]] = routes_of_topics(
    ("GET", "", list_topics),
    ("GET", "/partitioned", list_partitioned),
    ("PUT", "/{topic}", make),
    ("DELETE", "/{topic}", drop),
    ("PUT", "/{topic}/unload", unload),
    ("PUT", "/{topic}/compaction", compact),
    ("GET", "/{topic}/compaction", compaction),
    ("POST", "/{topic}/terminate", terminate),
    ("POST", "/{topic}/terminate/partitions", terminate_partitions),
    ("PUT", "/{topic}/partitions", make_partitioned),
    ("POST", "/{topic}/partitions", add_partitions),
    ("GET", "/{topic}/partitions", get_partitions),
    ("DELETE", "/{topic}/partitions", drop_partitioned),
    ("POST", "/{topic}/createMissedPartitions", make_missing),
    ("GET", "/{topic}/lastMessageId", last_message_id),
    ("GET", "/{topic}/messageid/{timestamp}", id_of_time),
)
