"""The overview and the node: what an operator, and every tool, looks at first.

The rule: what is not measured here is left out, or is 0 where tools demand a number.
"""

import os
import platform
import resource
from functools import partial
from typing import Final

import trio

from arneb.http.management.calls import Call, Document, Reply, not_found
from arneb.http.management.connections import visible_connections
from arneb.http.management.counters import MESSAGE_COUNTS, STATISTICS
from arneb.http.management.definitions import PRODUCT
from arneb.http.management.lists import listing_of, narrowed, range_of
from arneb.http.management.queues import with_details
from arneb.http.management.router import Route
from arneb.http.management.rules import ADMINISTRATOR, MONITORING, USERS, is_monitor
from arneb.http.management.site import RABBITMQ_VERSION, Site
from arneb_amqp.routing.registry import EXCHANGE_TYPES
from arneb_core.access.records import User
from arneb_core.api.clock import wall_clock_ms

FEATURES: Final = (
    "classic_mirrored_queue_version", "classic_queue_type_delivery_support",
    "direct_exchange_routing_v2", "drop_unroutable_metric", "empty_basic_get_metric",
    "feature_flags_v2", "implicit_default_bindings", "listener_records_in_ets",
    "maintenance_mode_status", "message_containers", "quorum_queue", "restart_streams",
    "stream_filtering", "stream_queue", "stream_sac_coordinator_unblock_group",
    "stream_single_active_consumer", "stream_update_config_command",
    "tracking_records_in_ets", "user_limits", "virtual_host_metadata",
)  # fmt: skip
"""Of RabbitMQ's flags those that tools look for; all are on, for nothing can be turned off."""


async def _overview(site: Site, call: Call) -> Reply:
    vhosts = await site.vhosts_for(call)
    counters: dict[str, int] = dict.fromkeys((*MESSAGE_COUNTS, *STATISTICS), 0)
    disabled = call.flag("disable_stats")
    if not disabled:
        for vhost in vhosts:
            for name, value in (await site.totals.of(vhost)).items():
                counters[name] += value
    connections = visible_connections(site, call)
    names = {each.name for each in vhosts}
    consumers = channels = 0
    for each in connections:
        channels += each.channels
        if each.vhost in names:
            consumers += sum(len(c.consumers) for c in site.roster.channels(each.id))
    wanted = range_of(call.query, "lengths") or range_of(call.query, "msg_rates")
    key = ("overview", tuple(sorted(names)))
    rates = site.rates.details(key, counters, lambda: None, wanted)
    document: Document = {
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [600], "basic": [600], "detailed": [600]},
        "exchange_types": _exchange_types(),
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
        "churn_rates": _churn(site),
        "queue_totals": with_details(counters, rates, MESSAGE_COUNTS),
        "object_totals": {
            "channels": channels,
            "connections": len(connections),
            "consumers": consumers,
            "exchanges": sum(len(each.router.exchanges) for each in vhosts),
            "queues": sum(len(each.queues) for each in vhosts),
        },
        "statistics_db_event_queue": 0,
        "message_stats": with_details(counters, rates, STATISTICS)
        if any(counters[name] for name in STATISTICS)
        else {},
    }
    if is_monitor(call.caller):
        document |= {
            "node": site.node,
            "listeners": listeners_of(site),
            "contexts": [
                {
                    "node": site.node,
                    "description": "Management API",
                    "path": "/",
                    "port": str(each.port),
                    "ip": each.address,
                    "cowboy_opts": "[]",
                }
                for each in site.ports()
                if each.protocol == "http"
            ],
        }
    return Reply(narrowed(document, listing_of(call.query).columns))


def _churn(site: Site) -> Document:
    counters = {
        "connection_created": site.roster.opened_total,
        "connection_closed": site.roster.closed_total,
        "channel_created": 0,
        "channel_closed": 0,
        "queue_declared": 0,
        "queue_created": 0,
        "queue_deleted": 0,
    }
    rates = site.rates.details(("churn",), counters, partial(_read_churn, site))
    return with_details(counters, rates, tuple(counters))


def _read_churn(site: Site) -> dict[str, int]:
    opened, closed = site.roster.opened_total, site.roster.closed_total
    return {"connection_created": opened, "connection_closed": closed}


def _exchange_types() -> list[Document]:
    return [
        {"name": name, "description": f"exchange type {name}", "enabled": True}
        for name in sorted(EXCHANGE_TYPES)
    ]


def listeners_of(site: Site) -> list[Document]:
    """The open ports."""
    return [
        {
            "node": site.node,
            "protocol": each.protocol,
            "ip_address": each.address,
            "port": each.port,
            "socket_opts": {},
        }
        for each in site.ports()
    ]


def _open_files() -> tuple[int, int]:
    """How many, and how many there may be."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/proc/self/fd")), limit


async def node_document(site: Site) -> Document:
    """This node."""
    alarms = site.alarms.statistics
    used, most = await trio.to_thread.run_sync(_open_files)
    sockets = len(site.roster)
    figures: dict[str, int] = {
        "mem_used": alarms.memory_used_bytes,
        "disk_free": alarms.disk_free_bytes,
        "fd_used": used,
        "sockets_used": sockets,
        "proc_used": trio.lowlevel.current_statistics().tasks_living,
    }
    rates = site.rates.details(("node",), figures, lambda: None)
    return {
        "name": site.node,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": wall_clock_ms() - site.started_ms,
        "run_queue": 0,
        "processors": os.cpu_count() or 1,
        "rates_mode": "basic",
        **with_details(figures, rates, tuple(figures)),
        "mem_limit": alarms.memory_high_watermark_bytes,
        "mem_alarm": alarms.memory_alarm,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": alarms.disk_free_min_bytes,
        "disk_free_alarm": alarms.disk_alarm,
        "fd_total": most,
        "sockets_total": most,
        "proc_total": 1_048_576,
        "context_switches": 0,
        "gc_num": 0,
        "gc_bytes_reclaimed": 0,
        "exchange_types": _exchange_types(),
        "auth_mechanisms": [
            {"name": each, "description": each, "enabled": True} for each in ("PLAIN", "AMQPLAIN")
        ],
        "applications": [
            {"name": "arneb", "description": "Arneb", "version": site.version},
            {"name": "rabbit", "description": "RabbitMQ's behaviour", "version": RABBITMQ_VERSION},
        ],
        "contexts": [],
        "enabled_plugins": ["rabbitmq_management"],
        "config_files": [],
        "log_files": [],
        "db_dir": site.data_dir,
        "partitions": [],
        "cluster_links": [],
        "net_ticktime": 60,
        "metrics_gc_queue_length": {},
        "ra_open_file_metrics": {},
    }


async def _nodes(site: Site, call: Call) -> Reply:
    return Reply([narrowed(await node_document(site), listing_of(call.query).columns)])


async def _node(site: Site, call: Call) -> Reply:
    _expect_node(site, call)
    document = await node_document(site)
    if call.flag("memory"):
        document["memory"] = "not_available"
    if call.flag("binary"):
        document["binary"] = "not_available"
    return Reply(narrowed(document, listing_of(call.query).columns))


async def _memory(site: Site, call: Call) -> Reply:
    _expect_node(site, call)
    return Reply({"memory": "not_available"})


def _expect_node(site: Site, call: Call) -> None:
    if call.params["node"] != site.node:
        raise not_found()


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
        raise not_found()
    return Reply(status=204)


async def _attempts(site: Site, call: Call) -> Reply:
    _expect_node(site, call)
    return Reply([])


async def _rebalance(site: Site, call: Call) -> Reply:
    return Reply(status=204)


ROUTES: Final = (
    Route("GET", "overview", USERS, _overview),
    Route("GET", "nodes", MONITORING, _nodes),
    Route("GET", "nodes/:node", MONITORING, _node),
    Route("GET", "nodes/:node/memory", MONITORING, _memory),
    Route("GET", "extensions", USERS, _nothing),
    Route("GET", "whoami", USERS, _whoami),
    Route("GET", "feature-flags", USERS, _features),
    Route("PUT", "feature-flags/:name/enable", ADMINISTRATOR, _enable),
    Route("GET", "deprecated-features", USERS, _nothing),
    Route("GET", "deprecated-features/used", USERS, _nothing),
    Route("GET", "shovels", MONITORING, _nothing),
    Route("GET", "shovels/:vhost", MONITORING, _nothing),
    Route("GET", "federation-links", MONITORING, _nothing),
    Route("GET", "federation-links/:vhost", MONITORING, _nothing),
    Route("GET", "auth/attempts/:node", MONITORING, _attempts),
    Route("POST", "rebalance/queues", ADMINISTRATOR, _rebalance),
)
