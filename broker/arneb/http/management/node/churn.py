"""Churn: connections, channels and queues opened and closed since the broker started.

The rule: the counts are read from the roster and the topology; nothing is counted here.
"""

from typing import Final

from arneb.http.management.figures.counters import Counters
from arneb.http.management.site import Site

CHURNED: Final = ("churn",)
"""The key of churn rates."""


def churn_counters(site: Site) -> Counters:
    """Return the churn counters."""
    roster, traffic = site.roster, site.topology.traffic()
    return {
        "connection_created": roster.opened_total,
        "connection_closed": roster.closed_total,
        "channel_created": roster.channels_opened_total,
        "channel_closed": roster.channels_closed_total,
        "queue_declared": traffic.queues_declared,
        "queue_created": traffic.queues_created,
        "queue_deleted": traffic.queues_deleted,
    }
