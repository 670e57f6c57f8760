"""The replication clusters of namespaces and topics, and the clusters where a namespace is allowed.

The rule: this cluster is accepted, and every other one is refused with the reason; what was set for
a topic is stored.
"""

import json
from dataclasses import replace
from typing import Final

from arneb_pulsar.admin.brokers.clusters import clusters_of
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_policy
from arneb_pulsar.admin.calls.unsupported import GEO_REPLICATION
from arneb_pulsar.admin.namespaces.namespaces import PATH, namespace_of
from arneb_pulsar.admin.policies.policies import target_of
from arneb_pulsar.admin.topics.topics import routes_of_topics
from arneb_pulsar.services.context import BrokerContext


async def get_replication(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the clusters of a namespace: this one; of a topic, what was set."""
    target = target_of(context, request)
    if target.topic is not None and not request.flag("applied"):
        return document(own) if (own := target.own.clusters) else AdminReply(200)
    return document([context.config.cluster])


async def put_replication(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Accept only this cluster for a namespace or a topic; the topic stores it, and returns it when
    asked."""
    wanted = request.given()
    target = target_of(context, request)
    of_topic = target.topic is not None
    if not wanted and (wanted is None or isinstance(wanted, list)):
        raise AdminError(412, "ClusterIds should not be null or empty")
    if not isinstance(wanted, list) or any(isinstance(each, (list, dict)) for each in wanted):
        raise AdminError(400, "expected a list of clusters")
    wanted = list(dict.fromkeys(e if isinstance(e, str) else json.dumps(e) for e in wanted))
    local = context.config.cluster
    unknown = [each for each in wanted if each not in clusters_of(context)]
    if of_topic and local not in wanted:
        text = "Can not remove local cluster from the local topic-level replication clusters policy"
        raise AdminError(412, text)
    if unknown:
        raise AdminError(403, f"Invalid cluster id: {unknown[0]}")
    if wanted != [local]:
        raise AdminError(501, GEO_REPLICATION)
    if not of_topic:
        return AdminReply(200)
    await target.change(lambda own: replace(own, clusters=wanted))
    return DONE


async def get_allowed(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return an empty list: no namespace is restricted to certain clusters."""
    namespace_of(context, request)
    return document([])


async def put_allowed(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Accept only this cluster, as for replication."""
    await put_replication(context, request)
    return AdminReply(200)


async def drop_replication(context: BrokerContext, request: AdminRequest) -> AdminReply:
    await target_of(context, request).change(lambda own: replace(own, clusters=None))
    return DONE


READ_CLUSTERS, CHANGE_CLUSTERS = (
    on_policy("REPLICATION", writes=writes, of_topic=False) for writes in (False, True)
)
READ_ALLOWED, CHANGE_ALLOWED = (
    on_policy("ALLOW_CLUSTERS", writes=writes, of_topic=False) for writes in (False, True)
)
READ_TOPIC_CLUSTERS, CHANGE_TOPIC_CLUSTERS = (
    on_policy("REPLICATION", writes=writes, of_topic=True) for writes in (False, True)
)

ROUTES: Final[list[Route]] = [
    Route("GET", PATH + "/replication", READ_CLUSTERS, get_replication),
    Route("POST", PATH + "/replication", CHANGE_CLUSTERS, put_replication),
    Route("GET", PATH + "/allowedClusters", READ_ALLOWED, get_allowed),
    Route("POST", PATH + "/allowedClusters", CHANGE_ALLOWED, put_allowed),
    *routes_of_topics(
        Route("GET", "/{topic}/replication", READ_TOPIC_CLUSTERS, get_replication),
        Route("POST", "/{topic}/replication", CHANGE_TOPIC_CLUSTERS, put_replication),
        Route("DELETE", "/{topic}/replication", CHANGE_TOPIC_CLUSTERS, drop_replication),
    ),
]
