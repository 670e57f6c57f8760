"""A due form: what kept messages have in common that differ in their delay and payload only.

The rule: a short cut and never a second opinion. It is made of a message whose way was worked out,
and only where the route alone decides; whatever does not look the same is worked out anew.
"""

from dataclasses import dataclass
from typing import Final

from arneb_amqp.routing.checks import is_plain_when_due
from arneb_amqp.routing.delayed import DELAY_BYTES, DELAY_FIELD
from arneb_amqp.topology.forwarding import Forwarding, word_and_route_of
from arneb_amqp.wire.content import header_end, properties_of
from arneb_core.api.entry import PRIORITY_OFFSET
from arneb_core.api.topics import Topic

BEHIND_TIMES: Final = 32
"""Where an entry's header goes on behind the times of publishing, delivery and expiry."""


@dataclass(frozen=True, slots=True)
class DueForm:
    """Messages of one form, and where they go."""

    word: bytes
    """Priority and flags."""
    before: bytes
    """From :data:`BEHIND_TIMES` up to the delay."""
    behind: bytes
    """From the delay to the payload."""
    until: int
    """Where the delay ends."""
    start: int
    """Where the content begins."""
    head: bytes
    topics: tuple[Topic, ...]

    def fits(self, entry: bytes) -> bool:
        """``entry`` is of this form."""
        return (
            entry.startswith(self.before, BEHIND_TIMES)
            and entry.startswith(self.behind, self.until)
            and entry.startswith(self.word, PRIORITY_OFFSET)
        )


def form_of(entry: bytes, way: Forwarding | None) -> DueForm | None:
    """The form of ``entry``, which goes the ``way`` that its route alone says; None if it has
    none."""
    word, _, start = word_and_route_of(entry)
    end = header_end(entry, start)
    at = entry.find(DELAY_FIELD, start, end) + len(DELAY_FIELD)
    until = at + DELAY_BYTES
    if at < len(DELAY_FIELD) or until > end or not is_plain_when_due(properties_of(entry, start)):
        return None
    if way is None:
        return DueForm(word, entry[BEHIND_TIMES:at], entry[until:end], until, start, b"", ())
    if way.properties is not None or way.refusing or way.delayed:
        return None
    return DueForm(
        word, entry[BEHIND_TIMES:at], entry[until:end], until, start, way.head, tuple(way.topics)
    )
