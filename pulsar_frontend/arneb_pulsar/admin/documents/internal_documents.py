"""Internal documents: ledgers and cursors, in the fields of Pulsar's internal statistics.

The rule: as for topics. A cursor here is a row of the store and has no ledger, so none is shown; no
reader waits on a ledger, so no waiting reader is shown.
"""

from typing import Final
from urllib.parse import quote_plus

from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position, before
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.admin.documents.subscription_documents import NEVER, RUNS_SHOWN_MAX, Document
from arneb_pulsar.services.clock import iso_of

NO_LEDGER: Final = {
    "ledgerId": -1,
    "entries": -1,
    "size": -1,
    "offloaded": False,
    "underReplicated": False,
}


def internal_document(topic: Topic) -> Document:
    """Return ``GET …/internalStats`` of one topic."""
    ledgers = topic.ledgers()
    figures, ids = topic.statistics(), LedgerIds(topic.id)
    last = ledgers[-1] if ledgers else None
    subscriptions = topic.subscriptions
    return {
        "entriesAddedCounter": figures.appended_entries_total,
        "numberOfEntries": figures.entries,
        "totalSize": figures.bytes - HEADER_BYTES * figures.entries,
        "currentLedgerEntries": last.entries if last is not None else 0,
        "currentLedgerSize": last.bytes - HEADER_BYTES * last.entries if last is not None else 0,
        "lastLedgerCreatedTimestamp": iso_of(last.created_ms if last is not None else 0),
        "waitingCursorsCount": sum(_waits(topic, each) for each in subscriptions.values()),
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": last_confirmed(topic),
        "state": "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": ids.of(each.id),
                # Pulsar shows no counts of an open ledger, and the Spark connector expects that.
                "entries": each.entries if each.closed_ms else 0,
                "size": each.bytes - HEADER_BYTES * each.entries if each.closed_ms else 0,
                "offloaded": False,
                "underReplicated": False,
            }
            for each in ledgers
        ],
        "cursors": {encoded(name): _cursor(topic, each) for name, each in subscriptions.items()},
        "schemaLedgers": [],
        "compactedLedger": NO_LEDGER,
    }


def last_confirmed(topic: Topic) -> str:
    """Return the position of the last entry; without any, the position from which a subscription to
    an empty topic starts, as in Pulsar."""
    last = before(topic.next_append) if topic.last is None else topic.last
    return LedgerIds(topic.id).render(last)


def encoded(subscription: str) -> str:
    """Return a cursor's name: the subscription's, form-encoded as in Java."""
    return quote_plus(subscription, safe="*").replace("~", "%7E")


def _waits(topic: Topic, subscription: Subscription) -> bool:
    """Return whether the subscription has read everything."""
    seen_all = topic.last is None or subscription.read_position > topic.last
    return bool(subscription.consumers) and seen_all


def _cursor(topic: Topic, subscription: Subscription) -> Document:
    figures, ids = subscription.statistics(), LedgerIds(topic.id)
    waits = _waits(topic, subscription)
    return {
        "markDeletePosition": ids.render(figures.mark_delete),
        "readPosition": ids.render(subscription.read_position),
        "waitingReadOp": waits,
        "pendingReadOps": 0,
        "messagesConsumedCounter": figures.acknowledged_entries_total,
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "lastLedgerSwitchTimestamp": NEVER,
        "individuallyDeletedMessages": _written_runs(subscription, ids),
        "state": "Open",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": figures.backlog_entries,
        "totalNonContiguousDeletedMessagesRange": subscription.acknowledged_runs,
        "subscriptionHavePendingRead": waits,
        "subscriptionHavePendingReplayRead": False,
        "properties": {},
    }


def _written_runs(subscription: Subscription, ids: LedgerIds) -> str:
    """Return the acknowledgements beyond the mark-delete position as Pulsar writes them: each run
    from the entry before it to its last."""
    runs = subscription.first_acknowledged_runs(RUNS_SHOWN_MAX)
    parts = [f"({ids.render(before(first))}..{ids.render(last)}]" for first, last in runs]
    return f"[{','.join(parts)}]"


def info_document(topic: Topic) -> Document:
    """Return ``GET …/internal-info``: what is stored of one topic's log."""
    ledgers, ids = topic.ledgers(), LedgerIds(topic.id)
    created_ms = ledgers[0].created_ms if ledgers else 0
    changed_ms = max((max(each.created_ms, each.closed_ms) for each in ledgers), default=0)
    return {
        "version": 1,
        "creationDate": iso_of(created_ms),
        "modificationDate": iso_of(changed_ms),
        "ledgers": [
            _info_of(ids.of(each.id), each.entries, each.bytes, each.closed_ms) for each in ledgers
        ],
        "cursors": {
            encoded(name): {
                "version": 0,
                "cursorsLedgerId": -1,
                "markDelete": _place(each.mark_delete, ids),
            }
            for name, each in topic.subscriptions.items()
            if each.statistics().durable
        },
    }


def _info_of(ledger: int, entries: int, size: int, closed_ms: int) -> Document:
    found: Document = {"ledgerId": ledger, "timestamp": closed_ms, "isOffloaded": False}
    # As in Pulsar, an open ledger does not show how much is in it.
    if closed_ms:
        found |= {"entries": entries, "size": size - HEADER_BYTES * entries}
    return found


def _place(position: Position, ids: LedgerIds) -> Document:
    ledger, entry = ids.place(position)
    return {"ledgerId": ledger, "entryId": entry}
