"""Pauses: an item that cannot be handled to its end in one turn.

The rule: whoever raises has done nothing for ``rest`` yet; it is handled again, as if it had come
just then. Without ``rest`` that is the whole item.
"""

from arneb_amqp.routing.search import Search
from arneb_amqp.wire.items import Item


class Pause(Exception):
    """The turn is over before the item. ``search``: what must be found first."""

    def __init__(self, rest: Item | None = None, search: Search | None = None) -> None:
        super().__init__()
        self.rest = rest
        self.search = search
