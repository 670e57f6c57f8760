"""A consumer: what one client of a subscription may do with its entries in flight.

The rule: an entry is in flight at one consumer at most or, when its batch was divided, message by
message at several. A consumer from before a seek acknowledges nothing: its entries may be meant to
come again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import NotAllowed
from arneb_core.api.process.callbacks import Done
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.subscriptions.windows import UnackedWindow
from arneb_core.subscription.consumers.returns import Returns, Taken
from arneb_core.subscription.departures.dead_lettering import DeadLettering
from arneb_core.subscription.entries.acknowledgements import Acknowledgements
from arneb_core.subscription.state.effects import Closed
from arneb_core.subscription.state.in_flight import Held, InFlight
from arneb_core.subscription.state.state import SubscriptionState

NO_PARTS: Final[Mapping[Position, int]] = {}


class Members(Protocol):
    """Knows the attached consumers."""

    def detached(self, consumer: "AttachedConsumer") -> None:
        """Forget ``consumer``, which left and has given back what it held."""
        ...

    def retired(self, consumer: "AttachedConsumer") -> None:
        """Give ``consumer`` nothing more."""
        ...


@dataclass(frozen=True, slots=True)
class Answering:
    """The parts of a subscription that take a consumer's answers."""

    state: SubscriptionState
    members: Members
    acknowledgements: Acknowledgements
    returns: Returns
    dead_lettering: DeadLettering


class AttachedConsumer(InFlight):
    """One attached consumer."""

    def __init__(
        self, answering: Answering, spec: ConsumerSpec, shared: UnackedWindow | None = None
    ) -> None:
        super().__init__(spec, shared)
        self._state = answering.state
        self._members = answering.members
        self._acknowledgements = answering.acknowledgements
        self._returns = answering.returns
        self._dead_lettering = answering.dead_lettering
        self._era = answering.state.era
        self.holders = answering.state.holders

    def __repr__(self) -> str:
        state = f"{self.in_flight} in flight" if self.attached else "detached"
        return f"<Consumer {self._state.label}/{self.name}, {state}>"

    @property
    def properties(self) -> Mapping[str, str]:
        return self.spec.properties

    @property
    def priority(self) -> int:
        return self.spec.priority

    @property
    def writable(self) -> bool:
        return self.receiver.writable

    @writable.setter
    def writable(self, value: bool) -> None:
        self.receiver.writable = value

    @property
    def permits(self) -> int:
        return self.receiver.permits

    def flow(self, permits: int) -> None:
        """Add permits."""
        self.receiver.permits += permits
        self._state.wake()

    def wake(self) -> None:
        """Have the subscription look for work again."""
        self._state.wake()

    def acknowledge(self, positions: Sequence[Position], done: Done | None = None) -> None:
        """Acknowledge whole entries; of a divided batch, the messages in flight here."""
        if self._is_outdated:
            positions = []
        divided = self._state.divided
        if divided:
            parts = {each for each in positions if each in divided}
            positions = [each for each in positions if each not in parts]
            for position in parts:
                self._acknowledge_part(position)
        removed = self.remove(positions)
        self._acknowledgements.acknowledge(positions, done, elsewhere=removed < len(positions))

    def acknowledge_messages(self, position: Position, mask: int, done: Done | None = None) -> None:
        """Acknowledge the messages ``mask`` of the batch at ``position``."""
        acknowledgements = self._acknowledgements
        size, elsewhere = None, False
        if self._is_outdated:
            acknowledgements.receipt(done)
            return
        if position in self.masks:
            self.remove_messages(position, mask)
        elif position in self.whole:
            size = self.shrink(position, mask, self._state.acks)
        else:
            elsewhere = True
        acknowledgements.acknowledge_messages(position, mask, size, done, elsewhere=elsewhere)

    def acknowledge_parts(self, masks: Mapping[Position, int]) -> None:
        """Acknowledge the messages of batches that are in ``masks`` and in flight here."""
        for position, mask in masks.items():
            if position in self.whole:
                self.acknowledge([position])
            elif held := self.masks.get(position, 0) & mask:
                self.acknowledge_messages(position, held)

    def acknowledge_until(
        self, position: Position, mask: int | None = None, done: Done | None = None
    ) -> None:
        """Acknowledge everything up to ``position``; with ``mask``, only those messages there."""
        kind = self._state.type
        if kind is None or not kind.traits.cumulative_acks_allowed:
            raise NotAllowed(
                f"expected an exclusive or failover subscription for a cumulative ack, "
                f"got {self._state!r}"
            )
        through = position if mask is None else Position(position - 1)
        if not self._is_outdated:
            self.remove([each for each in self.whole if each <= through])
            for each in [each for each in self.masks if each <= through]:
                self.remove_messages(each, self.masks[each])
            self._acknowledgements.acknowledge_until(through)
        if mask is None:
            self._acknowledgements.receipt(done)
        else:
            self.acknowledge_messages(position, mask, done)

    def release(
        self,
        positions: Sequence[Position],
        *,
        count: bool,
        masks: Mapping[Position, int] | None = None,
    ) -> None:
        """Give entries back to their places; ``masks``: only these messages of divided batches."""
        self._returns.release(self, positions, count=count, masks=masks)

    def reject(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None = None
    ) -> None:
        """Have entries in flight here depart; see the interface."""
        dead_lettering = self._dead_lettering
        if not dead_lettering.has_target or self._is_outdated:
            self.acknowledge(positions)
            for position, mask in (masks or {}).items():
                self.acknowledge_messages(position, mask)
            return
        mine = [each for each in positions if each in self.whole]
        sizes = {each: self.sizes[each] for each in mine if each in self.sizes}
        self.remove(mine)
        dead_lettering.reject(Departure.REJECTED, mine, sizes)
        for position, mask in (masks or {}).items():
            held = self.masks.get(position, 0) & mask
            if held:
                self.remove_messages(position, held)
                dead_lettering.reject_messages(Departure.REJECTED, position, held)

    def release_all(self, *, count: bool) -> None:
        """Give everything in flight back."""
        self.release([*self.whole, *self.masks], count=count)

    def retire(self) -> None:
        """Get nothing more; see the interface."""
        if self.attached:
            self._members.retired(self)

    def detach(self) -> None:
        """Leave; what is in flight goes back without raising redelivery counts."""
        if self.attached:
            self.attached = False
            self.release_all(count=False)
            self.leave_windows()
            self._members.detached(self)

    def put_out(self, reason: str) -> None:
        """Detach the consumer, and tell it why."""
        if self.attached:
            self.detach()
            self._state.outbox.calls.append(Closed(self, reason))
            self._state.outbox.flush()

    # Units

    def take_for_unit(
        self, positions: Sequence[Position], parts: Mapping[Position, int] = NO_PARTS
    ) -> Taken:
        """Acknowledge as part of a commit that is about to start; return how to undo that."""
        if parts:
            positions = [*positions, *(each for each in parts if each in self.whole)]
            parts = {each: mask for each, mask in parts.items() if self.masks.get(each, 0) & mask}
        wanted = [*positions, *parts] if parts else positions
        unacked = [] if self._is_outdated else self._state.acks.only_unacked(wanted)
        if not self.sizes and self.whole.issuperset(unacked):
            held = Held(dict.fromkeys(unacked, 1), {})
        else:
            held = Held(
                {each: self.sizes.get(each, 1) for each in unacked if each in self.whole},
                {
                    each: self.masks[each] & parts.get(each, -1)
                    for each in unacked
                    if each in self.masks
                },
            )
        taken = self._returns.about_to_take(unacked, held)
        self.acknowledge(positions)
        self.acknowledge_parts(parts)
        return taken

    def back_from_unit(self, taken: Taken) -> None:
        """Undo a failed unit: its entries are in flight here again, or ready if they were not or
        the consumer left."""
        if taken.era != self._state.era:
            return  # a seek in between has decided what becomes of them
        held = taken.held if self.attached else Held({}, {})
        self._returns.untake(taken, held)
        self.restored(held)

    # Inside

    @property
    def _is_outdated(self) -> bool:
        """A seek came after this consumer: its entries may be meant to come again."""
        return self._era != self._state.era

    def _acknowledge_part(self, position: Position) -> None:
        """Acknowledge the messages of a divided batch that are in flight here; if none are, those
        that nobody holds."""
        if position in self.masks:
            self.acknowledge_messages(position, self.masks[position])
        else:
            unheld = ~self._state.divided[position]
            self._acknowledgements.acknowledge_messages(
                position, unheld, None, None, elsewhere=True
            )
