"""Expiry on request: skips a subscription's messages that are old enough.

The rule: as in Pulsar, a subscription with nothing to expire is a conflict, which the answer
reports, but the call's other subscriptions are expired nevertheless.
"""

from typing import Any, Final

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import before, position_at
from arneb_core.api.errors import SubscriptionNotFound
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_topic
from arneb_pulsar.admin.subscriptions.subscriptions import (
    ONE,
    id_of,
    passed_of,
    subscription_of,
)
from arneb_pulsar.admin.topics.topics import parts, routes_of_topics, topic_of, undivided
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.names import RESERVED_SUBSCRIPTIONS, TopicName
from arneb_pulsar.namespaces.fields import read_int, read_table
from arneb_pulsar.services.context import BrokerContext

ALMOST_CAUGHT_UP: Final = 1_000
"""A subscription with consumers and a smaller backlog is about to read it, so nothing is expired;
Pulsar's ``MINIMUM_BACKLOG_FOR_EXPIRY_CHECK``."""

CLEARLY: Final = 1.5
"""It is expired nevertheless if its oldest entry exceeds the age by this factor; Pulsar's
``MESSAGE_EXPIRY_THRESHOLD``."""

SECONDS_MAX: Final = 2**31 - 1
"""68 years, either way."""

FIRST: Final = position_at(1, 0)

OF_ANOTHER: Final = (
    "Invalid parameter for expire message by position, partition index of passed in message "
    "position doesn't match partition index for the topic"
)


async def expire(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Expire messages of one subscription, in every partition that has it."""
    name, wanted = topic_of(context, request), request.names["subscription"]
    found = [
        (part, subscription)
        for part in _persistent(context, name)
        if (subscription := context.core.topic(part.core_name).subscriptions.get(wanted))
    ]
    if not found:
        raise AdminError(404, f"Subscription {wanted} not found for topic {name}")
    return await _expire(context, found, _seconds(request))


async def expire_all(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Expire messages of every subscription."""
    found = [
        (part, subscription)
        for part in _persistent(context, topic_of(context, request), " for all subscriptions")
        for subscription in context.core.topic(part.core_name).subscriptions.values()
        if subscription.name not in RESERVED_SUBSCRIPTIONS
    ]
    return await _expire(context, found, _seconds(request))


async def expire_through(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Expire everything up to a message id; with ``excluded`` not that message."""
    name = topic_of(context, request)
    wanted = request.json()
    place = id_of(wanted)
    if place is not None and _partition(wanted, name.partition) != name.partition:
        raise AdminError(412, OF_ANOTHER)
    text = "Expire message at position is not supported for partitioned-topic"
    topic = undivided(context, name, text)
    subscription = subscription_of(topic, request.names["subscription"])
    position = None if place is None else LedgerIds(topic.id).nearest(*place)
    if position is not None and position > (topic.last or before(FIRST)):
        raise _conflict("position", name, subscription)
    if position is not None and passed_of(wanted, 1):
        position = before(position)
    if position is not None and position > subscription.mark_delete:
        await subscription.skip_through(position, Departure.EXPIRED)
    return DONE


def _seconds(request: AdminRequest) -> int:
    return max(-SECONDS_MAX, min(request.number("seconds"), SECONDS_MAX))


def _partition(wanted: Any, default: int) -> int:
    try:
        return read_int(read_table(wanted), "partitionIndex", default)
    except ValueError as error:
        raise AdminError(400, str(error)) from error


def _persistent(context: BrokerContext, name: TopicName, whose: str = "") -> list[TopicName]:
    found = parts(context, name)
    if not name.is_persistent:
        raise AdminError(405, f"Expire messages{whose} on a non-persistent topic is not allowed")
    return found


async def _expire(
    context: BrokerContext, found: list[tuple[TopicName, Subscription]], seconds: int
) -> AdminReply:
    conflicts: list[AdminError] = []
    for name, subscription in found:
        topic = context.core.topics.get(name.core_name)
        if topic is None:
            continue  # already removed by somebody else
        try:
            if not await _expire_one(context, topic, subscription, seconds):
                conflicts.append(_conflict("timestamp", name, subscription))
        except SubscriptionNotFound:
            continue
    if conflicts:
        raise conflicts[0]
    return DONE


async def _expire_one(
    context: BrokerContext, topic: Topic, subscription: Subscription, seconds: int
) -> bool:
    """Skip what was published longer ago; False if there is nothing, or hardly anything, to
    expire."""
    waiting = subscription.unacknowledged(ALMOST_CAUGHT_UP)
    if not waiting:
        return False
    now_ms = context.clock.wall_ms()
    if subscription.consumers and len(waiting) < ALMOST_CAUGHT_UP:
        clearly_old = max(0, now_ms - int(seconds * CLEARLY) * 1000)
        first = await topic.first_published(clearly_old)
        if not seconds or (first is not None and first <= waiting[0]):
            return False
    if not seconds:
        return True  # 0 means that messages never expire
    first = await topic.first_published(max(0, now_ms - seconds * 1000))
    through = topic.last if first is None else before(first)
    if through is not None and through > subscription.mark_delete:
        await subscription.skip_through(through, Departure.EXPIRED)
    return True


def _conflict(by: str, name: TopicName, subscription: Subscription) -> AdminError:
    return AdminError(
        409,
        f"Expire message by {by} not issued on topic {name} for subscription {subscription.name}: "
        "there is nothing before it that has expired, or it has almost caught up",
    )


_EXPIRES: Final = on_topic(TopicOperation.EXPIRE_MESSAGES)

ROUTES: Final[list[Route]] = routes_of_topics(
    Route("POST", ONE + "/expireMessages/{seconds}", _EXPIRES, expire),
    Route("POST", "/{topic}/all_subscription/expireMessages/{seconds}", _EXPIRES, expire_all),
    Route("POST", ONE + "/expireMessages", _EXPIRES, expire_through),
)
