"""Withholding: keeps what a transaction acknowledged from all consumers until it ends.

The rule: nothing here is on the path of a message that is in no transaction.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from arneb_core.api.entries.position import Position, render
from arneb_core.api.errors import AlreadyAcknowledged, SubscriptionFenced
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.subscription.machine import SubscriptionMachine


class SubscriptionWithholding:
    """Implements :class:`arneb_core.api.subscriptions.subscription.WithholdingSubscription`."""

    machine: SubscriptionMachine

    def withhold(
        self,
        positions: Sequence[Position],
        parts: Mapping[Position, tuple[int, int]],
        *,
        again: bool = False,
    ) -> LogConsumer:
        """See :meth:`.WithholdingSubscription.withhold`."""
        machine = self.machine
        if machine.state.is_fenced:
            raise SubscriptionFenced(f"{machine!r} is being reset or removed")
        withheld = machine.withheld
        if not again and (position := withheld.conflict(positions, parts)) is not None:
            raise AlreadyAcknowledged(f"{render(position)} is acknowledged, or withheld, already")
        try:
            # The machine makes it with make_consumer, like all its consumers.
            return cast(LogConsumer, withheld.withhold(positions, parts))
        finally:
            machine.state.outbox.flush()

    def withheld_of(self, position: Position) -> int:
        """See :meth:`.WithholdingSubscription.withheld_of`."""
        holder = self.machine.state.withheld
        if holder is None:
            return 0
        return -1 if position in holder.whole else holder.masks.get(position, 0)

    def give_back(self, positions: Sequence[Position], masks: Mapping[Position, int]) -> None:
        """See :meth:`.WithholdingSubscription.give_back`."""
        self.machine.withheld.give_back(positions, masks)
        self.machine.state.outbox.flush()
