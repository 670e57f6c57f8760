"""Acknowledgements: what an acknowledgement changes in a subscription.

The rule: it reaches every part that knows the entry: the cursor, the ready entries, the records of
past deliveries, and other consumers.
"""

from collections.abc import Mapping, Sequence

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.callbacks import Done
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.ready import Ready
from arneb_core.subscription.state.effects import Found, Refuse
from arneb_core.subscription.state.state import SubscriptionState


class Acknowledgements:
    """Takes the acknowledgements of one subscription."""

    __slots__ = (
        "_cursor",
        "_delivery",
        "_log",
        "_ready",
        "_state",
        "acks",
    )

    def __init__(self, state: SubscriptionState, ready: Ready, delivery: Delivery) -> None:
        self._state = state
        self._log = state.log
        self._cursor = state.cursor
        self.acks = state.acks
        self._ready = ready
        self._delivery = delivery

    def __repr__(self) -> str:
        return f"<Acknowledgements {self.acks!r}>"

    @property
    def divided(self) -> Mapping[Position, int]:
        """Batches delivered message by message: the messages in flight."""
        return self._state.divided

    def receipt(self, done: Done | None) -> None:
        """Note that the cursor may have changed; ``done`` is called once that is on disk."""
        self._state.cursor_changed(done)

    def acknowledge(
        self, positions: Sequence[Position], done: Done | None, *, elsewhere: bool
    ) -> None:
        """Acknowledge whole entries. ``elsewhere``: some were not in flight at the sender."""
        if positions:
            self._cursor.acknowledge(positions)
            self._delivery.acknowledged(positions)
            if elsewhere:
                self._ready.answered(positions)
                self._take_away(positions)
        self._state.cursor_changed(done)
        self._state.wake()

    def acknowledge_messages(
        self, position: Position, mask: int, size: int | None, done: Done | None, *, elsewhere: bool
    ) -> None:
        """Acknowledge messages of a batch; ``size`` is the batch's, if it is known.
        ``elsewhere``: nothing of it was in flight at the sender."""
        known = size or self._size_of(position)
        if known is not None:
            self._acknowledge_messages(position, mask, known, elsewhere=elsewhere)
        elif self._log.ledgers.contains(position) and not self.acks.is_acknowledged(position):
            era = self._state.era
            self._state.outbox.read(
                position, 1, lambda found: self._sized(position, mask, era, found, done)
            )
            return
        self._state.cursor_changed(done)
        self._state.wake()

    def acknowledge_until(self, position: Position) -> None:
        """Acknowledge everything up to ``position``."""
        last = self._log.ledgers.last
        if last is None:
            return
        position = min(position, last)  # entries appended later were never meant
        self._delivery.acknowledged_through(position)
        self._cursor.acknowledge_until(position)
        self._ready.answered_through(position)
        if (withheld := self._state.withheld) is not None:
            withheld.discard([each for each in withheld.positions if each <= position])
        self._state.wake()

    def acknowledge_delivered(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None
    ) -> None:
        """Acknowledge entries on their way to a consumer that does not acknowledge.

        The caller takes them out of the replay set and out of what was read.
        """
        if masks is None:
            self._cursor.acknowledge(positions)
            self._delivery.acknowledged(positions)
        else:
            for position, mask in masks.items():
                if self._cursor.acknowledge_messages(position, mask, self._state.sizes[position]):
                    self._delivery.acknowledged([position])
                self._delivery.undivide(position, mask)
        self._state.cursor_changed()

    def _take_away(self, positions: Sequence[Position]) -> None:
        """Take entries away from their holders: they were acknowledged by a consumer that did not
        hold them, one that came back after losing its connection."""
        for consumer, held in self._state.holders.of(positions):
            consumer.discard(held)
        if self._state.withheld is not None:
            self._state.withheld.discard(positions)

    def _acknowledge_messages(
        self, position: Position, mask: int, size: int, *, elsewhere: bool
    ) -> None:
        shared = elsewhere or position in self._state.divided
        if self._cursor.acknowledge_messages(position, mask, size):
            self._delivery.acknowledged([position])
            self._ready.answered([position])
            if shared:
                self._take_away([position])
        else:
            self._delivery.undivide(position, mask)
            if elsewhere:
                self._take_messages_away(position, mask)

    def _take_messages_away(self, position: Position, mask: int) -> None:
        """The same for some messages of a batch that its holder has as a whole."""
        for consumer, _ in self._state.holders.of([position]):
            if position in consumer.whole:
                consumer.shrink(position, mask, self.acks)

    def _size_of(self, position: Position) -> int | None:
        """Return how many messages the entry holds, if that is known without reading the store."""
        size = self._state.sizes.get(position)
        if size is not None:
            return size
        unacked = self.acks.unacked_mask(position)
        if unacked is not None:
            return unacked.bit_length()  # later messages are acknowledged, so this suffices
        hot = self._log.read_hot(position, 1)
        return None if hot is None else messages_in(hot[1][0])

    def _sized(
        self,
        position: Position,
        mask: int,
        era: int,
        found: Found,
        done: Done | None,
    ) -> None:
        """Acknowledge the messages, now that the entry was read for its size."""
        if isinstance(found, StoreFailed):
            # Nothing was acknowledged, and whoever waits for the receipt must know.
            if done is not None:
                self._state.outbox.put(Refuse(done, found))
            return
        if era == self._state.era and found and found[0][0] == position:
            self._acknowledge_messages(position, mask, messages_in(found[0][1][0]), elsewhere=True)
        self._state.cursor_changed(done)
        self._state.wake()

    def divide_rest(self, position: Position) -> tuple[int, int]:
        """Put the messages of a divided batch that nobody holds in flight; return them and the
        batch's size."""
        size = self._state.sizes[position]
        free = self.unacked(position, size) & ~self._state.divided[position]
        self._delivery.divide(position, free, size)
        return free, size

    def unacked(self, position: Position, size: int) -> int:
        """Return the messages of a batch of ``size`` that are not acknowledged."""
        unacked = self.acks.unacked_mask(position)
        return (1 << size) - 1 if unacked is None else unacked
