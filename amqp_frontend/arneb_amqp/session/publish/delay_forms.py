"""Delay forms: messages for an exchange that delays which differ in how long, and in their payload.

The rule: a short cut and never a second opinion. What becomes of a message of a form was worked out
for one of them, and for a second one with another delay; if nothing but the delay made a
difference, it is put in between what was found, and everything else goes the long way.
"""

from struct import Struct
from typing import Final, NamedTuple

from arneb_amqp.routing.delayed import DELAY_FIELD
from arneb_amqp.routing.reply_to import REPLY_TO
from arneb_amqp.routing.router import RouteResult
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.session.publish.delaying import content_when_due
from arneb_amqp.wire.content import header_end, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties

VALUE: Final = Struct(">i")
DELIVER_AT: Final = Struct(">Q")
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
        unpack, pack, pack_time = VALUE.unpack_from, VALUE.pack, DELIVER_AT.pack
        for body in bodies[start:stop]:
            form = forms.get(body[:at])
            if form is None or not body.startswith(form.tail, until):
                break
            delay_ms = unpack(body, at)[0]
            if delay_ms <= 0:
                break
            entries.append(
                b"".join(
                    (
                        before_time, pack_time(now + delay_ms), behind_time,
                        form.before, pack(-delay_ms), form.behind,
                        body[until + len(form.tail) :],
                    )
                )
            )  # fmt: skip
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
        payload = len(body) - end
        self._forms[body[:at]] = DelayForm(
            body[at + VALUE.size : end], before, behind[: len(behind) - payload]
        )
