"""Runs of dead letters: the dead letters of one run of messages, made from their common parts.

The rule: the result equals, octet for octet, what each message would give by itself. Messages with
the same properties go the same way; those that differ only in parts that a death leaves unchanged
differ only there, and are not decoded. Where a header affects routing, each message is resolved by
itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from arneb_amqp.routing.death import CHANGED
from arneb_amqp.topology.dead_letter_turns import (
    COPY_WORK,
    REFUSED_WORK,
    WORK_PER_PASS,
    work_of,
)
from arneb_amqp.topology.forwarding import Forwarding, MessageKind, send, word_and_route_of
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.cutting import Cut, Replacement, cut
from arneb_amqp.wire.route import shortstr
from arneb_amqp.wire.tables import Field, encode_table
from arneb_core.api.entries.entry import Origin

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

    __slots__ = ("_admission", "_copied", "_forms", "_known", "_resolve", "_work")

    def __init__(self, resolve: Callable[[MessageKind], Resolved], admission: Admission) -> None:
        self._resolve = resolve
        self._admission = admission
        self._known: dict[MessageKind, Forwarding | None] = {}
        self._forms: dict[object, tuple[Forwarding | None, Replacement]] = {}
        self._work = self._copied = 0

    def __repr__(self) -> str:
        return f"<Letters of {len(self._known)} kinds and {len(self._forms)} forms>"

    @property
    def work(self) -> int:
        """The work done so far, and that of what full queues have refused (see
        :mod:`.dead_letter_turns`)."""
        return self._work + REFUSED_WORK * self._admission.refused_messages

    def goes_on_with(self, entry: bytes) -> bool:
        """Whether ``entry`` should be made with these letters although they are enough work: its
        kind is known here, and may have been much work. But copies are work, too."""
        if entry[1] != Origin.AMQP or self._copied >= WORK_PER_PASS:
            return False
        word, route, start = word_and_route_of(entry)
        return (word, route, properties_of(entry, start)) in self._known

    def put(self, entry: bytes) -> None:
        """Forward ``entry`` through the admission."""
        word, route, start = word_and_route_of(entry)
        properties = properties_of(entry, start)
        kind = word, route, properties
        if kind in self._known:
            self._send(entry, start, self._known[kind])
            return
        parts = cut(properties, _NAMES)
        form = None
        if parts is not None:
            form = self._forms.get((word, route, parts.marks))
        if parts is not None and form is not None:
            way, replacement = form
            self._work += COPY_WORK
            if way is not None:
                self._send(entry, start, way, replacement.of(parts))
            return
        resolved = self._resolve(kind)
        self._work += work_of(properties)
        self._known[kind] = resolved.way
        if parts is not None and resolved.is_of_all:
            replacement = _replacement(parts, resolved.headers)
            self._forms[word, route, parts.marks] = resolved.way, replacement
        self._send(entry, start, resolved.way)

    def _send(
        self, entry: bytes, start: int, way: Forwarding | None, properties: bytes | None = None
    ) -> None:
        if way is not None:
            copies = COPY_WORK * (1 + len(way.topics) + len(way.refusing))
            self._work += copies
            self._copied += copies
            send(entry, start, way, self._admission, properties)


def _replacement(parts: Cut, headers: Mapping[str, Field]) -> Replacement:
    """Return what replaces the cut fields, and what is added after them, given ``headers``."""
    before = [_NAMES[field[: field[0] + 1]] for field in parts.marks[1:]]
    instead = [encode_table({name: headers[name]} if name in headers else {}) for name in before]
    added = {
        name: field for name, field in headers.items() if name in CHANGED and name not in before
    }
    return Replacement(tuple(instead), encode_table(added))
