"""Letters: the dead letters of one run of messages, made from their common parts.

The rule: the result equals, octet for octet, what each message would give by itself. Messages with
the same properties go the same way; those that differ only in parts that a death leaves unchanged
differ only there, and are not decoded. Where a header affects routing, each message is resolved by
itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from arneb_amqp.routing.death import CHANGED
from arneb_amqp.topology.forwarding import Forwarding, MessageKind, send, word_and_route_of
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.cutting import Cut, Replacement, cut
from arneb_amqp.wire.route import shortstr
from arneb_amqp.wire.tables import Field, encode_table

_NAMES: Final = {shortstr(name): name for name in CHANGED}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The forwarding of messages of one kind."""

    way: Forwarding | None
    """None = nowhere."""
    headers: Mapping[str, Field]
    """The dead letter's headers."""
    is_of_all: bool
    """Whether all messages with the same route and the same changed headers go there."""


class Letters:
    """The dead letters of one run, made in one turn. ``resolve`` resolves one kind."""

    __slots__ = ("_admission", "_forms", "_known", "_resolve")

    def __init__(self, resolve: Callable[[MessageKind], Resolved], admission: Admission) -> None:
        self._resolve = resolve
        self._admission = admission
        self._known: dict[MessageKind, Forwarding | None] = {}
        self._forms: dict[object, tuple[Forwarding | None, Replacement]] = {}

    def __repr__(self) -> str:
        return f"<Letters of {len(self._known)} kinds and {len(self._forms)} forms>"

    def put(self, entry: bytes) -> None:
        """Forward ``entry`` through the admission."""
        word, route, start = word_and_route_of(entry)
        properties = properties_of(entry, start)
        kind = word, route, properties
        if kind in self._known:
            send(entry, start, self._known[kind], self._admission)
            return
        parts = cut(properties, _NAMES)
        form = None
        if parts is not None:
            form = self._forms.get((word, route, parts.marks))
        if parts is not None and form is not None:
            way, replacement = form
            if way is not None:
                send(entry, start, way, self._admission, replacement.of(parts))
            return
        resolved = self._resolve(kind)
        self._known[kind] = resolved.way
        if parts is not None and resolved.is_of_all:
            replacement = _replacement(parts, resolved.headers)
            self._forms[word, route, parts.marks] = resolved.way, replacement
        send(entry, start, resolved.way, self._admission)


def _replacement(parts: Cut, headers: Mapping[str, Field]) -> Replacement:
    """Return what replaces the cut fields, and what is added after them, given ``headers``."""
    before = [_NAMES[field[: field[0] + 1]] for field in parts.marks[1:]]
    instead = [encode_table({name: headers[name]} if name in headers else {}) for name in before]
    added = {
        name: field for name, field in headers.items() if name in CHANGED and name not in before
    }
    return Replacement(tuple(instead), encode_table(added))
