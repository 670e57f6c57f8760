"""Delay forms: messages to a delayed exchange that differ only in delay and payload.

The rule: a short cut and never a second opinion. The entry was worked out the long way for one
message of a form, and for the same message with another delay; if only the delay made a difference,
it is spliced into what was found. Everything else goes the long way.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from arneb_amqp.routing.delayed import DELAY_FIELD
from arneb_amqp.routing.reply_to import REPLY_TO
from arneb_amqp.routing.router import RouteResult
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.session.publish.delaying import content_when_due
from arneb_amqp.wire.content import header_end, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties
from arneb_core.api.entries.entry import HEADER_BYTES

VALUE: Final = Struct(">i")
DELIVER_AT_BYTES: Final = slice(16, 24)
"""The bytes of the delivery time in an entry's header."""

FORMS_MAX: Final = 256
"""Forms remembered, one for each payload size in use; at the limit all are forgotten."""


class DelayForm(NamedTuple):
    """The parts that messages of one form share."""

    tail: bytes
    """The message between the delay and the payload's frame,"""
    before: bytes
    """the stored content before the delay,"""
    behind: bytes
    """and after it."""
    rest_at: int
    """From here on the message is stored as it is: from after the delay, if that part is unchanged,
    else from the payload's frame on, preceded by ``behind``."""
    pack: Callable[[bytes, int, bytes, int, bytes], bytes]
    """Packs the beginning of the entry: the bytes before the delivery time, the time, the bytes
    between it and the delay, the delay, and ``behind``."""


class DelayForms:
    """The forms of the messages that one channel publishes on one route."""

    __slots__ = ("_at", "_forms", "_route", "exchanges")

    def __init__(self) -> None:
        self._route: CachedRoute | None = None
        self._at = 0
        """The offset of the delay in a message."""
        self._forms: dict[bytes, DelayForm] = {}
        """By the message's bytes before the delay."""
        self.exchanges: tuple[str, ...] = ()
        """The exchanges that delay the messages."""

    def __repr__(self) -> str:
        return f"<DelayForms: {len(self._forms)} for {self.exchanges}>"

    def entries(
        self, route: CachedRoute, bodies: list[bytes], start: int, stop: int, head: bytes
    ) -> list[bytes]:
        """Return the entries of messages from ``start`` to the first of unknown form; ``head`` is
        what entries of ``route`` begin with, except for the delivery time."""
        entries: list[bytes] = []
        if route is not self._route:
            return entries
        at, forms = self._at, self._forms
        until, now = at + VALUE.size, int.from_bytes(head[8:16])
        before_time, behind_time = head[: DELIVER_AT_BYTES.start], head[DELIVER_AT_BYTES.stop :]
        unpack, append = VALUE.unpack_from, entries.append
        form: DelayForm | None = None
        for body in bodies[start:stop]:
            if (found := forms.get(body[:at])) is None:
                break
            if found is not form:
                form = found
                tail, _, behind, rest_at, pack = form
                between = behind_time + form.before
            if not body.startswith(tail, until):
                break
            (delay_ms,) = unpack(body, at)
            if delay_ms <= 0:
                break
            append(pack(before_time, now + delay_ms, between, -delay_ms, behind) + body[rest_at:])
        return entries

    def learn(
        self, route: CachedRoute, result: RouteResult, properties: Properties, body: bytes
    ) -> None:
        """Learn the form of ``body``, which was routed the long way and is delayed."""
        if result.queues or result.depends_on_more or properties.reply_to == REPLY_TO:
            return
        end = header_end(body)
        at = body.find(DELAY_FIELD, 0, end) + len(DELAY_FIELD)
        if at < len(DELAY_FIELD) or at + VALUE.size > end:
            return
        delay_ms = VALUE.unpack_from(body, at)[0]
        if delay_ms <= 0:
            return
        other_ms = 1 if delay_ms > 1 else 2
        other = body[:at] + VALUE.pack(other_ms) + body[at + VALUE.size :]
        kept, other_kept = (
            content_when_due(decode_properties(properties_of(each)), each) for each in (body, other)
        )
        kept_at = kept.find(DELAY_FIELD + VALUE.pack(-delay_ms)) + len(DELAY_FIELD)
        before, behind = kept[:kept_at], kept[kept_at + VALUE.size :]
        if kept_at < len(DELAY_FIELD) or other_kept != before + VALUE.pack(-other_ms) + behind:
            return
        if route is not self._route or at != self._at or len(self._forms) >= FORMS_MAX:
            self._route, self._at, self._forms = route, at, {}
        self.exchanges = result.delayed_by
        tail, payload = body[at + VALUE.size : end], len(body) - end
        behind = behind[: len(behind) - payload]
        if behind == tail:
            behind, rest_at = b"", at + VALUE.size
        else:
            rest_at = end
        between_bytes = HEADER_BYTES + len(route.raw) - DELIVER_AT_BYTES.stop + len(before)
        pack = Struct(f">{DELIVER_AT_BYTES.start}sQ{between_bytes}si{len(behind)}s").pack
        self._forms[body[:at]] = DelayForm(tail, before, behind, rest_at, pack)
