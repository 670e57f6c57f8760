"""Topics: created, listed, removed, terminated, partitioned and shown."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import NotAllowed
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.calls.paths import namespace_in, persistent_topic_in, topic_in
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_namespace, on_policy, on_topic
from arneb_pulsar.admin.namespaces.namespaces import boundaries_of
from arneb_pulsar.authorization.operations import NamespaceOperation, TopicOperation
from arneb_pulsar.names import TopicName, is_system_name
from arneb_pulsar.namespaces.bundles import bundle_of, named
from arneb_pulsar.namespaces.coercion import is_nothing, whole_number
from arneb_pulsar.namespaces.fields import read_properties
from arneb_pulsar.namespaces.rules import PARTITIONS_MAX
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.namespaces.registry import Partitioned
from arneb_pulsar.services.operations import topic_lifecycle as lifecycle
from arneb_pulsar.services.operations.topic_access import last_message

BUSY: Final = "Topic has active producers/subscriptions"
ONE_BY_ONE: Final = ", please try do it on specific topic partition"
LIKE_A_PARTITION: Final = "Partitioned Topic Name should not contain '-partition-'"
INTERNAL: Final = "Cannot create topic in system topic format!"


def topic_of(context: BrokerContext, request: AdminRequest) -> TopicName:
    """Return the topic that a path names, whose namespace must exist. Raises
    :class:`AdminError`."""
    topic = topic_in(request)
    if not context.namespaces.has_namespace(topic.namespace):
        raise AdminError(404, "Namespace not found")
    return topic


def plain(context: BrokerContext, name: TopicName) -> Topic:
    """Return the topic of that name, which must not be partitioned. Raises :class:`AdminError`."""
    found = context.core.topics.get(name.core_name)
    if found is None:
        raise AdminError(404, _why_not_there(context, name))
    return found


def undivided(context: BrokerContext, name: TopicName, refusal: str) -> Topic:
    """Return the topic for a call that needs one partition: 405 with ``refusal`` for a partitioned
    topic."""
    if context.namespaces.partitions(name):
        raise AdminError(405, refusal)
    return plain(context, name)


def kept(context: BrokerContext, name: TopicName, what: str, instead: str = "") -> Topic:
    """Return the topic for a call about one log: ``what`` begins its refusals, and ``instead`` ends
    that for a partitioned topic."""
    topic = undivided(context, name, f"{what} a partitioned topic is not allowed{instead}")
    if not name.is_persistent:
        raise AdminError(405, f"{what} a non-persistent topic is not allowed")
    return topic


def parts(context: BrokerContext, name: TopicName) -> list[TopicName]:
    """Return the partitions of a topic, or itself if it has none. Raises :class:`AdminError`."""
    if not context.topics.exists(name):
        raise AdminError(404, _why_not_there(context, name))
    return context.topics.parts(name)


def _why_not_there(context: BrokerContext, name: TopicName) -> str:
    if name.partition < 0:
        return f"Topic {name} not found"
    if not context.namespaces.partitions(name.base):
        return f"Partitioned Topic not found: {name} has zero partitions"
    return "Topic partitions were not yet created"


# Coming and going


async def list_topics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """List the topics of a namespace, or of a bundle if one is named; an unknown bundle has
    none."""
    found = _listed(context, request, partitioned=False)
    if (bundle := request.query.get("bundle")) is not None:
        boundaries = boundaries_of(context, namespace_in(request))
        found = [each for each in found if named(*bundle_of(boundaries, each)) == bundle]
    return document(found)


async def list_partitioned(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(_listed(context, request, partitioned=True))


def _listed(context: BrokerContext, request: AdminRequest, *, partitioned: bool) -> list[str]:
    names, namespace = request.names, namespace_in(request)
    if not context.namespaces.has_namespace(namespace):
        raise AdminError(404, "Namespace does not exist")
    if partitioned:
        found = context.namespaces.partitioned_in(names["domain"], namespace)
        return [each for each in found if with_system(request) or not is_system_name(each)]
    if with_system(request):
        return context.topics.named(namespace, (names["domain"],))
    return context.topics.listed(namespace, (names["domain"],))


def with_system(request: AdminRequest) -> bool:
    """Return whether system topics are requested too."""
    return request.flag("includeSystemTopic")


async def make(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    if name.partition >= 0 and context.namespaces.partitions(name.base) <= name.partition:
        raise AdminError(412, f"Topic name {name} is that of a partition")
    if name.is_internal:
        raise AdminError(400, INTERNAL)
    if context.topics.exists(name):
        raise AdminError(409, "This topic already exists")
    properties = properties_of(request.given())
    await context.topics.make(name)
    if properties:
        await context.namespaces.change_properties(name, lambda _: properties)
    return DONE


async def drop(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_in(request)
    if context.namespaces.partitions(name):
        text = f"{name} is a partitioned topic, instead of calling delete topic, please call "
        raise AdminError(409, text + "delete-partitioned-topic.")
    plain(context, name)
    await lifecycle.drop(context, name, only_if=_only_if(context, request))
    return DONE


async def terminate(context: BrokerContext, request: AdminRequest) -> AdminReply:
    persistent_topic_in(request)
    name = topic_of(context, request)
    topic = undivided(context, name, "Termination of a partitioned topic is not allowed")
    await lifecycle.terminate(context, topic)
    return document(message_id(topic, topic.last, name.partition))


async def terminate_partitions(context: BrokerContext, request: AdminRequest) -> AdminReply:
    persistent_topic_in(request)
    name = topic_of(context, request)
    if not context.namespaces.partitions(name):
        text = "Termination of a non-partitioned topic is not allowed using partitioned-terminate"
        raise AdminError(405, f"{text}, please use terminate commands")
    ended: dict[str, dict[str, int]] = {}
    for part in context.topics.parts(name):
        topic = context.core.topic(part.core_name)
        await lifecycle.terminate(context, topic)
        ended[str(part.partition)] = message_id(topic, topic.last, part.partition)
    return document(ended)


async def compact(context: BrokerContext, request: AdminRequest) -> AdminReply:
    for part in parts(context, topic_of(context, request)):
        if not part.is_persistent:
            raise AdminError(405, "Non-persistent topics cannot be compacted")
        if not context.compactor.want(context.core.topic(part.core_name)):
            raise AdminError(409, "Compaction already in progress")
    return DONE


async def compaction(context: BrokerContext, request: AdminRequest) -> AdminReply:
    outcome = context.compactor.outcome(plain(context, topic_in(request)))
    return document({"status": outcome.status.value, "lastError": outcome.error})


async def unload(context: BrokerContext, request: AdminRequest) -> AdminReply:
    for each in parts(context, topic_of(context, request)):
        lifecycle.disconnect(context, context.core.topic(each.core_name))
    return DONE


def _only_if(context: BrokerContext, request: AdminRequest) -> Callable[[Topic], bool] | None:
    """Return the condition on which a topic is removed. Raises :class:`AdminError`."""

    def is_unused(topic: Topic) -> bool:
        if lifecycle.is_connected(context, topic) or any(
            each.consumers for each in topic.subscriptions.values()
        ):
            raise AdminError(412, BUSY)
        return True

    return None if request.flag("force") else is_unused


def properties_of(given: Any) -> Mapping[str, str]:
    """Return the properties in a body; ``null`` means none. Raises :class:`AdminError`."""
    try:
        return {} if given is None else read_properties(given)
    except ValueError as error:
        raise AdminError(400, str(error)) from error


# Partitions


def _number_of_partitions(request: AdminRequest, least: int = 0) -> Partitioned:
    """Return the number of partitions in the body, at least ``least``. Raises
    :class:`AdminError`."""
    wanted = request.json()
    properties: Mapping[str, str] = {}
    if isinstance(wanted, dict):
        properties = properties_of(wanted.get("properties"))
        if "partitions" not in wanted:
            raise AdminError(400, f"expected a number of partitions, got {wanted!r:.60}")
        wanted = wanted["partitions"]
    number = 0 if is_nothing(wanted) else whole_number(wanted)
    if number is None:
        raise AdminError(400, f"expected a number of partitions, got {wanted!r:.60}")
    if least and number < least:
        text = f"Desired partitions {number} can't be less than the current partitions {least}."
        raise AdminError(422, text)
    if not 0 < number <= PARTITIONS_MAX:
        raise AdminError(
            406, f"Number of partitions should be more than 0 and at most {PARTITIONS_MAX}"
        )
    return Partitioned(number, properties)


def whole_topic_of(
    context: BrokerContext, request: AdminRequest, *, made: bool = False
) -> TopicName:
    """Return the topic of a call for partitioned topics, which must not name a partition; a topic
    to be created must not even look like one. Raises :class:`AdminError`."""
    name = topic_of(context, request)
    if made and "-partition-" in name.local:
        raise AdminError(412, LIKE_A_PARTITION)
    return _whole(name)


def _whole(name: TopicName) -> TopicName:
    if name.partition >= 0:
        raise AdminError(412, LIKE_A_PARTITION)
    return name


async def make_partitioned(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = whole_topic_of(context, request, made=True)
    if name.is_internal:
        raise AdminError(400, INTERNAL)
    made = _number_of_partitions(request)
    if context.topics.exists(name):
        raise AdminError(409, "This topic already exists")
    try:
        context.topics.check_room(name.namespace, made.partitions)
    except NotAllowed as error:  # 409 for a topic without partitions
        raise AdminError(412, str(error)) from error
    await context.topics.make_partitioned(name, made)
    return DONE


async def add_partitions(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = whole_topic_of(context, request)
    present = context.namespaces.partitions(name)
    wanted = _number_of_partitions(request, present).partitions
    if not present:
        raise AdminError(409, f"Topic {name} is not the partitioned topic.")
    await context.topics.add_partitions(name, wanted)
    return DONE


async def get_partitions(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    if request.flag("checkAllowAutoCreation"):
        await context.topics.partitions(name, create=True)
    elif not context.topics.exists(name):
        raise AdminError(404, f"Topic {name} not found")
    found = context.namespaces.partitioned(name)
    count, properties = (0, {}) if found is None else (found.partitions, dict(found.properties))
    answer: dict[str, Any] = {"partitions": count, "deleted": False}
    return document(answer | ({"properties": properties} if properties else {}))


async def drop_partitioned(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = _whole(topic_in(request))
    if name.core_name in context.core.topics:
        text = f"{name} is a non-partitioned topic. Instead of calling delete-partitioned-topic "
        raise AdminError(409, text + "please call delete.")
    if not context.namespaces.partitions(name):
        raise AdminError(404, f"Topic {name} not found.")
    only_if = _only_if(context, request)
    if only_if is not None:
        for part in context.topics.parts(name):  # before the first of them is removed
            only_if(context.core.topic(part.core_name))
    await lifecycle.drop_partitioned(context, name, only_if=only_if)
    return DONE


async def make_missing(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = whole_topic_of(context, request, made=True)
    if not context.namespaces.partitions(name):
        raise AdminError(404, f"Topic {name} does not exist")
    await context.topics.make_missing(name)
    return DONE


# Message ids


def message_id(
    topic: Topic, position: Position | None, partition: int = -1, index: int = -1
) -> dict[str, int]:
    """Return a message id as JSON; None: before everything. ``index``: in its batch."""
    ledger, entry = (-1, -1) if position is None else LedgerIds(topic.id).place(position)
    found = {"ledgerId": ledger, "entryId": entry, "partitionIndex": partition}
    return found | {"batchIndex": index, "batchSize": 0}


OF_A_BATCH: Final = {"outstandingAcksInSameBatch": 0, "originalBatchSize": 0}
"""Additional fields of Pulsar's ids of messages in batches."""


async def last_message_id(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_in(request)
    topic = plain(context, name)
    if not name.is_persistent:
        raise AdminError(405, "GetLastMessageId on a non-persistent topic is not allowed")
    position, size = await last_message(topic, compacted=False)
    found = message_id(topic, position, name.partition, size - 1 if size > 0 else -1)
    return document(found | (OF_A_BATCH if size > 0 else {}))


async def id_of_time(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = topic_of(context, request)
    topic = kept(context, name, "Get message ID by timestamp on", ONE_BY_ONE)
    found = await topic.first_published(request.number("timestamp"))
    if found is None and topic.last is not None:
        found = Position(topic.last + 1)
    return document(message_id(topic, found, name.partition))


_DOMAINS: Final = ("persistent", "non-persistent")


def routes_of_topics(*routes: Route) -> list[Route]:
    """Return routes below a topic's namespace, for both domains."""
    root = "/admin/v2/{{domain={}}}/{{tenant}}/{{namespace}}"
    return [
        each._replace(path=root.format(domain) + each.path)
        for domain in _DOMAINS
        for each in routes
    ]


ROUTES: Final[list[Route]] = routes_of_topics(
    Route("GET", "", on_namespace(NamespaceOperation.GET_TOPICS), list_topics),
    Route("GET", "/partitioned", on_namespace(NamespaceOperation.GET_TOPICS), list_partitioned),
    Route("PUT", "/{topic}", on_namespace(NamespaceOperation.CREATE_TOPIC), make),
    Route("DELETE", "/{topic}", on_namespace(NamespaceOperation.DELETE_TOPIC), drop),
    Route("PUT", "/{topic}/unload", on_topic(TopicOperation.UNLOAD), unload),
    Route("PUT", "/{topic}/compaction", on_topic(TopicOperation.COMPACT), compact),
    Route("GET", "/{topic}/compaction", on_topic(TopicOperation.COMPACT), compaction),
    Route("POST", "/{topic}/terminate", on_topic(TopicOperation.TERMINATE), terminate),
    Route(
        "POST",
        "/{topic}/terminate/partitions",
        on_topic(TopicOperation.TERMINATE),
        terminate_partitions,
    ),
    Route(
        "PUT",
        "/{topic}/partitions",
        on_namespace(NamespaceOperation.CREATE_TOPIC),
        make_partitioned,
    ),
    Route(
        "POST",
        "/{topic}/partitions",
        on_policy("PARTITION", writes=True, of_topic=True),
        add_partitions,
    ),
    Route("GET", "/{topic}/partitions", on_topic(TopicOperation.LOOKUP), get_partitions),
    Route(
        "DELETE",
        "/{topic}/partitions",
        on_namespace(NamespaceOperation.DELETE_TOPIC),
        drop_partitioned,
    ),
    Route(
        "POST",
        "/{topic}/createMissedPartitions",
        on_namespace(NamespaceOperation.CREATE_TOPIC),
        make_missing,
    ),
    Route("GET", "/{topic}/lastMessageId", on_topic(TopicOperation.PEEK_MESSAGES), last_message_id),
    Route(
        "GET", "/{topic}/messageid/{timestamp}", on_topic(TopicOperation.PEEK_MESSAGES), id_of_time
    ),
)
