"""Subscriptions: created, removed and moved."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

from arneb_core.api.entries.entry import read_header
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.errors import SubscriptionFenced, SubscriptionNotFound
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.calls.requests import (
    DONE,
    AdminError,
    AdminReply,
    AdminRequest,
    document,
)
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import ADMIN, on_topic
from arneb_pulsar.admin.topics.topics import (
    parts,
    properties_of,
    routes_of_topics,
    topic_of,
    undivided,
)
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.names import RESERVED_SUBSCRIPTIONS
from arneb_pulsar.namespaces.backlog import bytes_from
from arneb_pulsar.namespaces.fields import read_flag, read_int, read_number, read_table
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.topic_access import subscribe
from arneb_pulsar.session.errors import RESET_UNDER_WAY

COUNTED_AT_ONCE: Final = 10_000
"""Positions that a search for the nth one looks at between two checkpoints."""

Work = Callable[[Topic, Subscription], Awaitable[None]]


async def list_subscriptions(context: BrokerContext, request: AdminRequest) -> AdminReply:
    names: set[str] = set()
    for part in parts(context, topic_of(context, request)):
        names |= context.core.topic(part.core_name).subscriptions.keys()
    return document(sorted(names))


async def make(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Create a subscription. The body is a message id, "earliest" or "latest"; empty means
    latest."""
    name, subscription = topic_of(context, request), request.names["subscription"]
    if not name.is_persistent:
        text = "Create subscription on non-persistent topic can only be done through client"
        raise AdminError(400, text)
    if not context.topics.exists(name):
        context.topics.check(name, create=True)
        if not await context.topics.partitions(name, create=True):
            await context.topics.make(name)
    await context.topics.make_missing(name)  # unused partitions may have been removed
    initial, start = _beginning(request)
    wanted = request.given()
    properties = properties_of(wanted.get("properties") if isinstance(wanted, dict) else None)
    topics = [context.core.topic(part.core_name) for part in parts(context, name)]
    if all(subscription in topic.subscriptions for topic in topics):
        raise AdminError(409, "Subscription already exists for topic")
    for topic in topics:
        await subscribe(
            context,
            topic,
            name,
            subscription,
            initial=initial,
            start=None if start is None else LedgerIds(topic.id).nearest(*start),
            properties=properties,
            forced=True,
        )
    return DONE


def _beginning(request: AdminRequest) -> tuple[InitialPosition, tuple[int, int] | None]:
    """Return where a new subscription starts: at an end, or at an entry, by ledger id and entry
    id."""
    wanted = request.given()
    wanted = "latest" if wanted is None else wanted
    if wanted in ("latest", "earliest"):
        return InitialPosition(wanted), None
    return InitialPosition.EARLIEST, id_of(wanted)


def position_of(wanted: Any, topic: Topic) -> Position | None:
    """Return the position in ``topic`` of a message id in JSON; None: before everything."""
    place = id_of(wanted)
    return None if place is None else LedgerIds(topic.id).nearest(*place)


def id_of(wanted: Any) -> tuple[int, int] | None:
    """Return ledger id and entry id of a message id in JSON; None: before everything."""
    try:
        table = read_table(wanted)
        ledger, entry = (read_number(table, name, -1) for name in ("ledgerId", "entryId"))
        read_int(table, "partitionIndex", -1)  # only its kind: the path says which topic it is
    except ValueError as error:
        raise AdminError(400, f"expected a message id, got {wanted!r:.60}") from error
    if ledger < 0:
        return None
    return ledger, entry


def passed_of(wanted: Any, size: int) -> int:
    """Return how many of the ``size`` messages in a message id's entry come before the one meant:
    the message of that index, or the whole entry; with ``excluded`` the next one."""
    try:
        table = read_table(wanted)
        index, is_excluded = read_int(table, "batchIndex", -1), read_flag(table.get("excluded"))
    except ValueError as error:
        raise AdminError(400, str(error)) from error
    if size == 1 or index < 0:
        return size * is_excluded
    return index + is_excluded


async def drop(context: BrokerContext, request: AdminRequest) -> AdminReply:
    force, name = request.flag("force"), request.names["subscription"]

    async def work(topic: Topic, subscription: Subscription) -> None:
        if name in RESERVED_SUBSCRIPTIONS:
            raise AdminError(412, f"Subscription {name!r} is the broker's own")
        if subscription.consumers and not force:
            raise AdminError(412, "Subscription has active connected consumers")
        await topic.unsubscribe(name, force=force)

    return await _each(context, request, work)


async def skip_all(context: BrokerContext, request: AdminRequest) -> AdminReply:
    async def work(topic: Topic, subscription: Subscription) -> None:
        if topic.last is not None:
            await subscription.skip_through(topic.last)

    return await _each(context, request, work)


async def skip(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Skip entries, as in Pulsar: a batch counts as one."""
    count = request.number("count")
    if count < 0:
        raise AdminError(412, "expected 0 or more messages to skip")
    name = topic_of(context, request)
    topic = undivided(context, name, "Skip messages on a partitioned topic is not allowed")
    subscription = subscription_of(topic, request.names["subscription"])
    through, _ = await nth_waiting(subscription, count)
    if through is not None:
        await subscription.skip_through(through)
    return DONE


async def reset_to_time(context: BrokerContext, request: AdminRequest) -> AdminReply:
    timestamp = request.number("timestamp")

    async def work(topic: Topic, subscription: Subscription) -> None:
        with _reset():
            await subscription.seek_time(timestamp)

    return await _each(context, request, work)


@contextmanager
def _reset() -> Iterator[None]:
    """Refuse a reset while another one of the subscription is running."""
    try:
        yield
    except SubscriptionFenced as error:
        raise AdminError(412, f"Failed for Subscription Busy: {RESET_UNDER_WAY}") from error


async def reset_to_id(context: BrokerContext, request: AdminRequest) -> AdminReply:
    text = "Reset-cursor at position is not allowed for partitioned-topic"
    topic = undivided(context, topic_of(context, request), text)
    subscription = subscription_of(topic, request.names["subscription"])
    wanted = request.json()
    position, mask = position_of(wanted, topic), None
    if position is None:
        position = topic.first or position_at(1, 0)
    else:
        entry = await topic.entry_at(position)
        size = 1 if entry is None else read_header(entry).messages
        passed = passed_of(wanted, size)
        if passed >= size:
            position = Position(position + 1)
        elif passed:
            mask = (1 << size) - (1 << passed)
    with _reset():
        await subscription.seek(position, mask)
    return DONE


async def backlog_size(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the size of the backlog from a message id on."""
    wanted = request.json()
    text = "calculate backlog size is not allowed for partitioned-topic"
    topic = undivided(context, topic_of(context, request), text)
    position = position_of(wanted, topic)
    return document(bytes_from(topic.ledgers(), position or position_at(1, 0)))


async def truncate(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Clear the backlog of every subscription."""
    name = topic_of(context, request)
    if not name.is_persistent:
        raise AdminError(412, "A non-persistent topic keeps nothing that could be truncated")
    for part in parts(context, name):
        topic = context.core.topic(part.core_name)
        for subscription in list(topic.subscriptions.values()):
            if topic.last is not None and subscription.name not in RESERVED_SUBSCRIPTIONS:
                await subscription.skip_through(topic.last)
    return DONE


async def nth_waiting(subscription: Subscription, count: int) -> tuple[Position | None, int]:
    """Return the last of the first ``count`` unacknowledged positions, and how many there are."""
    position: Position | None = None
    left = count
    while left > 0:
        waiting = subscription.unacknowledged(min(left, COUNTED_AT_ONCE), position)
        if not waiting:
            break
        left -= len(waiting)
        position = waiting[-1]
        await trio.lowlevel.checkpoint()
    return position, count - left


def subscription_of(topic: Topic, name: str) -> Subscription:
    """Return the subscription of that name. Raises :class:`AdminError`."""
    found = topic.subscriptions.get(name)
    if found is None:
        raise AdminError(404, f"Subscription {name} not found for topic {topic.name}")
    return found


async def _each(context: BrokerContext, request: AdminRequest, work: Work) -> AdminReply:
    """Apply ``work`` to every partition that has the subscription, or to the topic itself."""
    name, subscription = topic_of(context, request), request.names["subscription"]
    topics = [context.core.topic(part.core_name) for part in parts(context, name)]
    with_it = [topic for topic in topics if subscription in topic.subscriptions]
    if not with_it:
        raise AdminError(404, f"Subscription {subscription} not found for topic {name}")
    for topic in with_it:
        try:
            await work(topic, subscription_of(topic, subscription))
        except SubscriptionNotFound:
            continue  # already removed by somebody else
    return DONE


ONE: Final = "/{topic}/subscription/{subscription}"

ROUTES: Final[list[Route]] = [
    *routes_of_topics(
        Route(
            "GET",
            "/{topic}/subscriptions",
            on_topic(TopicOperation.GET_SUBSCRIPTIONS),
            list_subscriptions,
        ),
        Route("PUT", ONE, on_topic(TopicOperation.SUBSCRIBE), make),
        Route("DELETE", ONE, on_topic(TopicOperation.UNSUBSCRIBE), drop),
        Route("POST", ONE + "/skip_all", on_topic(TopicOperation.SKIP), skip_all),
        Route("POST", ONE + "/skip/{count}", on_topic(TopicOperation.SKIP), skip),
        Route(
            "POST",
            ONE + "/resetcursor/{timestamp}",
            on_topic(TopicOperation.RESET_CURSOR),
            reset_to_time,
        ),
        Route("POST", ONE + "/resetcursor", on_topic(TopicOperation.RESET_CURSOR), reset_to_id),
        Route(
            "PUT", "/{topic}/backlogSize", on_topic(TopicOperation.GET_BACKLOG_SIZE), backlog_size
        ),
        Route("DELETE", "/{topic}/truncate", ADMIN, truncate),
    ),
]
