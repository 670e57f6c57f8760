"""Settings that cannot be set here, answered as Pulsar does when they are not set.

The rule: reading them changes nothing, and tools that read all settings of a namespace or a topic
must continue. Setting them is refused, with the reason (``unsupported``).
"""

from typing import Final

from arneb_pulsar.admin.brokers.clusters import CLUSTER, cluster_of, clusters_of
from arneb_pulsar.admin.calls.requests import (
    DONE,
    NOTHING_SET,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
)
from arneb_pulsar.admin.calls.router import Handler, Route
from arneb_pulsar.admin.calls.rules import SUPER_USER, on_policy, on_topic
from arneb_pulsar.admin.namespaces.namespaces import PATH, namespace_of
from arneb_pulsar.admin.namespaces.policy_kinds import NO_DISPATCH_RATE
from arneb_pulsar.admin.policies.policies import target_of
from arneb_pulsar.admin.subscriptions.subscriptions import subscription_of
from arneb_pulsar.admin.topics.topics import plain, routes_of_topics, topic_of
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.services.context import BrokerContext

NOTHING_OFFLOADED: Final = document(-1)
"""An offload threshold that no topic reaches."""


def _of_namespace(reply: AdminReply) -> Handler:
    async def get(context: BrokerContext, request: AdminRequest) -> AdminReply:
        namespace_of(context, request)  # it must exist
        return reply

    return get


def _of_topic(holds: AdminReply) -> Handler:
    async def get(context: BrokerContext, request: AdminRequest) -> AdminReply:
        target_of(context, request)  # it must exist
        return holds if request.flag("applied") else NOTHING_SET

    return get


async def replicated(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return that a subscription is not replicated, in any partition."""
    name = topic_of(context, request)
    if not name.is_persistent:
        raise AdminError(405, "Cannot get replicated subscriptions on non-persistent topics")
    parts = context.topics.parts(name) if context.namespaces.partitions(name) else [name]
    for part in parts:
        subscription_of(plain(context, part), request.names["subscription"])
    return document({str(part): False for part in parts})


async def nothing_known(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return no racks or failure domains."""
    return document({})


async def peers(context: BrokerContext, request: AdminRequest) -> AdminReply:
    cluster_of(context, request)
    return NOTHING_SET


async def isolated(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Answer that the cluster has no isolation policies."""
    name = request.names["cluster"]
    if name not in clusters_of(context):
        raise AdminError(404, f"Cluster {name} does not exist.")
    raise AdminError(404, f"NamespaceIsolationPolicies for cluster {name} does not exist")


async def domain(context: BrokerContext, request: AdminRequest) -> AdminReply:
    name = request.names["cluster"]
    if name not in clusters_of(context):
        raise AdminError(412, f"Cluster {name} does not exist.")
    text = f"Domain {request.names['name']} for cluster {name} does not exist"
    raise AdminError(404, text)


def _asked(path: str, policy: str, reply: AdminReply = NOTHING_SET) -> Route:
    rule = on_policy(policy, writes=False, of_topic=False)
    return Route("GET", f"{PATH}/{path}", rule, _of_namespace(reply))


def _asked_of_topic(path: str, policy: str, holds: AdminReply = NOTHING_SET) -> Route:
    """Return the route of a topic's setting; ``holds`` is the answer for the value in force."""
    rule = on_policy(policy, writes=False, of_topic=True)
    return Route("GET", f"/{{topic}}/{path}", rule, _of_topic(holds))


ROUTES: Final[list[Route]] = [
    _asked("replicatorDispatchRate", "REPLICATION_RATE"),
    _asked("antiAffinity", "ANTI_AFFINITY", DONE),
    Route("GET", f"{PATH}/persistence/bookieAffinity", SUPER_USER, _of_namespace(DONE)),
    _asked("offloadPolicies", "OFFLOAD"),
    _asked("offloadThreshold", "OFFLOAD", NOTHING_OFFLOADED),
    _asked("offloadThresholdInSeconds", "OFFLOAD", NOTHING_OFFLOADED),
    _asked("offloadDeletionLagMs", "OFFLOAD"),
    _asked("entryFilters", "ENTRY_FILTERS"),
    Route("GET", "/admin/v2/bookies/racks-info", SUPER_USER, nothing_known),
    Route("GET", CLUSTER + "/peers", SUPER_USER, peers),
    Route("GET", CLUSTER + "/failureDomains", SUPER_USER, nothing_known),
    Route("GET", CLUSTER + "/failureDomains/{name}", SUPER_USER, domain),
    *(
        Route("GET", f"{CLUSTER}/namespaceIsolationPolicies{below}", SUPER_USER, isolated)
        for below in ("", "/{name}", "/brokers", "/brokers/{name}")
    ),
    *routes_of_topics(
        _asked_of_topic("offloadPolicies", "OFFLOAD"),
        _asked_of_topic(
            "replicatorDispatchRate", "REPLICATION_RATE", document(NO_DISPATCH_RATE.document)
        ),
        _asked_of_topic("entryFilters", "ENTRY_FILTERS", document({"entryFilterNames": ""})),
        _asked_of_topic("shadowTopics", "SHADOW_TOPIC"),
        Route(
            "GET",
            "/{topic}/subscription/{subscription}/replicatedSubscriptionStatus",
            on_topic(TopicOperation.GET_REPLICATED_SUBSCRIPTION_STATUS),
            replicated,
        ),
    ),
]
