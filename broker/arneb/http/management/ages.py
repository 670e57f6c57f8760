"""Ages: how old the oldest message is that somebody still has to acknowledge.

The rule: it is read where it lies, and read again only when another one is the oldest.
"""

from collections import OrderedDict
from typing import Final

from arneb_core.api.entry import HEADER_BYTES, read_header
from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import Position
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic

KNOWN_MAX: Final = 2000
"""Oldest messages that are remembered: some pages of a list."""


class Ages:
    """When the oldest messages were published, of what is looked at."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, str], tuple[Position, int]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Ages of {len(self._known)} subscriptions>"

    async def of(self, topic: Topic, subscription: Subscription) -> int | None:
        """When the oldest unacknowledged message of a subscription was published, in ms; None:
        there is none, or it cannot be read."""
        waiting = subscription.unacknowledged(1)
        if not waiting:
            return None
        key, place = (topic.name, topic.id, subscription.name), waiting[0]
        known = self._known.get(key)
        if known is None or known[0] != place:
            try:
                entry = await topic.entry_at(place)
            except StoreFailed:
                return None
            if entry is None or len(entry) < HEADER_BYTES:
                return None
            known = self._known[key] = (place, read_header(entry).publish_time_ms)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known[1]
