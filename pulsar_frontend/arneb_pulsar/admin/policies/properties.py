"""Properties of topics and namespaces: text by name, set by operators.

The rule: given properties are added to the existing ones, and only named ones are removed. A
partitioned topic has properties as a whole; its partitions and non-persistent topics have none.
"""

from dataclasses import replace
from typing import Final

from arneb_pulsar.admin.calls.paths import persistent_topic_in
from arneb_pulsar.admin.calls.requests import (
    DONE,
    NOTHING_SET,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
    text,
)
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import ADMIN, on_topic
from arneb_pulsar.admin.namespaces.namespaces import PATH, namespace_of
from arneb_pulsar.admin.topics.topics import properties_of, routes_of_topics
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.names import TopicName
from arneb_pulsar.services.context import BrokerContext


async def find(context: BrokerContext, request: AdminRequest) -> AdminReply:
    topic = _there(context, request)
    found = context.namespaces.properties(topic)
    if not found and context.namespaces.partitions(topic):
        return NOTHING_SET  # as Pulsar answers for a partitioned topic
    return document(dict(found))


async def add(context: BrokerContext, request: AdminRequest) -> AdminReply:
    topic, more = _there(context, request), properties_of(request.given())
    await context.namespaces.change_properties(topic, lambda own: {**own, **more})
    return DONE


async def drop(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Remove one property; without ``key`` all of them."""
    topic, key = _there(context, request), request.query.get("key")
    await context.namespaces.change_properties(
        topic,
        lambda own: {} if key is None else {name: it for name, it in own.items() if name != key},
    )
    return DONE


# One property of a namespace


async def find_one(context: BrokerContext, request: AdminRequest) -> AdminReply:
    own = context.namespaces.namespace_policies(namespace_of(context, request)).properties
    found = own.get(request.names["key"])
    return NOTHING_SET if found is None else text(found)


async def put_one(context: BrokerContext, request: AdminRequest) -> AdminReply:
    key, value = request.names["key"], request.names["value"]
    await context.namespaces.change_namespace(
        namespace_of(context, request),
        lambda own: replace(own, properties={**own.properties, key: value}),
    )
    return DONE


async def drop_one(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Remove a property and return its value."""
    was, key = await find_one(context, request), request.names["key"]
    await context.namespaces.change_namespace(
        namespace_of(context, request),
        lambda own: replace(
            own, properties={name: it for name, it in own.properties.items() if name != key}
        ),
    )
    return was


def _there(context: BrokerContext, request: AdminRequest) -> TopicName:
    topic = persistent_topic_in(request)
    if not context.topics.exists(topic):
        raise AdminError(404, f"Topic {topic} not found")
    return topic.base


_ONE: Final = PATH + "/property/{key}"

ROUTES: Final[list[Route]] = [
    Route("GET", _ONE, ADMIN, find_one),
    Route("PUT", _ONE + "/{value}", ADMIN, put_one),
    Route("DELETE", _ONE, ADMIN, drop_one),
    *routes_of_topics(
        Route("GET", "/{topic}/properties", on_topic(TopicOperation.GET_METADATA), find),
        Route("PUT", "/{topic}/properties", on_topic(TopicOperation.UPDATE_METADATA), add),
        Route("DELETE", "/{topic}/properties", on_topic(TopicOperation.DELETE_METADATA), drop),
    ),
]
