"""Transactions for operators: the coordinator, the open transactions, and what they hold.

The rule: documents have Pulsar's fields. A message of an open transaction is in no topic yet, so
what Pulsar reads from a topic's transaction buffer is read here from the log of open transactions,
and positions in it are provisional, like those in producers' receipts.
"""

from collections.abc import Iterable
from typing import Any, Final

import trio

from arneb_core.api.entries.ledger_ids import AS_COUNTED, LedgerIds
from arneb_core.api.entries.position import Position, render
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import SUPER_USER, on_topic
from arneb_pulsar.admin.documents.internal_documents import internal_document, last_confirmed
from arneb_pulsar.admin.subscriptions.subscriptions import subscription_of
from arneb_pulsar.admin.topics.lookup import as_reached
from arneb_pulsar.admin.topics.topics import topic_of
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.namespaces.coercion import whole_number
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.transactions.open_transaction import Acks, OpenTransaction
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.transactions.states import (
    COORDINATOR,
    PROVISIONAL,
    TransactionId,
    TransactionState,
)
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

READY: Final = "Ready"
"""The state of the coordinator, the transaction buffers and the pending acknowledgements, which are
always ready."""

NO_SNAPSHOT: Final = "Transaction buffer Snapshot for the topic does not exist"
"""There are no snapshots of aborted transactions, because no reader here needs to know them."""

ONE_COORDINATOR: Final = (
    "There is one coordinator, which does the work of all: every transaction ends in one commit of "
    "one store, which more of them would not do faster"
)

Document = dict[str, Any]

LOOKED_PER_TURN: Final = 100
"""Open transactions described before other tasks get a turn: a millisecond."""


# The coordinator


async def coordinators(context: BrokerContext, request: AdminRequest) -> AdminReply:
    url = as_reached(context.urls.plain or context.urls.tls, request.host)
    return document([{"id": COORDINATOR, "brokerServiceUrl": url}])


async def coordinator_statistics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the statistics of all coordinators by number, or of one."""
    transactions = context.transactions
    numbers = [each.id.least_bits for each in transactions.open]
    began_ms, ended_ms = transactions.recovered_ms
    found: Document = {
        "state": READY,
        "leastSigBits": max([transactions.latest, *numbers]),
        "lowWaterMark": min(numbers) - 1 if numbers else 0,
        "ongoingTxnSize": len(numbers),
        "recoverStartTime": began_ms,
        "recoverEndTime": ended_ms,
    }
    return document(found if _asks_for_one(request) else {str(COORDINATOR): found})


async def coordinator_internals(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the ledgers of the log of open transactions."""
    _check_coordinator(request.number("coordinator"))
    return document({"transactionLogStats": _log(context)})


async def slow(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the open transactions whose timeout is longer than a number of milliseconds."""
    longest_ms = request.number("timeout")
    _asks_for_one(request)
    shown: Document = {}
    for looked, each in enumerate([*context.transactions.open]):
        if each.opened.timeout_ms > longest_ms:
            shown[str(each.id)] = _transaction(each)
        if looked % LOOKED_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
    return document(shown)


async def metadata(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return an open transaction, with what it has done."""
    wanted = _id_in(request)
    return document(_transaction(_open(context, wanted)))


async def abort(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Abort a transaction that was left open."""
    try:
        await context.transactions.end(_id_in(request), None, commit=False)
    except RequestRefused as refused:
        status = 404 if refused.failure.code == pb.TransactionNotFound else 409
        raise AdminError(status, refused.failure.text) from refused
    return DONE


async def scale(context: BrokerContext, request: AdminRequest) -> AdminReply:
    wanted = whole_number(request.json())
    if wanted is None:
        raise AdminError(400, "expected a number of coordinators")
    if wanted <= 1:
        text = "Number of transaction coordinators should be more than the current number of "
        raise AdminError(406, text + "transaction coordinator")
    raise AdminError(501, ONE_COORDINATOR)


# What topics and subscriptions hold of them


async def buffer(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return what open transactions hold for a topic."""
    topic = _topic(context, request)
    senders = [each for each in context.transactions.open if topic.id in each.sends]
    found: Document = {
        "state": READY,
        "maxReadPosition": last_confirmed(topic),
        "lastSnapshotTimestamps": 0,
        "ongoingTxnSize": len(senders),
        "recoverStartTime": 0,
        "recoverEndTime": 0,
        "totalAbortedTransactions": 0,
        "snapshotType": "Single",
    }
    return document(found | _low_water_marks(request))


async def buffer_internals(context: BrokerContext, request: AdminRequest) -> AdminReply:
    _topic(context, request)
    raise AdminError(404, NO_SNAPSHOT)


async def in_buffer(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return where a transaction's messages begin, and whether it was aborted."""
    topic = _topic(context, request)
    wanted = _id_in(request)
    found = next((each for each in context.transactions.open if each.id == wanted), None)
    if found is not None:
        return document(_in_buffer(found, topic))
    how = context.transactions.outcomes.find(wanted.least_bits)
    return document({"startPosition": None, "aborted": how is TransactionState.ABORTED})


async def pending(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return what a subscription withholds for open transactions."""
    topic, subscription = _place(context, request)
    holders = [each for each in context.transactions.open if _acks(each, topic, subscription)]
    found: Document = {
        "state": READY if holders else "None",
        "ongoingTxnSize": len(holders),
        "recoverStartTime": 0,
        "recoverEndTime": 0,
    }
    return document(found | _low_water_marks(request))


async def pending_internals(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the ledgers of the log of open transactions, which all subscriptions share."""
    _place(context, request)
    return document({"pendingAckLogStats": _log(context, 503)})


async def in_pending(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return up to where a transaction has acknowledged."""
    topic, subscription = _place(context, request)
    wanted = _id_in(request)
    found = [each for each in context.transactions.open if each.id == wanted]
    acks = [each for one in found for each in _acks(one, topic, subscription)]
    return document(_in_pending(acks, LedgerIds(topic.id)))


async def position_in_pending(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return whether a message, or one of a batch, is acknowledged in an open transaction."""
    topic, subscription = _place(context, request)
    ledger, entry = request.number("ledger"), request.number("entry")
    index = AdminRequest(request.query).number("batchIndex") if "batchIndex" in request.query else 0
    if min(ledger, entry, index) < 0:
        return document({"state": "InvalidPosition"})
    position = LedgerIds(topic.id).nearest(ledger, entry)
    mask = subscription.withheld_of(position)
    if position <= subscription.mark_delete:
        state = "MarkDelete"
    else:
        state = "PendingAck" if mask >> index & 1 else "NotInPendingAck"
    return document({"state": state})


# Inside


def _asks_for_one(request: AdminRequest) -> bool:
    if "coordinatorId" not in request.query:
        return False
    _check_coordinator(AdminRequest(request.query).number("coordinatorId"))
    return True


def _check_coordinator(number: int) -> None:
    if number != COORDINATOR:
        text = f"Transaction coordinator not found! coordinator id : {number}"
        raise AdminError(404, text)


def _id_in(request: AdminRequest) -> TransactionId:
    return TransactionId(request.number("most"), request.number("least"))


def _open(context: BrokerContext, wanted: TransactionId) -> OpenTransaction:
    for each in context.transactions.open:
        if each.id == wanted:
            return each
    raise AdminError(404, f"The transaction with this txdID `{wanted}` not found")


def _topic(context: BrokerContext, request: AdminRequest) -> Topic:
    name = topic_of(context, request)
    if (topic := context.core.topics.get(name.core_name)) is None:
        raise AdminError(404, f"Topic not found {name}")
    return topic


def _place(context: BrokerContext, request: AdminRequest) -> tuple[Topic, Subscription]:
    topic = _topic(context, request)
    return topic, subscription_of(topic, request.names["subscription"])


def _acks(one: OpenTransaction, topic: Topic, subscription: Subscription) -> list[Acks]:
    return [
        each
        for each in one.acks.values()
        if each.topic is topic and each.subscription is subscription
    ]


def _transaction(found: OpenTransaction) -> Document:
    produced: Document = {each: _in_buffer(found, None) for each in sorted(found.partitions)}
    produced |= {
        each.topic.name: _in_buffer(found, each.topic) for each in found.sends.values()
    }  # fmt: skip
    acked: dict[str, Document] = {}
    for topic, name in sorted(found.subscriptions):
        acked.setdefault(topic, {})[name] = _in_pending([], AS_COUNTED)
    for each in found.acks.values():
        ids, names = LedgerIds(each.topic.id), acked.setdefault(each.topic.name, {})
        names[each.subscription.name] = _in_pending([each], ids)
    return {
        "txnId": str(found.id),
        "status": found.state.value,
        "openTimestamp": found.opened.at_ms,
        "timeoutAt": found.opened.timeout_ms,
        "producedPartitions": produced,
        "ackedPartitions": acked,
        "owner": found.opened.owner[0] or None,
    }


def _in_buffer(found: OpenTransaction, topic: Topic | None) -> Document:
    sends = None if topic is None else found.sends.get(topic.id)
    start = None if sends is None else render(Position(PROVISIONAL + sends.positions[0]))
    return {"startPosition": start, "aborted": False}


def _in_pending(acks: Iterable[Acks], ids: LedgerIds) -> Document:
    """Return the last acknowledged position, and within a batch its last message."""
    ends = [
        (Position(position), 0 if position in each.whole else each.masks[Position(position)])
        for each in acks
        if each.is_cumulative
        for position in (*each.whole[-1:], *each.masks)
    ]
    if not ends:
        return {"cumulativeAckPosition": None}
    position, mask = max(ends)
    index = f":{mask.bit_length() - 1}" if mask else ""
    return {"cumulativeAckPosition": ids.render(position) + index}


def _low_water_marks(request: AdminRequest) -> Document:
    return {"lowWaterMarks": {}} if request.flag("lowWaterMarks") else {}


def _log(context: BrokerContext, unknown: int = 404) -> Document:
    """Return the log of open transactions. Raises :class:`AdminError` before there is one."""
    topic = context.transactions.held.topic
    if topic is None:
        raise AdminError(unknown, "No transaction was begun yet, so nothing is kept")
    return {"managedLedgerName": topic.name, "managedLedgerInternalStats": internal_document(topic)}


_ROOT: Final = "/admin/v3/transactions"
_TOPIC: Final = "/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION: Final = _TOPIC + "/{subscription}"
_ID: Final = "/{most}/{least}"
_STATS: Final = on_topic(TopicOperation.GET_STATS)

ROUTES: Final[list[Route]] = [
    each._replace(path=_ROOT + each.path)
    for each in (
        Route("GET", "/coordinators", SUPER_USER, coordinators),
        Route("GET", "/coordinatorStats", SUPER_USER, coordinator_statistics),
        Route("GET", "/coordinatorInternalStats/{coordinator}", SUPER_USER, coordinator_internals),
        Route("GET", "/slowTransactions/{timeout}", SUPER_USER, slow),
        Route("GET", "/transactionMetadata" + _ID, SUPER_USER, metadata),
        Route("POST", "/abortTransaction" + _ID, SUPER_USER, abort),
        Route("POST", "/transactionCoordinator/replicas", SUPER_USER, scale),
        Route("GET", "/transactionBufferStats" + _TOPIC, _STATS, buffer),
        Route("GET", "/transactionBufferInternalStats" + _TOPIC, _STATS, buffer_internals),
        Route("GET", "/transactionInBufferStats" + _TOPIC + _ID, _STATS, in_buffer),
        Route("GET", "/pendingAckStats" + _SUBSCRIPTION, _STATS, pending),
        Route("GET", "/pendingAckInternalStats" + _SUBSCRIPTION, _STATS, pending_internals),
        Route("GET", "/transactionInPendingAckStats" + _SUBSCRIPTION + _ID, _STATS, in_pending),
        Route(
            "GET",
            "/positionStatsInPendingAck" + _SUBSCRIPTION + "/{ledger}/{entry}",
            _STATS,
            position_in_pending,
        ),
    )
]
