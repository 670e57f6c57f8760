"""The queries of RabbitMQ's Grafana dashboard 10991 (RabbitMQ-Overview) to Prometheus, panel by
panel.

The rule: the queries were rewritten from the facts. Every panel joins its metric with the
identity of the node. A panel that adds up several metrics is empty if one of them is missing.
"""

from dataclasses import dataclass
from typing import Final

IDENTITY: Final = (
    "* on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) "
    'rabbitmq_identity_info{rabbitmq_cluster="$cluster", namespace=""}'
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel and its query."""

    title: str
    query: str
    by_node: bool = False
    """Whether it has one series per node, labelled with the node."""


def joined(metric: str) -> str:
    """A metric joined with the identity of its node."""
    return f"{metric} {IDENTITY}"


def rate(metric: str, window: str = "60s") -> str:
    """The rate at which a counter grows."""
    return joined(f"rate(rabbitmq_{metric}_total[{window}])")


def _sum(*terms: str) -> str:
    return " + ".join(f"sum({each})" for each in terms)


def _by_node(*terms: str) -> str:
    return " + ".join(f"sum({each}) by(rabbitmq_node)" for each in terms)


_OUTGOING: Final = (
    "global_messages_redelivered", "global_messages_delivered_consume_auto_ack",
    "global_messages_delivered_consume_manual_ack", "global_messages_delivered_get_auto_ack",
    "global_messages_delivered_get_manual_ack",
)  # fmt: skip

_TOTALS: Final = {
    "Ready messages": "queue_messages_ready",
    "Unacknowledged messages": "queue_messages_unacked",
    "Publishers": "global_publishers",
    "Consumers": "global_consumers",
    "Connections": "connections",
    "Channels": "channels",
    "Queues": "queues",
    "Nodes": "build_info",
}

_LEFT: Final = {
    "Memory available before publishers blocked": (
        "resident_memory_limit_bytes", "process_resident_memory_bytes",
    ),
    "File descriptors available": ("process_max_fds", "process_open_fds"),
    "TCP sockets available": ("process_max_tcp_sockets", "process_open_tcp_sockets"),
}  # fmt: skip

_LEVELS: Final = {
    "Messages ready to be delivered to consumers": "queue_messages_ready",
    "Messages pending consumer acknowledgement": "queue_messages_unacked",
    "Total queues": "queues",
    "Total channels": "channels",
    "Total connections": "connections",
}

_RATES: Final = {
    "Messages published / s": "global_messages_received",
    "Messages confirmed to publishers / s": "global_messages_confirmed",
    "Messages routed to queues / s": "global_messages_routed",
    "Unroutable messages dropped / s": "global_messages_unroutable_dropped",
    "Unroutable messages returned to publishers / s": "global_messages_unroutable_returned",
    "Messages redelivered / s": "global_messages_redelivered",
    "Messages delivered with manual ack / s": "global_messages_delivered_consume_manual_ack",
    "Messages delivered auto ack / s": "global_messages_delivered_consume_auto_ack",
    "Messages acknowledged / s": "global_messages_acknowledged",
    "Polling operations with auto ack / s": "global_messages_delivered_get_auto_ack",
    "Polling operations with manual ack / s": "global_messages_delivered_get_manual_ack",
    "Polling operations that yield no result / s": "global_messages_get_empty",
    "Queues declared / s": "queues_declared",
    "Queues created / s": "queues_created",
    "Queues deleted / s": "queues_deleted",
    "Channels opened / s": "channels_opened",
    "Channels closed / s": "channels_closed",
    "Connections opened / s": "connections_opened",
    "Connections closed / s": "connections_closed",
}

PANELS: Final = (
    *(Panel(title, _sum(joined(f"rabbitmq_{name}"))) for title, name in _TOTALS.items()),
    Panel("Incoming messages / s", _sum(rate("global_messages_received"))),
    Panel("Outgoing messages / s", _sum(*map(rate, _OUTGOING))),
    Panel("Nodes and their versions", joined("rabbitmq_build_info"), by_node=True),
    Panel("Uptime", joined("rabbitmq_erlang_uptime_seconds"), by_node=True),
    *(
        Panel(title, f"({joined(f'rabbitmq_{most}')}) - ({joined(f'rabbitmq_{used}')})", True)
        for title, (most, used) in _LEFT.items()
    ),
    Panel(
        "Disk space available before publishers blocked",
        joined("rabbitmq_disk_space_available_bytes"),
        by_node=True,
    ),
    *(
        Panel(title, _by_node(joined(f"rabbitmq_{name}")), by_node=True)
        for title, name in _LEVELS.items()
    ),
    *(Panel(title, _by_node(rate(name)), by_node=True) for title, name in _RATES.items()),
    Panel(
        "Messages unconfirmed to publishers / s",
        f"sum({rate('global_messages_received_confirm')} - {rate('global_messages_confirmed')})"
        " by(rabbitmq_node)",
        by_node=True,
    ),
    Panel(
        "Messages delivered / s",
        f"sum(({rate('global_messages_delivered_consume_auto_ack')}) + "
        f"({rate('global_messages_delivered_consume_manual_ack')})) by(rabbitmq_node)",
        by_node=True,
    ),
)
