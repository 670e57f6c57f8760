"""The node in a few figures: the header of every page, and how its disk keeps up.

The rule: every user sees the alarms, which explain why publishers are blocked; only users who may
monitor see the figures.
"""

from typing import Final

from arneb.http.management.requests.calls import Call, Document, Reply, not_found
from arneb.http.management.requests.rules import MONITORING, USERS, is_monitor
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_core.api.statistics import Histogram


async def _look(site: Site, call: Call) -> Reply:
    document: Document = {
        "version": site.version,
        "cluster_name": site.cluster_name,
        "node": site.node,
        "started_ms": site.started_ms,
        "user": call.caller.name if not is_monitor(call.caller) else None,
        "audited": site.is_audited(),
        "alarms": alarms_of(site),
    }
    if is_monitor(call.caller):
        document |= _figures(site)
        document["cluster"] = None if site.membership is None else site.membership()
    return Reply(document)


async def _look_at_member(site: Site, call: Call) -> Reply:
    if site.membership is None:
        raise not_found("this broker is not in a cluster", "not_found")
    return Reply(site.membership())


def alarms_of(site: Site) -> list[Document]:
    """Return the alarms: what is blocked, why, and what to do about it."""
    now, stored = site.alarms.statistics, site.core.statistics()
    found: list[Document] = []
    if now.memory_alarm:
        found.append(
            {
                "name": "memory",
                "text": "Publishers over AMQP wait: the broker uses more memory than it may.",
                "advice": "Consume or purge queues that are not durable, lower prefetch, or raise "
                "memory_high_watermark.",
                "is": now.memory_used_bytes,
                "limit": now.memory_high_watermark_bytes,
            }
        )
    if now.disk_alarm:
        found.append(
            {
                "name": "disk",
                "text": "Publishers over AMQP wait: too little of the disk is free.",
                "advice": "Consume or purge the longest queues, shorten retention, or free the "
                "disk of something else. Consumers continue meanwhile.",
                "is": now.disk_free_bytes,
                "limit": now.disk_free_min_bytes,
            }
        )
    if stored.full:
        found.append(
            {
                "name": "full",
                "text": "The last commit found no room on the disk: nothing new is confirmed.",
                "advice": "Free the disk. The broker continues by itself as soon as there is room.",
                "is": stored.store_bytes,
                "limit": 0,
            }
        )
    if site.membership is not None:
        found += site.membership()["alarms"]
    return found


def _figures(site: Site) -> Document:
    alarms, stored = site.alarms.statistics, site.core.statistics()
    return {
        "memory_bytes": alarms.memory_used_bytes,
        "memory_limit_bytes": alarms.memory_high_watermark_bytes,
        "disk_free_bytes": alarms.disk_free_bytes,
        "disk_free_min_bytes": alarms.disk_free_min_bytes,
        "store_bytes": stored.store_bytes,
        "cache_bytes": stored.cache_bytes,
        "waiting_bytes": stored.waiting_bytes,
        "commits_total": stored.commits_total,
        "commit_failures_total": stored.commit_failures_total,
        "entries_total": stored.entries_total,
        "commit_s": _histogram(stored.commit_s),
        "commit_entries": _histogram(stored.commit_entries),
        "topics": stored.topics,
        "watching": site.watchers.streams,
        "answers_total": site.watchers.made_total,
    }


def _histogram(of: Histogram) -> Document:
    return {"bounds": of.bounds, "counts": of.counts, "sum": of.sum}


ROUTES: Final = (
    Route("GET", "page/node", USERS, _look),
    Route("GET", "page/member", MONITORING, _look_at_member),
)
