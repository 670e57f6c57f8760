"""Delayed messages: which queues, topics and exchanges hold some, and which messages come due next.

The rule: the numbers come from the subscriptions; only messages that are shown are read.
"""

from collections.abc import Iterator
from typing import Final

from arneb.http.management.page.browsing import Found, found_at, message_document
from arneb.http.management.page.log_lookup import (
    expect_readable,
    expect_right,
    log_in,
    number_in,
)
from arneb.http.management.requests.calls import Call, Document, Reply, not_found
from arneb.http.management.requests.rules import USERS, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.wire.json_fields import text_to_json
from arneb_core.access.principals import Kind
from arneb_core.access.rights import Right
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.topics.topic import Topic

SHOWN_MAX: Final = 100
ROWS_PER_TURN: Final = 500

MESSAGES_MAX: Final = 100
"""Messages in one answer."""

BODY_BYTES: Final = 1024
"""Of each message's body."""


async def _list(site: Site, call: Call) -> Reply:
    by_vhost = await site.rows.of(site.core, site.topology)
    found: list[tuple[int, Document, Topic]] = []
    looked_at = 0
    for vhost in await site.vhosts_for(call):
        for name, topic, is_exchange in (
            *((row.name, row.topic, False) for row in by_vhost.get(vhost.name, ())),
            *_exchanges(vhost),
        ):
            looked_at += 1
            if looked_at % ROWS_PER_TURN == 0:
                await site.pause()
            if delayed := _delayed(topic):
                shown = {"name": text_to_json(name), "vhost": vhost.name, "delayed": delayed}
                found.append((delayed, {**shown, "exchange": is_exchange}, topic))
    found.sort(key=lambda each: -each[0])
    documents = [
        {**document, "next_ms": await _next_ms(topic)} for _, document, topic in found[:SHOWN_MAX]
    ]
    return Reply(documents)


def _exchanges(vhost: Vhost) -> Iterator[tuple[str, Topic, bool]]:
    """Yield the delayed exchanges with the topics of their delayed messages."""
    for name, each in vhost.delayed_exchanges.by_name.items():
        yield name, each.topic, True


def _delayed(topic: Topic) -> int:
    """Return how many messages are not due, of the subscription with the most."""
    if not topic.has_delays:
        return 0  # most topics: nothing more is read of them
    counts = [each.statistics().delayed_entries for each in topic.subscriptions.values()]
    return max(counts, default=0)


async def _next_ms(topic: Topic) -> int | None:
    try:
        soonest = await topic.soonest(1, wall_clock_ms())
    except StoreFailed:
        return None
    return soonest[0][0] if soonest else None


async def _of_queue(site: Site, call: Call) -> Reply:
    log = log_in(site, call)
    await expect_readable(call, log)
    return await _due(call, log.row.topic)


async def _of_exchange(site: Site, call: Call) -> Reply:
    name = call.params["exchange"]
    found = site.vhost_of(call).delayed_exchanges.by_name.get(name)
    if found is None:
        raise not_found()
    await expect_right(call, Right.READ, name, Kind.EXCHANGE)
    return await _due(call, found.topic)


async def _due(call: Call, topic: Topic) -> Reply:
    """Return the next messages to come due, in that order."""
    limit = min(number_in(call.query, "limit", MESSAGES_MAX), MESSAGES_MAX)
    found: list[Found] = []
    for _, at in await topic.soonest(limit, wall_clock_ms()):
        entry = await topic.entry_at(at)
        if entry is not None and len(found) < MESSAGES_MAX:
            found += found_at(at, entry)
    return Reply([message_document(None, each, BODY_BYTES) for each in found[:MESSAGES_MAX]])


ROUTES: Final = (
    Route("GET", "page/delayed", USERS, _list),
    Route("GET", "page/delayed/:vhost/:queue", VHOST, _of_queue),
    Route("GET", "page/delayed-by/:vhost/:exchange", VHOST, _of_exchange),
)
