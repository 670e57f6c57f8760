"""One queue or topic as both protocols see it: its ledgers, subscriptions and consumers.

The rule: figures are current, in the core's terms.
"""

from collections.abc import Mapping
from typing import Final

from arneb.http.management.figures.rates import Range
from arneb.http.management.page.hole_parts import hole_parts
from arneb.http.management.page.log_lookup import FoundLog, log_in
from arneb.http.management.page.row_documents import counters_of, rates_of, row_document
from arneb.http.management.requests.calls import Call, Document, Reply
from arneb.http.management.requests.rules import ADMINISTRATOR, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.wire.json_fields import table_to_json
from arneb_core.api.entries.position import render
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.subscription import Subscription

HISTORY: Final = Range(300, 5)
"""Five minutes, as on the overview."""

SERIES: Final = ("in", "out", "acknowledged", "ready", "unacknowledged")

LEDGERS_MAX: Final = 200
SUBSCRIPTIONS_MAX: Final = 50
CONSUMERS_MAX: Final = 100
"""More are not shown, but counted in the answer."""


async def _look(site: Site, call: Call) -> Reply:
    log = log_in(site, call)
    row, topic = log.row, log.row.topic
    document = row_document(site, row)
    ledgers, subscriptions = topic.ledgers(), list(topic.subscriptions.values())
    drawn = ledgers[-LEDGERS_MAX:]
    shown = [
        await _subscription(site, log, each) | {"hole_parts": hole_parts(drawn, each)}
        for each in subscriptions[:SUBSCRIPTIONS_MAX]
    ]
    main = row.main
    document |= {
        "oldest_ms": None if main is None else await site.ages.of(topic, main),
        "stored_bytes": topic.stored_bytes,
        "stored_messages": topic.messages,
        "retention": {"ms": topic.retention.ms, "bytes": topic.retention.bytes},
        "ledgers_total": len(ledgers),
        "ledgers": [
            {
                "id": each.id,
                "entries": each.entries,
                "bytes": each.bytes,
                "created_ms": each.created_ms,
                "closed_ms": each.closed_ms,
            }
            for each in drawn
        ],
        "subscriptions_total": len(subscriptions),
        "details": shown,
        **_declared(log),
    }
    return Reply(document)


async def _history(site: Site, call: Call) -> Reply:
    """Answer with the last minutes, as far back as the row has been watched."""
    row = log_in(site, call).row
    details = rates_of(site, row, counters_of(row), dict.fromkeys(SERIES, HISTORY))
    return Reply({name: details[name] for name in SERIES})


def _declared(log: FoundLog) -> Document:
    queue = log.row.queue
    if queue is None:
        return {"arguments": {}, "definition": {}}
    return {
        "arguments": table_to_json(queue.arguments),
        "definition": dict(queue.applied.definition),
        "operator_policy": queue.applied.operator_policy,
        "auto_delete": queue.auto_delete,
        "dead_letter_exchange": queue.options.dead_letter_exchange,
        "dead_letter_routing_key": queue.options.dead_letter_routing_key,
        "messages_max": queue.options.messages_max,
        "message_ttl_ms": queue.options.message_ttl_ms,
    }


async def _subscription(site: Site, log: FoundLog, of: Subscription) -> Document:
    statistics = of.statistics()
    consumers = list(of.consumers)
    ready, away = of.lengths
    pulsar = _pulsar_consumers(site, log)
    return {
        "name": of.name,
        "type": None if statistics.type is None else statistics.type.value,
        "durable": statistics.durable,
        "mark_delete": render(of.mark_delete),
        "read_position": render(of.read_position),
        "ready": ready,
        "in_flight": away,
        "backlog_entries": statistics.backlog_entries,
        "holes": statistics.holes,
        "delayed": statistics.delayed_entries,
        "unreadable": None if statistics.unreadable is None else render(statistics.unreadable),
        "oldest_ms": await site.ages.of(log.row.topic, of),
        "consumers_total": len(consumers),
        "consumers": [_consumer(each, pulsar) for each in consumers[:CONSUMERS_MAX]],
    }


def _pulsar_consumers(site: Site, log: FoundLog) -> Mapping[Consumer, Document]:
    """Return the Pulsar connections and keys of the topic's consumers."""
    if site.pulsar is None:
        return {}
    number_of = site.pulsar.connections.number_of
    return {
        each.consumer: {"connection": number_of(each.connection), "key": each.key}
        for each in site.pulsar.consumers.of(log.row.topic)
    }


def _consumer(of: Consumer, pulsar: Mapping[Consumer, Document]) -> Document:
    """Return one consumer's document. ``permits`` is how many more messages it would take now: a
    slow consumer has none, and many in flight."""
    return {
        "pulsar": pulsar.get(of),
        "name": of.name,
        "in_flight": of.in_flight,
        "permits": max(0, of.permits),
        "delivered_total": of.delivered_messages_total,
        "is_shut_off": of.is_shut_off,
        "writable": of.writable,
    }


ROUTES: Final = (
    Route("GET", "page/queues/:vhost/:queue", VHOST, _look),
    Route("GET", "page/queues/:vhost/:queue/history", VHOST, _history),
    Route("GET", "page/topic/:topic", ADMINISTRATOR, _look),
    Route("GET", "page/topic/:topic/history", ADMINISTRATOR, _history),
)
