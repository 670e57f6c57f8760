"""Row documents: the rows of the list of queues and topics.

The rule: figures are current, and read only for rows that are shown.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from arneb.http.management.figures.rates import Range
from arneb.http.management.lists.ordering import Figure
from arneb.http.management.lists.rows import FIGURES, GROWING, Row
from arneb.http.management.requests.calls import Document
from arneb.http.management.site import Site
from arneb.monitoring.diagnosis import Diagnosis, Figures, diagnose
from arneb_amqp.wire.json_fields import text_to_json
from arneb_core.api.subscriptions.limits import Departure

Counters = Mapping[str, int]

SPARK: Final = {"messages": Range(120, 4)}
"""A spark line shows the number of messages over the last two minutes."""

SORTABLE: Final = frozenset({*FIGURES, *GROWING})


def counters_of(row: Row) -> Counters:
    """Return a row's traffic, and the messages it holds."""
    ready, away = row.lengths
    main = row.main
    acknowledged = redelivered = delivered = expired = 0
    if main is not None:
        statistics = main.statistics()
        acknowledged = statistics.acknowledged_entries_total
        redelivered = statistics.redelivered_entries_total
        delivered = main.delivered_messages_total
        expired = sum(
            count for (why, _), count in main.departed.items() if why is Departure.EXPIRED
        )
    if row.queue is not None and row.queue.traffic.acknowledged:
        acknowledged = row.queue.traffic.acknowledged
    return {
        "in": row.topic.appended_messages_total,
        "out": delivered,
        "acknowledged": acknowledged,
        "redelivered": redelivered,
        "expired": expired,
        "messages": ready + away,
        "ready": ready,
        "unacknowledged": away,
    }


def _read(row: Row) -> Counters | None:
    return None if row.topic.fenced else counters_of(row)


def rates_of(
    site: Site, row: Row, counters: Counters, ranges: Mapping[str, Range] = SPARK
) -> Mapping[str, Mapping[str, Any]]:
    """Return the rates of a row's counters and the samples of a spark line, and sample the row from
    now on."""
    return site.rates.details(row.key, counters, partial(_read, row), ranges)


def diagnosis_of(site: Site, row: Row, rates: Mapping[str, Mapping[str, Any]]) -> Diagnosis:
    """Return the diagnosis: why a row grows, or does not."""
    ready, away = row.lengths
    main, queue = row.main, row.queue
    consumers = [] if main is None else list(main.consumers)
    if queue is not None:
        consumers = [each for each in consumers if each not in queue.unseen]
    statistics = None if main is None else main.statistics()
    holder = max(consumers, key=lambda each: each.in_flight, default=None)
    alarms = site.alarms.statistics
    is_full = main is not None and bool(consumers) and not main.room
    return diagnose(
        Figures(
            ready,
            away,
            0 if statistics is None else statistics.delayed_entries,
            len(consumers),
            len(consumers) if is_full else 0,
            "" if holder is None else holder.name,
            0 if holder is None else holder.in_flight,
            rates["in"]["rate"],
            rates["out"]["rate"],
            rates["acknowledged"]["rate"],
            rates["redelivered"]["rate"],
            rates["expired"]["rate"],
            None if queue is None else queue.options.messages_max,
            "memory" if alarms.memory_alarm else "disk" if alarms.disk_alarm else "",
            statistics is not None and statistics.unreadable is not None,
        )
    )


def delayed_in(row: Row) -> int:
    """Return the number of messages not due yet; they do not count as ready."""
    main = row.main
    return main.statistics().delayed_entries if main and row.topic.has_delays else 0


def row_document(site: Site, row: Row) -> Document:
    """Return a row's document as the list shows it."""
    counters = counters_of(row)
    rates = rates_of(site, row, counters)
    ready, away = row.lengths
    diagnosis = diagnosis_of(site, row, rates)
    samples = rates["messages"].get("samples", ())
    queue = row.queue
    return {
        "name": text_to_json(row.name),
        "vhost": row.vhost,
        "topic": row.topic.name,
        "type": row.type,
        "durable": row.topic.durable,
        "exclusive": queue is not None and queue.owner is not None,
        "policy": None if queue is None else queue.applied.policy,
        "consumers": row.consumers,
        "subscriptions": len(row.topic.subscriptions),
        "messages": ready + away,
        "ready": ready,
        "unacknowledged": away,
        "delayed": delayed_in(row),
        "bytes": row.bytes,
        "in": rates["in"]["rate"],
        "out": rates["out"]["rate"],
        "acknowledged": rates["acknowledged"]["rate"],
        "redelivered": rates["redelivered"]["rate"],
        "spark": [each["sample"] for each in reversed(samples)],
        "cause": diagnosis.cause.value,
        "attention": diagnosis.cause.asks_for_attention,
        "why": diagnosis.sentence,
    }


def figure_of(site: Site, sort: str) -> Figure | None:
    """Return the sort key for a column of rows."""
    if sort in GROWING:
        return site.rates.growth.rate_of(f"row {sort}", GROWING[sort], site.rows.all)
    return FIGURES.get(sort)
