"""Delay forms: messages for an exchange that delays which differ in how long, and in their payload.

The rule: a short cut and never a second opinion. What becomes of a message of a form was worked out
for one of them, and for a second one with another delay; if nothing but the delay made a
difference, it is put in between what was found, and everything else goes the long way.
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
from arneb_core.api.entry import HEADER_BYTES

VALUE: Final = Struct(">i")
DELIVER_AT_BYTES: Final = slice(16, 24)
"""The deliver-at time in the header of an entry."""

FORMS_MAX: Final = 256
"""One for each size of payload that is in use at once; then the memory begins again."""


class DelayForm(NamedTuple):
    """What messages of one form have in common."""

    tail: bytes
    """What stands behind the delay, up to the payload's frame,"""
    before: bytes
    """what stands before it when the message is kept,"""
    behind: bytes
    """and behind it."""
    rest_at: int
    """From here on a message is kept as it is: behind the delay, if what follows is the same, or
    else from the payload's frame on, and then ``behind`` stands before that."""
    pack: Callable[[bytes, int, bytes, int, bytes], bytes]
    """The beginning of the entry: what stands before the time of delivery, that, what stands
    between it and the delay, that, and ``behind``."""


class DelayForms:
    """The forms of the messages that one channel publishes by one route."""

    __slots__ = ("_at", "_forms", "_route", "exchanges")

    def __init__(self) -> None:
        self._route: CachedRoute | None = None
        self._at = 0
        """Where the value stands in a message."""
        self._forms: dict[bytes, DelayForm] = {}
        """By all that stands before the value."""
        self.exchanges: tuple[str, ...] = ()
        """Who keeps the messages."""

    def __repr__(self) -> str:
        return f"<DelayForms: {len(self._forms)} for {self.exchanges}>"

    def entries(
        self, route: CachedRoute, bodies: list[bytes], start: int, stop: int, head: bytes
    ) -> list[bytes]:
        """The entries of messages from ``start`` on, until one is of no known form; ``head`` is
        what those for ``route`` begin with, save the time of delivery."""
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
        """``body``, which has these properties, was routed the long way, and is kept."""
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
