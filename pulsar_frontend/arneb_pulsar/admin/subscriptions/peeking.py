"""Peeking: shows messages to operators without delivering them.

The rule: one message is in memory at a time. After a subscription's backlog come the messages of
open transactions, marked as not committed: callers that want only committed ones skip those
themselves, as with Pulsar.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import trio
from pyroaring import BitMap64

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.calls.requests import BYTES, AdminError, AdminReply, AdminRequest
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import on_topic
from arneb_pulsar.admin.documents.messages import (
    ABORTED,
    PREFIX,
    UNCOMMITTED,
    message_of,
    of_the_broker,
)
from arneb_pulsar.admin.subscriptions.subscriptions import nth_waiting, position_of
from arneb_pulsar.admin.topics.topics import kept, routes_of_topics, topic_of, undivided
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.namespaces.backlog import nth_entry
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.transactions.records import SENT_AT
from arneb_pulsar.transactions.states import PROVISIONAL, TransactionId

NOT_FOUND: Final = "Message not found"
ID_NOT_FOUND: Final = "Message id not found"
EXAMINE_ONE: Final = ", please try examine message on specific topic partition"
NO_MESSAGES: Final = "Could not examine messages due to the total message is zero"

LOOKED_PER_TURN: Final = 100
"""Open transactions looked at before other tasks get a turn: a fraction of a millisecond."""


async def peek(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the nth unacknowledged message, counted from 1."""
    count = request.number("count")
    name = topic_of(context, request)
    topic = kept(context, name, "Peek messages on")
    subscription = topic.subscriptions.get(request.names["subscription"])
    if subscription is None:
        # Pulsar creates it at the beginning; here the caller sees the same, and nothing is created.
        enough = 0 < count <= sum(each.entries for each in topic.ledgers())
        position = nth_entry(topic.ledgers(), count, from_end=False) if enough else None
    else:
        position, found = await nth_waiting(subscription, count)
        if found < count:
            return await _uncommitted(context, request, topic, count - found)
        position = position if count > 0 else None
    return await _message(context, request, topic, position)


async def _uncommitted(
    context: BrokerContext, request: AdminRequest, topic: Topic, count: int
) -> AdminReply:
    """Return the nth message of open transactions, in order of arrival."""
    positions = BitMap64()
    for looked, each in enumerate([*context.transactions.open]):
        if (sends := each.sends.get(topic.id)) is not None:
            positions |= sends.positions
        if looked % LOOKED_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
    if len(positions) < count:
        raise AdminError(404, NOT_FOUND)
    wanted = positions[count - 1]
    whose = [each.id for each in context.transactions.open if wanted in each.records]
    if not whose:
        raise AdminError(404, NOT_FOUND)  # the transaction ended meanwhile
    async with context.message_shown:
        records = context.transactions.held.read(BitMap64([wanted]))
        ((position, record),) = [each async for each in records]
        reply = await _shown(request, topic, Position(PROVISIONAL + position), record[SENT_AT:])
        marks = _marks(whose[0])
        others = [each for each in reply.headers if each[0] not in marks]
        return replace(reply, headers=[*others, *marks.items()])


def _marks(transaction: TransactionId) -> Mapping[str, str]:
    return {
        UNCOMMITTED: "true",
        ABORTED: "false",
        PREFIX + "txnid-most-bits": str(transaction.most_bits),
        PREFIX + "txnid-least-bits": str(transaction.least_bits),
    }


async def examine(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the nth entry from either end of the log, counted from 1."""
    name = topic_of(context, request)
    topic = kept(context, name, "Examine messages on", EXAMINE_ONE)
    asked = {"messagePosition": request.query.get("messagePosition") or "1"}
    number = AdminRequest(asked).number("messagePosition")
    if not any(each.entries for each in topic.ledgers()):
        raise AdminError(412, NO_MESSAGES)
    end = request.query.get("initialPosition", "latest")
    if end not in ("earliest", "latest"):
        raise AdminError(412, f"initialPosition: expected earliest or latest, got {end!r}")
    position = nth_entry(topic.ledgers(), max(1, number), from_end=end == "latest")
    return await _message(context, request, topic, position)


async def entry(context: BrokerContext, request: AdminRequest) -> AdminReply:
    text = "GetMessageById is not allowed on partitioned-topic"
    topic = undivided(context, topic_of(context, request), text)
    wanted = {"ledgerId": request.number("ledger"), "entryId": request.number("entry")}
    position = position_of(wanted, topic)
    return await _message(context, request, topic, position, ID_NOT_FOUND)


async def _message(
    context: BrokerContext,
    request: AdminRequest,
    topic: Topic,
    position: Position | None,
    otherwise: str = NOT_FOUND,
) -> AdminReply:
    """Return the message at a position. It may take 128 MiB, and as much again uncompressed."""
    async with context.message_shown:
        found = None if position is None else await topic.entry_at(position)
        if position is None or found is None:
            raise AdminError(404, otherwise)
        reply = await _shown(request, topic, position, found)
        if not context.config.expose_broker_entry_metadata:
            return reply
        added = of_the_broker(found, await topic.offset_of(position))
        return replace(reply, headers=[*reply.headers, *added])


async def _shown(
    request: AdminRequest, topic: Topic, position: Position, found: bytes
) -> AdminReply:
    await request.hold(2 * len(found))
    headers, payload = await trio.to_thread.run_sync(
        message_of, position, found, LedgerIds(topic.id)
    )
    await request.hold(len(payload))
    return AdminReply(200, payload, BYTES, [*headers, (UNCOMMITTED, "false")])


ROUTES: Final[list[Route]] = routes_of_topics(
    Route(
        "GET",
        "/{topic}/subscription/{subscription}/position/{count}",
        on_topic(TopicOperation.PEEK_MESSAGES),
        peek,
    ),
    Route(
        "GET",
        "/{topic}/ledger/{ledger}/entry/{entry}",
        on_topic(TopicOperation.PEEK_MESSAGES),
        entry,
    ),
    Route("GET", "/{topic}/examinemessage", on_topic(TopicOperation.PEEK_MESSAGES), examine),
)
