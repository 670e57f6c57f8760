"""Backlogs and properties of subscriptions: backlogs are analysed entry by entry, and trimmed.

The rule: an analysis looks at a bounded number of entries, in turns, and says when it stopped
early.
"""

from dataclasses import dataclass
from typing import Final

import trio

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position, before
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.history import HISTORY_PROPERTY
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.calls.paths import topic_in
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_topic
from arneb_pulsar.admin.subscriptions.subscriptions import position_of, subscription_of
from arneb_pulsar.admin.topics.topics import (
    ONE_BY_ONE,
    parts,
    properties_of,
    routes_of_topics,
    topic_of,
    undivided,
)
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.services.context import BrokerContext

ENTRIES_MAX: Final = 10_000
"""The most entries that one analysis looks at; Pulsar's ``subscriptionBacklogScanMaxEntries``."""

PLACES_AT_ONCE: Final = 1_000
"""Positions of the analysis that are collected between two reads."""

OURS: Final = frozenset({HISTORY_PROPERTY})
"""Properties that configure what this broker keeps of a subscription; they are fixed when it is
created."""

READ_BYTES: Final = 1024 * 1024
ENTRIES_PER_TURN: Final = 1_000
"""Entries analysed before other tasks get a turn: half a millisecond."""


async def analyze(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Count what is in a backlog."""
    text = f"Analyze backlog on a partitioned topic is not allowed{ONE_BY_ONE}"
    topic = undivided(context, topic_of(context, request), text)
    subscription = subscription_of(topic, request.names["subscription"])
    wanted = request.given()
    start = None if wanted is None else position_of(wanted, topic)
    counted = await _count(topic, subscription, start)
    entries, messages = counted.entries, counted.messages
    ends: dict[str, str] = {}
    if counted.first is not None and counted.last is not None:
        ids = LedgerIds(topic.id)
        ends = {
            "firstMessageId": ids.render(counted.first),
            "lastMessageId": ids.render(counted.last),
        }
    return document(
        {
            **ends,
            "entries": entries,
            "messages": messages,
            "filterRejectedEntries": 0,
            "filterAcceptedEntries": entries,
            "filterRescheduledEntries": 0,
            "filterRejectedMessages": 0,
            "filterAcceptedMessages": messages,
            "filterRescheduledMessages": 0,
            "aborted": counted.is_partial,
        }
    )


@dataclass(slots=True)
class Counted:
    """The result of an analysis."""

    entries: int = 0
    messages: int = 0
    first: Position | None = None
    last: Position | None = None
    is_partial: bool = False
    """There are more entries than one analysis looks at."""

    def __repr__(self) -> str:
        return f"<Counted {self.messages} messages in {self.entries} entries>"


async def _count(topic: Topic, subscription: Subscription, start: Position | None) -> Counted:
    counted = Counted()
    after = None if start is None else max(before(start), subscription.mark_delete)
    while waiting := subscription.unacknowledged(PLACES_AT_ONCE, after):
        wanted = set(waiting)
        reached = waiting[0]
        for first, run in await topic.read(waiting[0], READ_BYTES):
            for index, entry in enumerate(run):
                position = Position(first + index)
                if position > waiting[-1]:
                    break
                reached = position
                if position in wanted:
                    left = subscription.masks.get(position)
                    counted.messages += messages_in(entry) if left is None else left.bit_count()
                    counted.entries += 1
                    counted.first = position if counted.first is None else counted.first
                    counted.last = position
                    if counted.entries == ENTRIES_MAX:
                        counted.is_partial = bool(subscription.unacknowledged(1, position))
                        return counted
                if counted.entries % ENTRIES_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
        after = reached
        await trio.lowlevel.checkpoint()
    return counted


async def trim(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Do nothing: entries that every subscription has passed, and that retention does not keep, are
    removed with the commit that passes them."""
    name = topic_in(request)
    if not name.is_persistent:
        raise AdminError(405, "Trim on a non-persistent topic is not allowed")
    parts(context, name)
    return AdminReply(200)


async def get_properties(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return a subscription's properties; for a partitioned topic, from the first partition that
    has it."""
    name, subscription = topic_of(context, request), request.names["subscription"]
    for part in parts(context, name):
        found = context.core.topic(part.core_name).subscriptions.get(subscription)
        if found is not None:
            return document(dict(found.properties))
    raise AdminError(404, f"Subscription {subscription} not found for topic {name}")


async def put_properties(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Replace the properties, in every partition."""
    name, properties = topic_of(context, request), properties_of(request.given())
    topics = [context.core.topic(part.core_name) for part in parts(context, name)]
    wanted = request.names["subscription"]
    found = [each.subscriptions[wanted] for each in topics if wanted in each.subscriptions]
    if not found:
        raise AdminError(404, f"Subscription {wanted} not found for topic {name}")
    for each in found:
        kept = {key: value for key, value in each.properties.items() if key in OURS}
        await each.describe({**properties, **kept})
    return DONE


ONE: Final = "/{topic}/subscription/{subscription}"

ROUTES: Final[list[Route]] = routes_of_topics(
    Route("POST", ONE + "/analyzeBacklog", on_topic(TopicOperation.CONSUME), analyze),
    Route("GET", ONE + "/properties", on_topic(TopicOperation.CONSUME), get_properties),
    Route("PUT", ONE + "/properties", on_topic(TopicOperation.CONSUME), put_properties),
    Route("POST", "/{topic}/trim", on_topic(TopicOperation.TRIM_TOPIC), trim),
)
