"""Starting over: what becomes of a subscription when one of its turns failed half-way.

The rule: nobody can say any more where what that turn had in hand is, so nothing that is in memory
is believed but what is acknowledged, and what is with the heir. Consumers are put out; everything
else is read again and given out as what may have been seen. So nothing is skipped, and nothing
that was acknowledged comes back.
"""

from typing import TYPE_CHECKING

from arneb_core.api.callbacks import call
from arneb_core.api.position import Position
from arneb_core.subscription.handout import HandOut
from arneb_core.subscription.sources.backlog import BacklogReader

if TYPE_CHECKING:
    from arneb_core.subscription.subscription import LogSubscription


def start_over(subscription: "LogSubscription", reader: BacklogReader, handout: HandOut) -> None:
    """Have ``subscription`` begin again at what it has acknowledged."""
    for consumer in subscription.consumers:
        call(consumer.put_out, "failed")
    handout.broken.clear()
    handed = subscription.departures.start_over()
    for place in [each for each in handout.divided if each not in handed]:
        handout.undivide(place, -1)
    settlement, acks = subscription.settlement, subscription.acks
    settlement.replay.clear()
    subscription.held_back.start_over()
    reader.rewind(reader.after)
    through, skip = reader.after, reader.skip or ()
    lost: list[Position] = []
    if through > acks.mark_delete:
        unacked = acks.unacknowledged(acks.mark_delete, through, acks.backlog)
        lost = [each for each in unacked if each not in handed and each not in skip]
    settlement.returned(lost, count=False)
    if handout.weights is not None:
        handout.weights.lose_count()
