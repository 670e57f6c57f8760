"""Withheld: entries that were acknowledged in a transaction which has not ended.

The rule: what is withheld is in flight at an internal consumer, the *withholder*. So nobody else
gets it, no commit writes it as acknowledged, no ledger that holds it goes; and it outlives whoever
acknowledged it. It ends when the withholder acknowledges it, in the commit of the transaction, or
when it is given back. A seek lets go of all of it: what it was withheld for acknowledges nothing
any more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from arneb_core.api.consumers import ConsumerSpec
from arneb_core.api.position import Position
from arneb_core.subscription.acknowledgements import Acknowledgements
from arneb_core.subscription.consumer import AttachedConsumer
from arneb_core.subscription.delivery import Delivery
from arneb_core.subscription.ready import Ready
from arneb_core.subscription.returns import Returns
from arneb_core.subscription.state import SubscriptionState

WITHHOLDER: Final = ConsumerSpec(name="transactions")

Part = tuple[int, int]
"""Messages of a batch as a mask, and how many messages the batch has."""


class Withheld:
    """What of one subscription is withheld."""

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
        """The first of these of which something is acknowledged or withheld already."""
        acks, holder = self._state.acks, self.holder
        for place in positions:
            if place in holder.whole or place in holder.masks or acks.is_acknowledged(place):
                return place
        for place, (mask, size) in parts.items():
            if place in holder.whole or acks.is_acknowledged(place):
                return place
            free = self._acknowledgements.unacked(place, size) & ~holder.masks.get(place, 0)
            if mask & ~free & ((1 << size) - 1):
                return place
        return None

    def withhold(
        self, positions: Sequence[Position], parts: Mapping[Position, Part]
    ) -> AttachedConsumer:
        """Withhold what of these is neither acknowledged nor withheld, whoever has it; who
        acknowledges it later."""
        state, holder = self._state, self.holder
        nobodys: list[Position] = []
        for place in state.acks.only_unacked(positions):
            if place in state.divided:
                size = state.sizes[place]
                nobodys += self._withhold_part(place, (1 << size) - 1, size)
            elif place not in holder.whole:
                nobodys += self._withhold_whole(place)
        for place, (mask, size) in parts.items():
            if place in holder.whole or state.acks.is_acknowledged(place):
                continue
            if size == 1 and mask:
                nobodys += self._withhold_whole(place)  # entries of one message are never divided
            else:
                nobodys += self._withhold_part(place, mask, size)
        if nobodys:
            if state.byte_counter is not None:
                state.byte_counter.lose_count()
            self._ready.answered(nobodys)
        state.wake()
        return holder

    def give_back(self, positions: Sequence[Position], masks: Mapping[Position, int]) -> None:
        """Have these, which were withheld, delivered again in their places; of a batch with all
        that consumers have of it: Java's acknowledges it once it is through with all of it, and
        begins to count when it comes."""
        held = [each for each in (*positions, *masks) if self._is_held(each)]
        for consumer in list(self._state.consumers.values()):
            divided = [each for each in held if each in consumer.masks]
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
        """A turn failed half-way, and what was divided was forgotten; ``sizes``: of that. What is
        withheld stays so; which entries are, with all their messages."""
        for place, mask in self.holder.masks.items():
            self._delivery.divide(place, mask, sizes[place])
        return self.holder.whole

    # Inside

    def _share(self) -> None:
        self._state.withheld = self.holder
        self._state.reader.withheld = self.holder.whole

    def _is_held(self, place: Position) -> bool:
        return place in self.holder.whole or place in self.holder.masks

    def _withhold_whole(self, place: Position) -> list[Position]:
        """Withhold an entry that is not divided. It, if nobody had it."""
        holder = self.holder
        nobodys = [place]
        for consumer in self._state.consumers.values():
            if place in consumer.whole:
                size = consumer.sizes.get(place, 1)
                if size != 1:
                    holder.sizes[place] = size
                consumer.remove([place])
                nobodys = []
                break
        holder.whole.add(place)
        return nobodys

    def _withhold_part(self, place: Position, mask: int, size: int) -> list[Position]:
        """Withhold messages of a batch of ``size``. It, if nothing of it can be delivered now."""
        state, holder = self._state, self.holder
        unacked = self._acknowledgements.unacked(place, size)
        wanted = mask & unacked & ~holder.masks.get(place, 0)
        if not wanted:
            return []
        for consumer in state.consumers.values():
            if place in consumer.whole:
                # It goes on message by message: those that are left are its consumer's.
                consumer.whole.discard(place)
                consumer.sizes.pop(place, None)
                consumer.masks[place] = unacked
                self._delivery.divide(place, unacked, size)
            if held := consumer.masks.get(place, 0) & wanted:
                consumer.remove_messages(place, held)
        self._delivery.divide(place, wanted, size)
        holder.masks[place] = holder.masks.get(place, 0) | wanted
        return [] if unacked & ~state.divided[place] else [place]
