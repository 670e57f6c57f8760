"""Rows: the values of one object for each family of RabbitMQ's metrics.

The rule: values are in the order of the family's metrics, and read at the same instant.
"""

from collections.abc import Callable, Mapping
from typing import Final

from arneb.http.metrics import families
from arneb.http.metrics.families import Family
from arneb.metrics.text import labelled
from arneb_amqp.routing.exchange import Exchange
from arneb_amqp.server.roster import ChannelStatistics, ConnectionStatistics
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.traffic import Consumed

Values = tuple[float, ...]

Channel = tuple[ConnectionStatistics, ChannelStatistics]


def _coarse(queue: Queue) -> Values:
    waiting, away = queue.lengths
    return waiting, away, waiting + away


def _queue(queue: Queue) -> Values:
    waiting, away = queue.lengths
    consumers = queue.consumer_count if queue.is_complete else 0
    is_stream = queue.type is QueueType.STREAM
    served = not waiting or (not is_stream and queue.subscription.room > 0)
    capacity = 1.0 if consumers and served else 0.0
    if not waiting and not away:
        size = ready_size = 0
    elif is_stream:
        size = ready_size = queue.topic.statistics().bytes
    else:
        size = queue.subscription.backlog_bytes
        ready_size = min(size, queue.subscription.ready_bytes)
    here, stored = (0, 1) if queue.durable else (1, 0)
    return (
        consumers, capacity, capacity, size * here, (waiting + away) * here, size * here,
        waiting * here, away * here, (waiting + away) * stored, size * stored, size, ready_size,
        size - ready_size, (waiting + away) * stored, size * stored,
        queue.topic.appended_messages_total * stored,
    )  # fmt: skip


def of_consumed(each: Consumed) -> Values:
    """Return the row of what consumers have received."""
    return (
        each.got, each.got_no_ack, each.delivered, each.delivered_no_ack, each.redelivered,
        each.acknowledged, each.got_nothing,
    )  # fmt: skip


OF_QUEUES: Final[Mapping[Family, Callable[[Queue], Values]]] = {
    families.QUEUE_COARSE: _coarse,
    families.QUEUE_CONSUMERS: lambda each: (each.consumer_count if each.is_complete else 0,),
    families.QUEUE: _queue,
    families.QUEUE_PUBLISHED: lambda each: (each.topic.appended_messages_total,),
    families.QUEUE_DELIVERY: lambda each: of_consumed(each.traffic),
}

OF_CHANNELS: Final[Mapping[Family, Callable[[ChannelStatistics], Values]]] = {
    families.CHANNEL: lambda each: (
        len(each.consumers), each.unacknowledged, each.unconfirmed, each.uncommitted,
        each.acks_uncommitted, each.prefetch, each.global_prefetch,
    ),
    families.CHANNEL_EXCHANGE: lambda each: (
        each.traffic.published, each.traffic.confirmed, each.traffic.returned,
        each.traffic.dropped,
    ),
    families.CHANNEL_QUEUE: lambda each: of_consumed(each.traffic.consumed),
}  # fmt: skip

OF_CONNECTIONS: Final[Mapping[Family, Callable[[ConnectionStatistics], Values]]] = {
    families.CONNECTION_COARSE: lambda each: (each.received_bytes, each.sent_bytes),
    families.CONNECTION: lambda each: (
        each.reads, each.writes, each.waiting_bytes, each.channels,
    ),
}  # fmt: skip


def of_exchange(family: Family, vhost: Vhost, exchange: Exchange) -> Values:
    """Return the row of an exchange."""
    if family is families.EXCHANGE:
        return (vhost.router.traffic.exchanges[exchange.name].published_in,)
    if family is families.EXCHANGE_BINDINGS:
        return (len(vhost.router.bindings_from(exchange.name)),)
    return (1,)


def queue_labels(queue: Queue) -> str:
    """Return the labels of a queue."""
    return labelled(vhost=queue.vhost, queue=shown(queue.name))


def exchange_labels(family: Family, vhost: Vhost, exchange: Exchange) -> str:
    """Return the labels of an exchange."""
    if family is families.EXCHANGE:
        return labelled(vhost=vhost.name, exchange=shown(exchange.name))
    return labelled(vhost=vhost.name, exchange=shown(exchange.name), type=exchange.type)


def channel_labels(channel: Channel) -> str:
    """Return the label of a channel: its name, where RabbitMQ has an Erlang process."""
    return labelled(channel=f"{channel[0].name} ({channel[1].number})")


def connection_labels(connection: ConnectionStatistics) -> str:
    """Return the label of a connection."""
    return labelled(connection=connection.name)


def shown(name: str) -> str:
    """Return a name with octets that are not UTF-8 replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def vhost_labels(vhost: Vhost) -> str:
    """Return the label of a vhost."""
    return labelled(vhost=vhost.name)
