"""Counters: the traffic of the broker's objects, in RabbitMQ's terms.

The rule: counters are read from the frontend and the core on request; nothing is counted here. A
group of ``message_stats`` is shown, with all its counters, once one of them is not 0.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from arneb.http.management.requests.calls import Document
from arneb_amqp.server.roster import ChannelTraffic
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.traffic import Consumed, ExchangeTraffic, VhostTraffic

Counters = Mapping[str, int]
Group = tuple[str, ...]

LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")

PUBLISHED: Final = ("publish",)
SENT: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
CONSUMED: Final = (
    "ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack",
    "redeliver",
)  # fmt: skip
PASSED: Final = ("publish_in", "publish_out")
STORED: Final = ("disk_reads", "disk_writes")

QUEUE_COUNTERS: Final = (*PUBLISHED, *CONSUMED, *LENGTHS)
OF_QUEUES: Final = (PUBLISHED, CONSUMED)
OF_CHANNELS: Final = (SENT, CONSUMED)
OF_VHOSTS: Final = (SENT, CONSUMED)
OF_NODES: Final = (SENT, CONSUMED, STORED)
OF_EXCHANGES: Final = (PASSED,)

CHURN: Final = (
    "connection_created", "connection_closed", "channel_created", "channel_closed",
    "queue_declared", "queue_created", "queue_deleted",
)  # fmt: skip

OCTETS: Final = ("recv_oct", "send_oct")


def unacknowledged(queue: Queue) -> int:
    """Return the number of unacknowledged messages."""
    return queue.lengths[1]


def ready(queue: Queue) -> int:
    """Return the number of ready messages."""
    return queue.lengths[0]


def messages(queue: Queue) -> int:
    """Return the number of ready and unacknowledged messages."""
    return sum(queue.lengths)


def consumed(traffic: Consumed) -> dict[str, int]:
    """Return the counters of deliveries and acknowledgements."""
    return {
        "ack": traffic.acknowledged,
        "deliver": traffic.delivered,
        "deliver_get": traffic.handed_out,
        "deliver_no_ack": traffic.delivered_no_ack,
        "get": traffic.got,
        "get_empty": traffic.got_nothing,
        "get_no_ack": traffic.got_no_ack,
        "redeliver": traffic.redelivered,
    }


def lengths_of(queue: Queue) -> dict[str, int]:
    """Return the number of messages in a queue, by state."""
    waiting, away = queue.lengths
    return {
        "messages": waiting + away,
        "messages_ready": waiting,
        "messages_unacknowledged": away,
    }


def of_queue(queue: Queue) -> dict[str, int]:
    """Return all counters of a queue. Every message put into it counts as published, dead letters
    included."""
    return dict(zip(QUEUE_COUNTERS, numbers_of(queue), strict=True))


def numbers_of(queue: Queue) -> tuple[int, ...]:
    """Return the same without names, for loops over very many queues."""
    traffic, (waiting, away) = queue.traffic, queue.lengths
    return (
        queue.topic.appended_messages_total,
        traffic.acknowledged, traffic.delivered, traffic.handed_out, traffic.delivered_no_ack,
        traffic.got, traffic.got_nothing, traffic.got_no_ack, traffic.redelivered,
        waiting + away, waiting, away,
    )  # fmt: skip


def of_channel(traffic: ChannelTraffic) -> dict[str, int]:
    """Return all counters of a channel."""
    return {
        "publish": traffic.published,
        "confirm": traffic.confirmed,
        "return_unroutable": traffic.returned,
        "drop_unroutable": traffic.dropped,
        **consumed(traffic.consumed),
    }


def of_exchange(traffic: ExchangeTraffic) -> dict[str, int]:
    """Return all counters of an exchange."""
    return {"publish_in": traffic.published_in, "publish_out": traffic.published_out}


def of_vhost(traffic: VhostTraffic) -> dict[str, int]:
    """Return the counters of a vhost, with those of objects deleted since."""
    everything = Consumed()
    for each in traffic.by_type.values():
        everything.add(each)
    return {
        "publish": traffic.published().published_in,
        "confirm": traffic.confirmed,
        "return_unroutable": traffic.returned,
        "drop_unroutable": traffic.dropped,
        **consumed(everything),
    }


OF_ONE_QUEUE: Final[Mapping[str, Callable[[Queue], int]]] = {
    "publish": lambda queue: queue.topic.appended_messages_total,
    "ack": lambda queue: queue.traffic.acknowledged,
    "deliver": lambda queue: queue.traffic.delivered,
    "deliver_get": lambda queue: queue.traffic.handed_out,
    "deliver_no_ack": lambda queue: queue.traffic.delivered_no_ack,
    "get": lambda queue: queue.traffic.got,
    "get_empty": lambda queue: queue.traffic.got_nothing,
    "get_no_ack": lambda queue: queue.traffic.got_no_ack,
    "redeliver": lambda queue: queue.traffic.redelivered,
    "messages": messages,
    "messages_ready": ready,
    "messages_unacknowledged": unacknowledged,
}
"""Reads one of a queue's counters."""


def with_details(
    counters: Counters, rates: Mapping[str, Mapping[str, Any]], names: Sequence[str]
) -> Document:
    """Return the counters of these names, each with its rate."""
    shown: Document = {}
    for name in names:
        shown[name] = counters[name]
        shown[f"{name}_details"] = rates[name]
    return shown


def message_stats(
    counters: Counters, rates: Mapping[str, Mapping[str, Any]], groups: Sequence[Group]
) -> Document:
    """Return an object's ``message_stats`` under that name; nothing while all are 0."""
    shown: Document = {}
    for group in groups:
        if any(counters[name] for name in group):
            shown |= with_details(counters, rates, group)
    return {"message_stats": shown} if shown else {}
