"""Families: RabbitMQ's metrics, grouped as its Prometheus plugin groups them.

The rule: names, help texts and labels are RabbitMQ 3.13's, so that its dashboards and alerts work
unchanged; families that mean nothing in Arneb (Erlang, Raft, Mnesia, the message store) are left
out. An object's row has its values in the order of the family's metrics.

Source: ``prometheus_rabbitmq_core_metrics_collector.erl`` and its documentation.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb.metrics.text import Metric

PREFIX: Final = "rabbitmq_"
DETAILED_PREFIX: Final = "rabbitmq_detailed_"
CLUSTER_PREFIX: Final = "rabbitmq_cluster_"
"""The prefix of metrics that are the same on each node."""


class Of(Enum):
    """The kind of object that a family's rows describe."""

    NODE = "node"
    QUEUES = "queues"
    CHANNELS = "channels"
    CONNECTIONS = "connections"
    EXCHANGES = "exchanges"
    VHOSTS = "vhosts"


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics that form one row."""

    name: str
    of: Of
    metrics: tuple[Metric, ...]
    is_summed: bool = True
    """Whether the summary page has the sums over all rows."""
    in_detail_only: bool = False
    """Whether the page of all objects leaves the family out."""
    prefix: str = ""
    """A prefix that replaces the page's."""


CHURN: Final = Family(
    "connection_churn_metrics",
    Of.NODE,
    (
        Metric("connections_opened_total", "Total number of connections opened"),
        Metric("connections_closed_total", "Total number of connections closed or terminated"),
        Metric("channels_opened_total", "Total number of channels opened"),
        Metric("channels_closed_total", "Total number of channels closed"),
        Metric("queues_declared_total", "Total number of queues declared"),
        Metric("queues_created_total", "Total number of queues created"),
        Metric("queues_deleted_total", "Total number of queues deleted"),
    ),
)

NODE_COARSE: Final = Family(
    "node_coarse_metrics",
    Of.NODE,
    (
        Metric("process_open_fds", "Open file descriptors"),
        Metric("process_open_tcp_sockets", "Open TCP sockets"),
        Metric("process_resident_memory_bytes", "Memory used in bytes"),
        Metric("disk_space_available_bytes", "Disk space available in bytes"),
    ),
)

NODE: Final = Family(
    "node_metrics",
    Of.NODE,
    (
        Metric("process_max_fds", "Open file descriptors limit"),
        Metric("process_max_tcp_sockets", "Open TCP sockets limit"),
        Metric("resident_memory_limit_bytes", "Memory high watermark in bytes"),
        Metric("disk_space_available_limit_bytes", "Free disk space low watermark in bytes"),
        Metric("erlang_uptime_seconds", "Node uptime"),
    ),
)

QUEUE_COARSE: Final = Family(
    "queue_coarse_metrics",
    Of.QUEUES,
    (
        Metric("queue_messages_ready", "Messages ready to be delivered to consumers"),
        Metric(
            "queue_messages_unacked", "Messages delivered to consumers but not yet acknowledged"
        ),
        Metric("queue_messages", "Sum of ready and unacknowledged messages - total queue depth"),
    ),
)

QUEUE_CONSUMERS: Final = Family(
    "queue_consumer_count",
    Of.QUEUES,
    (Metric("queue_consumers", "Consumers on a queue"),),
    in_detail_only=True,
    is_summed=False,
)

QUEUE: Final = Family(
    "queue_metrics",
    Of.QUEUES,
    (
        Metric("queue_consumers", "Consumers on a queue"),
        Metric("queue_consumer_capacity", "Consumer capacity"),
        Metric("queue_consumer_utilisation", "Same as consumer capacity"),
        Metric("queue_process_memory_bytes", "Memory in bytes used by the messages of the queue"),
        Metric("queue_messages_ram", "Ready and unacknowledged messages stored in memory"),
        Metric(
            "queue_messages_ram_bytes",
            "Size of ready and unacknowledged messages stored in memory",
        ),
        Metric("queue_messages_ready_ram", "Ready messages stored in memory"),
        Metric("queue_messages_unacked_ram", "Unacknowledged messages stored in memory"),
        Metric("queue_messages_persistent", "Persistent messages"),
        Metric("queue_messages_persistent_bytes", "Size in bytes of persistent messages"),
        Metric("queue_messages_bytes", "Size in bytes of ready and unacknowledged messages"),
        Metric("queue_messages_ready_bytes", "Size in bytes of ready messages"),
        Metric("queue_messages_unacked_bytes", "Size in bytes of all unacknowledged messages"),
        Metric("queue_messages_paged_out", "Messages paged out to disk"),
        Metric("queue_messages_paged_out_bytes", "Size in bytes of messages paged out to disk"),
        Metric("queue_disk_writes_total", "Total number of times queue wrote messages to disk"),
    ),
)

QUEUE_PUBLISHED: Final = Family(
    "channel_queue_exchange_metrics",
    Of.QUEUES,
    (Metric("queue_messages_published_total", "Total number of messages published to queues"),),
)

QUEUE_DELIVERY: Final = Family(
    "queue_delivery_metrics",
    Of.QUEUES,
    (
        Metric(
            "queue_get_ack_total",
            "Total number of messages fetched from a queue with basic.get in manual "
            "acknowledgement mode",
        ),
        Metric(
            "queue_get_total",
            "Total number of messages fetched from a queue with basic.get in automatic "
            "acknowledgement mode",
        ),
        Metric(
            "queue_messages_delivered_ack_total",
            "Total number of messages delivered from a queue to consumers in manual "
            "acknowledgement mode",
        ),
        Metric(
            "queue_messages_delivered_total",
            "Total number of messages delivered from a queue to consumers in automatic "
            "acknowledgement mode",
        ),
        Metric(
            "queue_messages_redelivered_total",
            "Total number of messages redelivered from a queue to consumers",
        ),
        Metric(
            "queue_messages_acked_total",
            "Total number of messages acknowledged by consumers on a queue",
        ),
        Metric(
            "queue_get_empty_total",
            "Total number of times basic.get operations fetched no message on a queue",
        ),
    ),
    is_summed=False,
)
"""RabbitMQ 4's."""

EXCHANGE: Final = Family(
    "exchange_metrics",
    Of.EXCHANGES,
    (
        Metric(
            "exchange_messages_published_total",
            "Total number of messages published into an exchange",
        ),
    ),
    is_summed=False,
)
"""RabbitMQ 4's."""

CHANNEL: Final = Family(
    "channel_metrics",
    Of.CHANNELS,
    (
        Metric("channel_consumers", "Consumers on a channel"),
        Metric("channel_messages_unacked", "Delivered but not yet acknowledged messages"),
        Metric("channel_messages_unconfirmed", "Published but not yet confirmed messages"),
        Metric(
            "channel_messages_uncommitted",
            "Messages received in a transaction but not yet committed",
        ),
        Metric(
            "channel_acks_uncommitted",
            "Message acknowledgements in a transaction not yet committed",
        ),
        Metric("consumer_prefetch", "Limit of unacknowledged messages for each consumer"),
        Metric(
            "channel_prefetch",
            "Total limit of unacknowledged messages for all consumers on a channel",
        ),
    ),
)

CHANNEL_EXCHANGE: Final = Family(
    "channel_exchange_metrics",
    Of.CHANNELS,
    (
        Metric(
            "channel_messages_published_total",
            "Total number of messages published into an exchange on a channel",
        ),
        Metric(
            "channel_messages_confirmed_total",
            "Total number of messages published into an exchange and confirmed on the channel",
        ),
        Metric(
            "channel_messages_unroutable_returned_total",
            "Total number of messages published as mandatory into an exchange and returned to "
            "the publisher as unroutable",
        ),
        Metric(
            "channel_messages_unroutable_dropped_total",
            "Total number of messages published as non-mandatory into an exchange and dropped "
            "as unroutable",
        ),
    ),
)

CHANNEL_QUEUE: Final = Family(
    "channel_queue_metrics",
    Of.CHANNELS,
    (
        Metric(
            "channel_get_ack_total",
            "Total number of messages fetched with basic.get in manual acknowledgement mode",
        ),
        Metric(
            "channel_get_total",
            "Total number of messages fetched with basic.get in automatic acknowledgement mode",
        ),
        Metric(
            "channel_messages_delivered_ack_total",
            "Total number of messages delivered to consumers in manual acknowledgement mode",
        ),
        Metric(
            "channel_messages_delivered_total",
            "Total number of messages delivered to consumers in automatic acknowledgement mode",
        ),
        Metric(
            "channel_messages_redelivered_total",
            "Total number of messages redelivered to consumers",
        ),
        Metric(
            "channel_messages_acked_total",
            "Total number of messages acknowledged by consumers",
        ),
        Metric(
            "channel_get_empty_total",
            "Total number of times basic.get operations fetched no message",
        ),
    ),
)

CONNECTION_COARSE: Final = Family(
    "connection_coarse_metrics",
    Of.CONNECTIONS,
    (
        Metric("connection_incoming_bytes_total", "Total number of bytes received on a connection"),
        Metric("connection_outgoing_bytes_total", "Total number of bytes sent on a connection"),
    ),
)

CONNECTION: Final = Family(
    "connection_metrics",
    Of.CONNECTIONS,
    (
        Metric(
            "connection_incoming_packets_total",
            "Total number of packets received on a connection",
        ),
        Metric("connection_outgoing_packets_total", "Total number of packets sent on a connection"),
        Metric(
            "connection_pending_packets",
            "Number of bytes waiting to be sent on a connection",
        ),
        Metric("connection_channels", "Channels on a connection"),
    ),
)

VHOST_STATUS: Final = Family(
    "vhost_status",
    Of.VHOSTS,
    (Metric("vhost_status", "Whether a given vhost is running"),),
    is_summed=False,
    in_detail_only=True,
    prefix=CLUSTER_PREFIX,
)

EXCHANGE_BINDINGS: Final = Family(
    "exchange_bindings",
    Of.EXCHANGES,
    (
        Metric(
            "exchange_bindings",
            "Number of bindings for an exchange. This value is cluster-wide.",
        ),
    ),
    is_summed=False,
    in_detail_only=True,
    prefix=CLUSTER_PREFIX,
)

EXCHANGE_NAMES: Final = Family(
    "exchange_names",
    Of.EXCHANGES,
    (
        Metric(
            "exchange_name",
            "Enumerates exchanges without any additional info. This value is cluster-wide. A "
            "cheaper alternative to `exchange_bindings`",
        ),
    ),
    is_summed=False,
    in_detail_only=True,
    prefix=CLUSTER_PREFIX,
)

FAMILIES: Final = (
    CHURN, NODE_COARSE, NODE, QUEUE_COARSE, QUEUE_CONSUMERS, QUEUE, QUEUE_PUBLISHED,
    QUEUE_DELIVERY, EXCHANGE, CHANNEL, CHANNEL_EXCHANGE, CHANNEL_QUEUE, CONNECTION_COARSE,
    CONNECTION, VHOST_STATUS, EXCHANGE_BINDINGS, EXCHANGE_NAMES,
)  # fmt: skip

BY_NAME: Final = {each.name: each for each in FAMILIES}

TOTALS: Final = (
    Metric("connections", "Connections currently open"),
    Metric("channels", "Channels currently open"),
    Metric("consumers", "Consumers currently connected"),
    Metric("queues", "Queues available"),
)
