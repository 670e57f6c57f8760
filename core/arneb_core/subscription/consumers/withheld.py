"""Withheld: entries acknowledged in a transaction that has not ended.

The rule: a withheld entry is in flight at an internal consumer, the *withholder*. So nobody else
gets it, no commit writes it as acknowledged, no ledger that holds it is trimmed; and it outlives
the consumer that acknowledged it. It stays until the withholder acknowledges it, in the commit of
the transaction, or until it is given back. A seek frees all withheld entries: their transactions
then acknowledge nothing here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.subscription.consumers.consumer import AttachedConsumer
from arneb_core.subscription.consumers.returns import Returns
from arneb_core.subscription.entries.acknowledgements import Acknowledgements
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.ready import Ready
from arneb_core.subscription.state.state import SubscriptionState

WITHHOLDER: Final = ConsumerSpec(name="transactions")

Part = tuple[int, int]
"""Messages of a batch as a mask, and how many messages the batch has."""


class Withheld:
    """The withheld entries of one subscription."""

    def __init__(
        self,
        state: SubscriptionState,
        ready: Ready,
        delivery: Delivery,
        acknowledgements: Acknowledgements,
        returns: Returns,
        new_holder: Callable[[], AttachedConsumer],
    ) -> None:
        self._state = state
        self._ready = ready
        self._delivery = delivery
        self._acknowledgements = acknowledgements
        self._returns = returns
        self._new_holder = new_holder
        self.holder = new_holder()
        self._share()

    def __repr__(self) -> str:
        return f"<Withheld {self.holder.entries_in_flight} entries of {self._state.label}>"

    def conflict(
        self, positions: Sequence[Position], parts: Mapping[Position, Part]
    ) -> Position | None:
        """Return the first of these that is acknowledged or withheld already, even in part."""
        acks, holder = self._state.acks, self.holder
        for position in positions:
            if (
                position in holder.whole
                or position in holder.masks
                or acks.is_acknowledged(position)
            ):
                return position
        for position, (mask, size) in parts.items():
            if position in holder.whole or acks.is_acknowledged(position):
                return position
            free = self._acknowledgements.unacked(position, size) & ~holder.masks.get(position, 0)
            if mask & ~free & ((1 << size) - 1):
                return position
        return None

    def withhold(
        self, positions: Sequence[Position], parts: Mapping[Position, Part]
    ) -> AttachedConsumer:
        """Withhold those of these that are neither acknowledged nor withheld, whoever has them;
        return the consumer that acknowledges them later."""
        state, holder = self._state, self.holder
        nobodys: list[Position] = []
        for position in state.acks.only_unacked(positions):
            if position in state.divided:
                size = state.sizes[position]
                nobodys += self._withhold_part(position, (1 << size) - 1, size)
            elif position not in holder.whole:
                nobodys += self._withhold_whole(position)
        for position, (mask, size) in parts.items():
            if position in holder.whole or state.acks.is_acknowledged(position):
                continue
            if size == 1 and mask:
                nobodys += self._withhold_whole(
                    position
                )  # entries of one message are never divided
            else:
                nobodys += self._withhold_part(position, mask, size)
        if nobodys:
            if state.byte_counter is not None:
                state.byte_counter.lose_count()
            self._ready.answered(nobodys)
        state.wake()
        return holder

    def give_back(self, positions: Sequence[Position], masks: Mapping[Position, int]) -> None:
        """Have withheld entries delivered again in their places, a batch together with all that
        consumers have of it: Java's client acknowledges a batch once it has processed all of it,
        and counts from when it comes."""
        held = [each for each in (*positions, *masks) if self._is_held(each)]
        for consumer, here in self._state.holders.of(held):
            divided = [each for each in here if each in consumer.masks]
            self._returns.release(consumer, divided, count=False)
        self._returns.release(self.holder, held, count=True, masks=masks or None)
        # The reader passed over them while it read ahead.
        self._state.reader.reread(held)

    def forget(self) -> None:
        """A seek: nothing is withheld any more."""
        old = self.holder
        old.attached = False
        for known in (old.whole, old.sizes, old.masks):
            known.clear()
        self.holder = self._new_holder()
        self._share()

    def start_over(self, sizes: Mapping[Position, int]) -> set[Position]:
        """Recover from a turn that failed half-way, where divided batches, of ``sizes``, were
        forgotten. What is withheld stays so. Return the entries withheld whole."""
        for position, mask in self.holder.masks.items():
            self._delivery.divide(position, mask, sizes[position])
        return self.holder.whole

    # Inside

    def _share(self) -> None:
        self._state.withheld = self.holder
        self._state.reader.withheld = self.holder.whole

    def _is_held(self, position: Position) -> bool:
        return position in self.holder.whole or position in self.holder.masks

    def _withhold_whole(self, position: Position) -> list[Position]:
        """Withhold an entry that is not divided. Return it if nobody had it."""
        holder = self.holder
        nobodys = [position]
        for consumer, _ in self._state.holders.of([position]):
            if position in consumer.whole:
                size = consumer.sizes.get(position, 1)
                if size != 1:
                    holder.sizes[position] = size
                consumer.remove([position])
                nobodys = []
                break
        holder.whole.add(position)
        return nobodys

    def _withhold_part(self, position: Position, mask: int, size: int) -> list[Position]:
        """Withhold messages of a batch of ``size``. Return the batch if nothing of it can be
        delivered now."""
        state, holder = self._state, self.holder
        unacked = self._acknowledgements.unacked(position, size)
        wanted = mask & unacked & ~holder.masks.get(position, 0)
        if not wanted:
            return []
        for consumer, _ in state.holders.of([position]):
            if position in consumer.whole:
                # The batch is divided from now on: its other messages stay with the consumer.
                consumer.whole.discard(position)
                consumer.sizes.pop(position, None)
                consumer.masks[position] = unacked
                self._delivery.divide(position, unacked, size)
            if held := consumer.masks.get(position, 0) & wanted:
                consumer.remove_messages(position, held)
        self._delivery.divide(position, wanted, size)
        holder.masks[position] = holder.masks.get(position, 0) | wanted
        return [] if unacked & ~state.divided[position] else [position]
