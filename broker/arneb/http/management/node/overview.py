"""The overview: what operators and tools look at first.

The rule: users who may monitor see the whole node, all others the vhosts that they have access to.
"""

import platform
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Final

from arneb.http.management.clients.connections import CONNECTIONS_PER_TURN, visible_connections
from arneb.http.management.definitions.definitions import PRODUCT
from arneb.http.management.figures.counters import (
    CHURN,
    CONSUMED,
    LENGTHS,
    OF_NODES,
    SENT,
    STORED,
    Counters,
    message_stats,
    of_vhost,
    with_details,
)
from arneb.http.management.lists.lists import ranges_of
from arneb.http.management.node.churn import CHURNED, churn_counters
from arneb.http.management.node.nodes import contexts_of, exchange_types, expect_node, listeners_of
from arneb.http.management.requests.calls import Call, Document, Reply, bad_request
from arneb.http.management.requests.rules import ADMINISTRATOR, MONITORING, USERS, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import RABBITMQ_VERSION, Site
from arneb_amqp.server.roster import Known
from arneb_amqp.topology.topology import Vhost
from arneb_core.access.records import User

EVERYTHING: Final = ("overview",)
"""The key of the whole node's rates."""

SUMMED: Final = (*LENGTHS, *SENT, *CONSUMED, *STORED)

_RANGES: Final = {"lengths": LENGTHS, "msg_rates": (*SENT, *CONSUMED, *STORED)}

FEATURES: Final = (
    "classic_mirrored_queue_version", "classic_queue_type_delivery_support",
    "direct_exchange_routing_v2", "drop_unroutable_metric", "empty_basic_get_metric",
    "feature_flags_v2", "implicit_default_bindings", "listener_records_in_ets",
    "maintenance_mode_status", "message_containers", "quorum_queue", "restart_streams",
    "stream_filtering", "stream_queue", "stream_sac_coordinator_unblock_group",
    "stream_single_active_consumer", "stream_update_config_command",
    "tracking_records_in_ets", "user_limits", "virtual_host_metadata",
)  # fmt: skip
"""RabbitMQ's feature flags that tools look for; all are on, since nothing can be turned off."""


async def _overview(site: Site, call: Call) -> Reply:
    vhosts = await site.vhosts_for(call)
    names = {each.name for each in vhosts}
    disabled = call.flag("disable_stats")
    is_whole = is_monitor(call.caller) and len(names) == len(site.topology.vhosts)
    counters: Counters = dict.fromkeys(SUMMED, 0)
    if is_whole and not disabled:
        counters = await node_counters(site)
    elif not disabled:
        counters = await _sum(site, vhosts)
    connections = await visible_connections(site, call)
    channels, consumers = await _channels_and_consumers(site, connections, names)
    key: Hashable = EVERYTHING if is_whole else ("overview", tuple(sorted(names)))
    if disabled:
        key = "nothing"
    ranges = ranges_of(call.query, _RANGES)
    rates = site.rates.details(key, counters, lambda: None, ranges)
    churn = churn_counters(site)
    of_churn = ranges_of(call.query, {"lengths": CHURN})
    churned = site.rates.details(CHURNED, churn, lambda: None, of_churn)
    document: Document = {
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": [600, 3600, 28800, 86400], "basic": [600], "detailed": [600],
        },
        "exchange_types": exchange_types(),
        "product_version": site.version,
        "product_name": PRODUCT,
        "rabbitmq_version": RABBITMQ_VERSION,
        "cluster_name": site.cluster_name,
        "erlang_version": platform.python_version(),
        "erlang_full_version": f"Python {platform.python_version()}",
        "release_series_support_status": "supported",
        "disable_stats": disabled,
        "is_op_policy_updating_enabled": True,
        "enable_queue_totals": call.flag("enable_queue_totals"),
        "churn_rates": with_details(churn, churned, CHURN),
        "queue_totals": with_details(counters, rates, LENGTHS),
        "object_totals": {
            "channels": channels,
            "connections": len(connections),
            "consumers": consumers,
            "exchanges": sum(len(each.router.exchanges) for each in vhosts),
            "queues": sum(len(each.queues) for each in vhosts),
        },
        "statistics_db_event_queue": 0,
        # RabbitMQ has it here even when nothing has happened.
        **({"message_stats": {}} | message_stats(counters, rates, OF_NODES)),
    }  # fmt: skip
    if is_monitor(call.caller):
        document |= {
            "node": site.node,
            "listeners": listeners_of(site),
            "contexts": contexts_of(site),
        }
    return Reply(document)


async def _channels_and_consumers(
    site: Site, connections: Sequence[Known], vhosts: Collection[str]
) -> tuple[int, int]:
    """Count the channels of connections, and those consumers of theirs that are in ``vhosts``."""
    channels = consumers = 0
    for begin in range(0, len(connections), CONNECTIONS_PER_TURN):
        for each in connections[begin : begin + CONNECTIONS_PER_TURN]:
            channels += site.roster.channel_count(each.id)
            if each.vhost in vhosts:
                consumers += site.roster.consumers(each.id)
        await site.pause()
    return channels, consumers


async def _sum(site: Site, vhosts: Iterable[Vhost]) -> Counters:
    """Return the totals of some vhosts."""
    counters = dict.fromkeys(SUMMED, 0)
    for vhost in vhosts:
        for name, value in (await site.totals.of(vhost)).items():
            counters[name] += value
    return counters


async def node_counters(site: Site) -> Counters:
    """Return the messages in all vhosts, the traffic of present and deleted vhosts, and the entries
    read from and written to disk."""
    held = await _sum(site, site.topology.vhosts)
    stored = site.core.statistics()
    return {
        **held,
        **of_vhost(site.topology.traffic()),
        "disk_reads": stored.read_entries_total,
        "disk_writes": stored.entries_total,
    }


def sample_always(site: Site) -> None:
    """Sample the figures of the whole node permanently."""

    async def everything() -> Counters:
        return await node_counters(site)

    async def churned() -> Counters:
        return churn_counters(site)

    site.rates.always(EVERYTHING, everything)
    site.rates.always(CHURNED, churned)


async def _nothing(site: Site, call: Call) -> Reply:
    return Reply([])


async def _whoami(site: Site, call: Call) -> Reply:
    internal = site.catalogue.get(User, call.caller.name) is not None
    return Reply(
        {
            "name": call.caller.name,
            "tags": sorted(call.caller.tags),
            "is_internal_user": internal,
        }
    )


async def _links(site: Site, call: Call) -> Reply:
    if "vhost" in call.params:
        site.vhost_of(call)
    return Reply([])


async def _features(site: Site, call: Call) -> Reply:
    return Reply(
        [
            {
                "name": name,
                "desc": "",
                "doc_url": "",
                "state": "enabled",
                "stability": "stable",
                "provided_by": "rabbit",
            }
            for name in FEATURES
        ]
    )


async def _enable(site: Site, call: Call) -> Reply:
    if call.params["name"] not in FEATURES:
        raise bad_request("unsupported")
    return Reply(status=204)


async def _attempts(site: Site, call: Call) -> Reply:
    expect_node(site, call)
    attempts = site.authority.attempts
    return Reply(
        [
            {
                "protocol": protocol,
                "auth_attempts": each.total,
                "auth_attempts_failed": each.failed,
                "auth_attempts_succeeded": each.succeeded,
            }
            for protocol, each in (("http", attempts.http), ("amqp091", attempts.others))
            if each.total
        ]
    )


async def _attempts_by_source(site: Site, call: Call) -> Reply:
    expect_node(site, call)
    return Reply([])  # as in RabbitMQ, unless it is told to keep every address


async def _rebalance(site: Site, call: Call) -> Reply:
    return Reply(status=204)


ROUTES: Final = (
    Route("GET", "overview", USERS, _overview),
    Route("GET", "extensions", USERS, _nothing),
    Route("GET", "whoami", USERS, _whoami),
    Route("GET", "feature-flags", USERS, _features),
    Route("PUT", "feature-flags/:name/enable", ADMINISTRATOR, _enable),
    Route("GET", "deprecated-features", USERS, _nothing),
    Route("GET", "deprecated-features/used", USERS, _nothing),
    Route("GET", "federation-links", MONITORING, _links),
    Route("GET", "federation-links/:vhost", MONITORING, _links),
    Route("GET", "auth/attempts/:node", MONITORING, _attempts),
    Route("GET", "auth/attempts/:node/source", MONITORING, _attempts_by_source),
    Route("POST", "rebalance/queues", ADMINISTRATOR, _rebalance),
)
