"""Traces of messages of Pulsar clients that have a property ``traceparent``.

The rule: as in :mod:`.traces`. Only plain entries are read: the properties of a compressed or
encrypted batch are inside it, and nothing is unpacked for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from arneb.monitoring.traces import MARK, PARENT, STATE, Spans
from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import HEADER_BYTES, Origin, read_header
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.services.clients.message_observer import SeenClient
from arneb_pulsar.wire.batch import split_batch
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.metadata import parse_metadata, properties_of

BATCH_MESSAGES_MAX: Final = 1000
"""The most messages of a batch that is read: the clients' default. Reading a larger one would be a
long turn."""

Seen = tuple[int, Mapping[str, str], int]
"""A message: its index in the batch, or -1; its properties, and the size of its payload."""


class PulsarTraces:
    """Makes spans of messages, as their :class:`.MessageObserver`."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def __repr__(self) -> str:
        return f"<PulsarTraces {self._spans!r}>"

    def sent(self, client: SeenClient, topic: str, entries: Sequence[bytes]) -> None:
        """Trace messages that a client published."""
        for entry in entries:
            if MARK in entry:
                for message in _messages(entry):
                    self._span("publish", client, topic, message, None, {})

    def delivered(
        self, client: SeenClient, topic: str, subscription: str, run: Deliveries, ids: LedgerIds
    ) -> None:
        """Trace messages that are delivered to a consumer."""
        for position, entry in zip(run.positions, run.entries, strict=True):
            if MARK not in entry:
                continue
            mask = -1 if run.masks is None else run.masks.get(position, -1)
            began_ms = read_header(entry).publish_time_ms
            for message in _messages(entry):
                if message[0] < 0 or mask >> message[0] & 1:
                    more = {
                        "messaging.destination.subscription.name": subscription,
                        "messaging.message.id": _id(position, message[0], ids),
                    }
                    self._span("deliver", client, topic, message, began_ms, more)

    def _span(
        self,
        operation: str,
        client: SeenClient,
        topic: str,
        message: Seen,
        began_ms: int | None,
        more: Mapping[str, str],
    ) -> None:
        _, properties, size = message
        parent = properties.get(PARENT)
        if parent is None:
            return  # the word was somewhere else in the entry
        parents = parent, properties.get(STATE, "")
        span, end_ns = self._spans.make(operation, topic, parents, began_ms)
        if span.is_recording():
            span.set_attributes(
                {
                    "messaging.system": "pulsar",
                    "messaging.operation.name": operation,
                    "messaging.destination.name": topic,
                    "messaging.message.body.size": size,
                    "arneb.connection": client.address,
                    "arneb.user": client.role,
                    **more,
                }
            )
        span.end(end_ns)


def _id(position: Position, index: int, ids: LedgerIds) -> str:
    """Return a message id as Pulsar clients show it."""
    shown = ids.render(position)
    return shown if index < 0 else f"{shown}:{index}"


def _messages(entry: bytes) -> Iterator[Seen]:
    """Yield the messages of an entry whose properties can be read."""
    try:
        yield from _readable(entry)
    except ValueError:
        return  # unreadable entries are not traced


def _readable(entry: bytes) -> Iterator[Seen]:
    if entry[1] != Origin.PULSAR:
        for each in codecs()[Origin(entry[1])].decode(entry):
            yield -1, each.properties, len(each.value)
        return
    head, at = split_body(entry, HEADER_BYTES)
    metadata = parse_metadata(head)
    if not metadata.HasField("num_messages_in_batch"):
        if metadata.chunk_id <= 0:  # the others are parts of the same message
            yield -1, properties_of(metadata.properties), len(entry) - at
        return
    count = metadata.num_messages_in_batch
    if metadata.compression or metadata.encryption_keys or count > BATCH_MESSAGES_MAX:
        return
    for index, (single, value) in enumerate(split_batch(entry[at:], count)):
        yield index, properties_of(single.properties), len(value)
