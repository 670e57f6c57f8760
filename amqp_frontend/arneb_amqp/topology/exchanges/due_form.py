"""A due form: the common parts of delayed messages that differ only in delay and payload.

The rule: a short cut and never a second opinion. A form is made from a message that was routed the
long way, and only where the route alone decides; anything that looks different is routed again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from arneb_amqp.routing.checks import is_plain_when_due
from arneb_amqp.routing.delayed import DELAY_BYTES, DELAY_FIELD
from arneb_amqp.topology.forwarding import Forwarding, word_and_route_of
from arneb_amqp.wire.content import header_end, properties_of
from arneb_core.api.entries.entry import PRIORITY_OFFSET
from arneb_core.api.topics.topic import Topic

BEHIND_TIMES: Final = 32
"""The offset in an entry's header after the times of publishing, delivery and expiry."""


@dataclass(frozen=True, slots=True)
class DueForm:
    """Messages of one form, and where they go."""

    word: bytes
    """Priority and flags."""
    before: bytes
    """The entry from :data:`BEHIND_TIMES` to the delay."""
    behind: bytes
    """The entry from the delay to the payload."""
    until: int
    """The end of the delay."""
    start: int
    """The start of the content."""
    head: bytes
    topics: tuple[Topic, ...]

    def messages(self, entries: Sequence[bytes], start: int) -> list[bytes]:
        """Return the forwarded messages from ``start`` to the first of another form."""
        before, behind, until, word = self.before, self.behind, self.until, self.word
        head, content_at = self.head, self.start
        found: list[bytes] = []
        for entry in islice(entries, start, None):
            if not (
                entry.startswith(before, BEHIND_TIMES)
                and entry.startswith(behind, until)
                and entry.startswith(word, PRIORITY_OFFSET)
            ):
                break
            found.append(head + entry[content_at:])
        return found


def form_of(entry: bytes, way: Forwarding | None) -> DueForm | None:
    """Return the form of ``entry``, which goes the ``way`` of its route; None if it has none."""
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
