"""Churn: what has come and gone since the broker started.

The rule: read from whoever lets it in, connections, channels and queues.
"""

from typing import Final

from arneb.http.management.figures.counters import Counters
from arneb.http.management.site import Site

CHURNED: Final = ("churn",)
"""Under what its rates are kept."""


def churn_counters(site: Site) -> Counters:
    """What has come and gone since the broker started."""
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
