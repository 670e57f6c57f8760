"""Nodes: this node and its resources.

The rule: a figure that is not measured is left out, or is 0 where tools demand a number.
"""

import gc
import os
import resource
from collections.abc import Mapping
from typing import Final

import trio

from arneb.http.management.figures.counters import CHURN, with_details
from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.lists import ranges_of
from arneb.http.management.node.churn import CHURNED, churn_counters
from arneb.http.management.requests.calls import Call, Document, Reply, not_found
from arneb.http.management.requests.rules import MONITORING
from arneb.http.management.router import Route
from arneb.http.management.site import RABBITMQ_VERSION, Site
from arneb_amqp.routing.registry import EXCHANGE_TYPES
from arneb_core.api.process.clock import wall_clock_ms

CONTEXTS: Final = {
    "http": "Management API",
    "http/prometheus": "Prometheus",
}
"""Descriptions of the HTTP contexts, by protocol."""

_RANGES: Final = {
    "node_stats": (
        "mem_used", "disk_free", "fd_used", "sockets_used", "proc_used", "gc_num",
        "gc_bytes_reclaimed", "context_switches",
    ),
}  # fmt: skip

_COLLECTED: Final = (
    "connection_closed", "channel_closed", "consumer_deleted", "exchange_deleted",
    "queue_deleted", "vhost_deleted", "node_node_deleted", "channel_consumer_deleted",
)  # fmt: skip
"""Kinds of figures that RabbitMQ collects as garbage."""


def exchange_types() -> list[Document]:
    """Return the exchange types that exist."""
    return [
        {"name": name, "description": f"exchange type {name}", "enabled": True}
        for name in sorted(EXCHANGE_TYPES)
    ]


def listeners_of(site: Site) -> list[Document]:
    """Return the open ports."""
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


def contexts_of(site: Site) -> list[Document]:
    """Return the HTTP contexts."""
    return [
        {
            "node": site.node,
            "description": CONTEXTS[each.protocol],
            "path": "/",
            "port": str(each.port),
            "ip": each.address,
            "cowboy_opts": "[]",
            "ssl_opts": [],
        }
        for each in site.ports()
        if each.protocol in CONTEXTS
    ]


def _open_files() -> tuple[int, int]:
    """Return the number of open files, and their limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/proc/self/fd")), limit


async def node_document(site: Site, ranges: Mapping[str, Range]) -> Document:
    """Return this node's document."""
    alarms = site.alarms.statistics
    used, most = await trio.to_thread.run_sync(_open_files)
    sockets = len(site.roster)
    tasks = trio.lowlevel.current_statistics()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    figures: dict[str, int] = {
        "mem_used": alarms.memory_used_bytes,
        "disk_free": alarms.disk_free_bytes,
        "fd_used": used,
        "sockets_used": sockets,
        "proc_used": tasks.tasks_living,
        "gc_num": sum(each["collections"] for each in gc.get_stats()),
        "gc_bytes_reclaimed": 0,
        "context_switches": usage.ru_nvcsw + usage.ru_nivcsw,
    }
    rates = site.rates.details(("node",), figures, lambda: None, ranges)
    return {
        "name": site.node,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": wall_clock_ms() - site.started_ms,
        "run_queue": tasks.tasks_runnable,
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
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": each, "description": each, "enabled": True} for each in ("PLAIN", "AMQPLAIN")
        ],
        "applications": [
            {"name": "arneb", "description": "Arneb", "version": site.version},
            {"name": "rabbit", "description": "RabbitMQ's behaviour", "version": RABBITMQ_VERSION},
        ],
        "contexts": [
            {name: each[name] for name in ("description", "path", "cowboy_opts", "ip", "port")}
            for each in contexts_of(site)
        ],
        "enabled_plugins": ["rabbitmq_management"],
        "config_files": [],
        "log_files": [],
        "db_dir": site.data_dir,
        "partitions": [],
        "cluster_links": [],
        "net_ticktime": 60,
        "metrics_gc_queue_length": dict.fromkeys(_COLLECTED, 0),
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
    }


async def _document(site: Site, call: Call) -> Document:
    """Return this node's document with its churn."""
    churn = churn_counters(site)
    rates = site.rates.details(CHURNED, churn, lambda: None)
    document = await node_document(site, ranges_of(call.query, _RANGES))
    return document | with_details(churn, rates, CHURN)


async def _nodes(site: Site, call: Call) -> Reply:
    document = await _document(site, call)
    return Reply([document])


async def _node(site: Site, call: Call) -> Reply:
    expect_node(site, call)
    document = await _document(site, call)
    if call.flag("memory"):
        document["memory"] = "not_available"
    if call.flag("binary"):
        document["binary"] = "not_available"
    return Reply(document)


async def _memory(site: Site, call: Call) -> Reply:
    expect_node(site, call)
    return Reply({"memory": "not_available"})


def expect_node(site: Site, call: Call) -> None:
    """Raise 404 if the path names another node."""
    if call.params["node"] != site.node:
        raise not_found()


ROUTES: Final = (
    Route("GET", "nodes", MONITORING, _nodes),
    Route("GET", "nodes/:node", MONITORING, _node),
    Route("GET", "nodes/:node/memory", MONITORING, _memory),
)
