"""The node's part of RabbitMQ's metrics: what is counted for the whole node.

The rule: every figure of a page is gathered at about one instant; :mod:`.node_page` writes them.
"""

import os
import resource
from collections import Counter
from dataclasses import dataclass

from arneb.http.management.figures.counters import CHURN
from arneb.http.management.node.churn import churn_counters
from arneb.http.management.site import Site
from arneb.http.metrics import families
from arneb.http.metrics.families import Family
from arneb.http.metrics.rows import Values, of_consumed
from arneb_amqp.traffic import Consumed, VhostTraffic
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.subscriptions.limits import Departure, Fate


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The figures of a page, gathered at about one instant."""

    totals: tuple[int, ...]
    """Connections, channels, consumers, queues."""
    publishers: int
    """Channels that have published."""
    summed: tuple[tuple[Family, Values], ...]
    """The sums of families."""
    departed: Counter[tuple[str, Departure, Fate]]
    """Messages that left existing queues without an acknowledgement."""


def values_of(site: Site, family: Family) -> Values:
    """Return the only row of a family that describes the node."""
    alarms = site.alarms.statistics
    match family:
        case families.CHURN:
            counters = churn_counters(site)
            return tuple(counters[name] for name in CHURN)
        case families.NODE_COARSE:
            return (
                len(os.listdir("/proc/self/fd")), len(site.roster), alarms.memory_used_bytes,
                alarms.disk_free_bytes,
            )  # fmt: skip
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        limit, limit, alarms.memory_high_watermark_bytes, alarms.disk_free_min_bytes,
        (wall_clock_ms() - site.started_ms) / 1000,
    )  # fmt: skip


def summed_of_channels(traffic: VhostTraffic) -> tuple[tuple[Family, Values], ...]:
    """Return the sums over all present and past channels."""
    everything = Consumed()
    for each in traffic.by_type.values():
        everything.add(each)
    sent = (
        traffic.published().published_in, traffic.confirmed, traffic.returned, traffic.dropped,
    )  # fmt: skip
    return (families.CHANNEL_EXCHANGE, sent), (families.CHANNEL_QUEUE, of_consumed(everything))
