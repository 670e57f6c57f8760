"""Forwarding: messages that the broker itself moves from a queue or exchange into others.

The rule: what messages with the same route, priority, flags and properties have in common is worked
out once, because that costs a hundred times as much as writing one of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from arneb_amqp.topology.overflow import Admission, Overflow
from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.route import content_start, routing_key_of
from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.entry import (
    ENTRY_FORMAT,
    HEADER,
    HEADER_BYTES,
    MESSAGES_OFFSET,
    PRIORITY_OFFSET,
    Origin,
)
from arneb_core.api.topics.topic import Topic

_AMQP: Final = int(Origin.AMQP)

Head = Callable[[int, int, int], bytes]
"""Called with the current time, the delivery time and the expiry (0 = none)."""

MessageKind = tuple[bytes, bytes, bytes]
"""Priority and flags, route, and properties of a message."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Where messages of one kind go, and how they are changed: they differ only in payload."""

    head: bytes
    """The new header and route."""
    properties: bytes | None
    """The new properties; None = unchanged."""
    topics: Sequence[Topic]
    refusing: Sequence[Overflow]
    """Queues that take a message only if they have room; not among the topics."""
    delayed: "Forwarding | None" = None
    """The forwarding to exchanges that delay the messages, if any."""


def forward(
    entry: bytes,
    known: dict[MessageKind, Forwarding | None],
    resolve: Callable[[MessageKind], Forwarding | None],
    admission: Admission,
) -> None:
    """Forward ``entry`` through ``admission``. The result of ``resolve`` for its kind is remembered
    in ``known``."""
    word, route, start = word_and_route_of(entry)
    kind = word, route, properties_of(entry, start)
    if kind in known:
        way = known[kind]
    else:
        way = known[kind] = resolve(kind)
    send(entry, start, way, admission)


def send(
    entry: bytes,
    start: int,
    way: Forwarding | None,
    admission: Admission,
    properties: bytes | None = None,
) -> None:
    """Forward ``entry``, whose content begins at ``start``, with ``properties`` in place of those
    of ``way``."""
    while way is not None:
        message = forwarded(entry, start, way, properties)
        for topic in way.topics:
            admission.appends.setdefault(topic, []).append(message)
        for overflow in way.refusing:
            admission.offer(overflow, message)
        way = way.delayed


def forwarded(entry: bytes, start: int, way: Forwarding, properties: bytes | None = None) -> bytes:
    """Return ``entry``, whose content begins at ``start``, as it goes ``way``, with ``properties``
    in place of those of ``way``."""
    put = way.properties if properties is None else properties
    return way.head + entry[start:] if put is None else with_properties(entry, put, start, way.head)


def word_and_route_of(entry: bytes) -> tuple[bytes, bytes, int]:
    """Return priority and flags of an entry, its route, and the offset of its content."""
    start = content_start(entry)
    return entry[PRIORITY_OFFSET:MESSAGES_OFFSET], entry[HEADER_BYTES:start], start


def head_of(route: bytes, priority_and_flags: int) -> Head:
    """Return a maker of header and route; the message's own part follows."""
    key, size = key_hash(routing_key_of(route)), len(route)

    def head(now_ms: int, deliver_at_ms: int, expires_at_ms: int) -> bytes:
        header = HEADER.pack(
            ENTRY_FORMAT, _AMQP, priority_and_flags, 1, now_ms, deliver_at_ms, expires_at_ms, key,
            size, 0,
        )  # fmt: skip
        return header + route

    return head
