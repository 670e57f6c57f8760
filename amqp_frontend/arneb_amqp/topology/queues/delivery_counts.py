"""Delivery counts: the header in which a quorum queue counts a message's returns.

The rule: entries stay unchanged; a copy with one more header is sent. RabbitMQ sends the header
with every ``basic.get-ok``, and with a delivery once there is something to count. Messages of other
origins than AMQP are sent unchanged.

Source: RabbitMQ's documentation of quorum queues, and what 3.10.8 was seen to send.
"""

from dataclasses import replace
from typing import Final

from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.route import content_start
from arneb_amqp.wire.tables import long
from arneb_core.api.entries.entry import Origin
from arneb_core.api.subscriptions.consumer import Sink
from arneb_core.api.subscriptions.deliveries import Deliveries

DELIVERY_COUNT: Final = "x-delivery-count"


class CountingSink:
    """A sink of a quorum queue's consumer (:class:`arneb_core.api.subscriptions.consumer.Sink`)."""

    __slots__ = ("_sink",)

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __repr__(self) -> str:
        return f"<CountingSink before {self._sink!r}>"

    def deliver(self, run: Deliveries) -> None:
        """Pass the run on, with counts if there are any."""
        self._sink.deliver(counted(run) if run.redelivery_counts else run)

    def active_changed(self, active: bool) -> None:
        self._sink.active_changed(active)

    def closed_by_core(self, reason: str) -> None:
        self._sink.closed_by_core(reason)


def counted(run: Deliveries, *, always: bool = False) -> Deliveries:
    """Return ``run`` with the header on entries that have a count, or, ``always``, on all."""
    counts = run.redelivery_counts or {}
    entries = [
        with_count(entry, counts.get(position, 0)) if always or position in counts else entry
        for position, entry in zip(run.positions, run.entries, strict=True)
    ]
    return replace(run, entries=entries)


def with_count(entry: bytes, count: int) -> bytes:
    """Return ``entry`` as it is sent after ``count`` returns."""
    if entry[1] != Origin.AMQP:
        return entry
    start = content_start(entry)
    properties = decode_properties(properties_of(entry, start))
    headers = {**(properties.headers or {}), DELIVERY_COUNT: long(count)}
    changed = encode_properties(replace(properties, headers=headers))
    return entry[:start] + with_properties(entry[start:], changed)
