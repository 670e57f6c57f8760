"""A recorded consumer: notes all it does in the history of its subscription.

The rule: it behaves like any other consumer. It is a separate class, so that consumers without a
history pay nothing for it.
"""

from collections.abc import Mapping, Sequence

from arneb_core.api.entries.position import Position, before
from arneb_core.api.process.callbacks import Done
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.subscription.consumers.consumer import AttachedConsumer
from arneb_core.subscription.consumers.returns import Taken


class RecordedConsumer(AttachedConsumer):
    """One attached consumer of a subscription with a history."""

    _known_as = ""
    """Its name in the history; empty before its first delivery."""

    def __repr__(self) -> str:
        return f"<Recorded {super().__repr__()[1:]}"

    @property
    def label(self) -> str:
        """Its name and a number, since others may have had that name."""
        return self._known_as or self.name

    def took(
        self, run: Deliveries, messages: int, sizes: Sequence[int] | None, *, is_divided: bool
    ) -> None:
        """Note that ``run`` is on its way here."""
        super().took(run, messages, sizes, is_divided=is_divided)
        if (history := self._state.history) is not None:
            self._known_as = self._known_as or history.new_consumer(self.name)
            history.delivered(self.label, run, messages)
            if not self.spec.acks:
                history.acknowledged(self.label, run.positions, is_auto=True)

    def acknowledge(self, positions: Sequence[Position], done: Done | None = None) -> None:
        """Acknowledge whole entries."""
        if (history := self._state.history) is not None and not self._is_outdated:
            divided = self._state.divided  # those are noted message by message
            unacked = self._state.acks.only_unacked(positions)
            history.acknowledged(self.label, [each for each in unacked if each not in divided])
        super().acknowledge(positions, done)

    def acknowledge_messages(self, position: Position, mask: int, done: Done | None = None) -> None:
        """Acknowledge messages of a batch."""
        if (history := self._state.history) is not None and not self._is_outdated:
            history.acknowledged_messages(self.label, position, mask)
        super().acknowledge_messages(position, mask, done)

    def acknowledge_until(
        self, position: Position, mask: int | None = None, done: Done | None = None
    ) -> None:
        """Acknowledge everything up to ``position``."""
        super().acknowledge_until(position, mask, done)
        if (history := self._state.history) is not None and not self._is_outdated:
            history.acknowledged_through(self.label, position if mask is None else before(position))

    def release(
        self,
        positions: Sequence[Position],
        *,
        count: bool,
        masks: Mapping[Position, int] | None = None,
    ) -> None:
        """Give entries back."""
        if (history := self._state.history) is not None:
            mine = [each for each in positions if each in self.whole or each in self.masks]
            history.returned(self.label, mine, counted=count)
        super().release(positions, count=count, masks=masks)

    def reject(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None = None
    ) -> None:
        """Have entries depart."""
        state, has_target = self._state, self._dead_lettering.has_target
        if not self._is_outdated:
            mine = state.acks.only_unacked([*positions, *(masks or ())])
            state.departing(Departure.REJECTED, mine, is_dead_lettered=has_target)
        history, state.history = state.history, None
        try:
            super().reject(positions, masks)  # acknowledges without a target: not to be noted
        finally:
            state.history = history

    def back_from_unit(self, taken: Taken) -> None:
        """Undo a failed unit."""
        if (history := self._state.history) is not None and taken.era == self._state.era:
            history.restored(self.label, taken.positions)
        super().back_from_unit(taken)
