"""Giving back: what a consumer that leaves has in flight, when that is millions of entries.

The rule: no turn gives back more than :data:`PLACES_PER_TURN`, and they go in the order of the log,
so that whoever takes over gets them in their order. The consumer stays what it was until it
detaches: on an exclusive or failover subscription nobody is active in its place before that.
"""

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from arneb_core.subscription.consumer import LogConsumer

PLACES_PER_TURN: Final = 8_192
"""Some 2 ms."""


async def give_back(consumer: "LogConsumer", *, count: bool) -> None:
    """Release all that is in flight at ``consumer`` but what one turn may do."""
    if consumer.entries_in_flight <= PLACES_PER_TURN:
        return
    consumer.writable = False
    # Sorted in one piece: they nearly are, and then it costs some nanoseconds each. The last first,
    # so that they are given up by the piece, too: millions at once would be a long turn.
    places = sorted([*consumer.whole, *consumer.masks], reverse=True)
    while places:
        await trio.lowlevel.checkpoint()
        piece = places[-PLACES_PER_TURN:][::-1]
        del places[-PLACES_PER_TURN:]
        # What was answered meanwhile is not in flight any more, and is passed over.
        consumer.release(piece, count=count)
