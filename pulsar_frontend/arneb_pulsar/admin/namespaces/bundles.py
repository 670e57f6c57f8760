"""Bundles: parts of namespaces, which calls name and split, and operations on all topics of a
bundle.

The rule: without a bundle in the path, a call concerns all topics of the namespace. The one broker
has them all, so unloading makes clients reconnect, and splitting changes only names.
"""

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from arneb_core.api.errors import SubscriptionNotFound
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import SUPER_USER, on_namespace, on_policy
from arneb_pulsar.admin.calls.unsupported import check_name
from arneb_pulsar.admin.namespaces.namespaces import (
    PATH,
    boundaries_of,
    bundles_document,
    namespace_of,
)
from arneb_pulsar.authorization.authorizer import PrefixNeeded
from arneb_pulsar.authorization.operations import NamespaceOperation, TopicOperation
from arneb_pulsar.names import NON_PERSISTENT, RESERVED_SUBSCRIPTIONS, topic_name_of
from arneb_pulsar.namespaces import bundles
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.topic_lifecycle import disconnect

ALGORITHMS: Final = ("range_equally_divide",)
"""Splitting in halves, the only algorithm that does not depend on load."""

OTHERS: Final = (
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
"""Pulsar's other split algorithms, which balance load among brokers."""


def bundle_in(context: BrokerContext, request: AdminRequest) -> tuple[int, int] | None:
    """Return the bundle that a path names, if any. Raises :class:`AdminError`."""
    name = request.names.get("bundle")
    if name is None:
        return None
    namespace = namespace_of(context, request)
    try:
        return bundles.find(boundaries_of(context, namespace), name, namespace)
    except bundles.InvalidBundle as error:
        check_name(name)  # in the same part of the path, other calls name what they remove
        raise AdminError(412, str(error)) from error


def topics_in(context: BrokerContext, request: AdminRequest) -> list[Topic]:
    """Return the topics of the namespace that a path names, or of its bundle. Raises
    :class:`AdminError`."""
    namespace, bundle = namespace_of(context, request), bundle_in(context, request)
    names = context.topics.named(namespace)
    if bundle is not None:
        names = [each for each in names if bundles.holds(bundle, each)]
    return [context.core.topics[each] for each in names]


async def get_bundles(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return document(bundles_document(context, namespace_of(context, request)))


async def list_fleeting(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the non-persistent topics of one bundle."""
    names = [each.name for each in topics_in(context, request)]
    return document([each for each in names if each.startswith(NON_PERSISTENT)])


async def unload(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Make every client look its topics up again; they stay on this broker."""
    for topic in topics_in(context, request):
        disconnect(context, topic)
    return DONE


async def split(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Split a bundle in two."""
    namespace = namespace_of(context, request)
    algorithm = request.query.get("splitAlgorithmName") or ALGORITHMS[0]
    if algorithm not in ALGORITHMS:
        if algorithm in OTHERS:
            text = f"{algorithm} balances load among brokers, of which there is one"
            raise AdminError(501, text)
        known = ", ".join((*ALGORITHMS, *OTHERS))
        text = "Unsupported namespace bundle split algorithm, supported algorithms are "
        raise AdminError(412, f"{text}[{known}]")
    boundaries = boundaries_of(context, namespace)
    try:
        if request.names["bundle"] == LARGEST:
            names = context.topics.named(namespace)
            found = max(
                itertools.pairwise(boundaries),
                key=lambda each: sum(bundles.holds(each, name) for name in names),
            )
        else:
            found = bundles.find(boundaries, request.names["bundle"], namespace)
        after = bundles.split(boundaries, found)
    except bundles.InvalidBundle as error:
        raise AdminError(412, str(error)) from error
    await context.namespaces.change_namespace(namespace, lambda own: replace(own, bundles=after))
    return DONE


LARGEST: Final = "LARGEST"
"""In place of a bundle's name, the one with the most topics."""


async def drop(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Only an empty bundle may be removed, and then there is nothing to do."""
    if topics_in(context, request):
        raise AdminError(409, "Cannot delete non empty bundle")
    return DONE


async def hash_positions(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace, topics = namespace_of(context, request), topics_in(context, request)
    names = [each.name for each in topics]
    if wanted := request.every("topics"):
        chosen = set(map(_full_name, wanted))
        names = [each for each in names if chosen & {each, _base(each)}]
    return document(
        {
            "namespace": namespace,
            "bundle": request.names["bundle"],
            "topicHashPositions": {each: bundles.hash_of(each) for each in names},
        }
    )


def _full_name(name: str) -> str:
    """Return a topic's full name, whichever form was given."""
    known = topic_name_of(name)
    return name if known is None else str(known)


def _base(name: str) -> str:
    """Return the name of the topic that ``name`` is a partition of, or else ``name``."""
    known = topic_name_of(name)
    return name if known is None else str(known.base)


Work = Callable[[Topic, Subscription], Awaitable[None]]


async def _over_subscriptions(
    context: BrokerContext, request: AdminRequest, operation: TopicOperation, work: Work
) -> AdminReply:
    """Apply ``work`` to one subscription of every topic, or to all of them."""
    wanted = request.names.get("subscription")
    for topic in topics_in(context, request):
        for each in list(topic.subscriptions.values()):
            is_meant = (
                each.name not in RESERVED_SUBSCRIPTIONS if wanted is None else each.name == wanted
            )
            if is_meant and _may(context, request, topic, each, operation):
                await work(topic, each)
    return DONE


async def clear(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Clear the backlogs of subscriptions."""

    async def work(topic: Topic, subscription: Subscription) -> None:
        if topic.last is not None:
            await subscription.skip_through(topic.last)

    return await _over_subscriptions(context, request, TopicOperation.SKIP, work)


async def unsubscribe(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Remove a subscription from every topic. Raises :class:`SubscriptionBusy` at the first one
    that has consumers."""
    if (name := request.names["subscription"]) in RESERVED_SUBSCRIPTIONS:
        raise AdminError(412, f"Subscription {name!r} is the broker's own")

    async def work(topic: Topic, subscription: Subscription) -> None:
        try:
            await topic.unsubscribe(subscription.name)
        except SubscriptionNotFound:
            return  # already removed by somebody else

    return await _over_subscriptions(context, request, TopicOperation.UNSUBSCRIBE, work)


def _may(
    context: BrokerContext,
    request: AdminRequest,
    topic: Topic,
    subscription: Subscription,
    operation: TopicOperation,
) -> bool:
    """Return whether the caller may: a right on the namespace does not include subscriptions of
    other roles, or queues."""
    name = topic_name_of(topic.name)
    if name is None:
        return context.authorizer.is_super(request.caller)
    try:
        return context.authorizer.allows_topic(request.caller, name, operation, subscription.name)
    except PrefixNeeded:
        return False


def bundles_of(context: BrokerContext) -> dict[str, dict[str, list[Topic]]]:
    """Return the topics of Pulsar's namespaces by bundle, without empty bundles."""
    found: dict[str, dict[str, list[Topic]]] = {}
    for topic in context.core.topics.values():
        name = topic_name_of(topic.name)
        if name is None:
            continue
        boundaries = boundaries_of(context, name.namespace)
        bundle = bundles.named(*bundles.bundle_of(boundaries, topic.name))
        found.setdefault(name.namespace, {}).setdefault(bundle, []).append(topic)
    return found


CLEAR: Final = on_namespace(NamespaceOperation.CLEAR_BACKLOG)
UNSUBSCRIBE: Final = on_namespace(NamespaceOperation.UNSUBSCRIBE)
BUNDLE: Final = PATH + "/{bundle}"

ROUTES: Final[list[Route]] = [
    Route("GET", PATH + "/bundles", on_namespace(NamespaceOperation.GET_BUNDLE), get_bundles),
    Route("PUT", PATH + "/unload", SUPER_USER, unload),
    Route("PUT", BUNDLE + "/unload", SUPER_USER, unload),
    Route("PUT", BUNDLE + "/split", SUPER_USER, split),
    Route("DELETE", BUNDLE, on_namespace(NamespaceOperation.DELETE_BUNDLE), drop),
    Route(
        "GET",
        BUNDLE + "/topicHashPositions",
        on_policy("PERSISTENCE", writes=False, of_topic=False),
        hash_positions,
    ),
    Route("POST", PATH + "/clearBacklog", CLEAR, clear),
    Route("POST", PATH + "/clearBacklog/{subscription}", CLEAR, clear),
    Route("POST", BUNDLE + "/clearBacklog", CLEAR, clear),
    Route("POST", BUNDLE + "/clearBacklog/{subscription}", CLEAR, clear),
    Route("POST", PATH + "/unsubscribe/{subscription}", UNSUBSCRIBE, unsubscribe),
    Route("POST", BUNDLE + "/unsubscribe/{subscription}", UNSUBSCRIBE, unsubscribe),
    Route(
        "GET",
        "/admin/v2/{domain=non-persistent}/{tenant}/{namespace}/{bundle}",
        on_namespace(NamespaceOperation.GET_BUNDLE),
        list_fleeting,
    ),
]
