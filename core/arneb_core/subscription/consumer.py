"""A consumer: what one peer of a subscription has in flight, and what it may do with it.

The rule: an entry is in flight at one consumer at most, or, when its batch was divided,
message by message at several; and whatever leaves this state (ack, release, detach)
is counted back into the windows exactly once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from arneb_core.api.callbacks import Done, call
from arneb_core.api.consumers import ConsumerSpec, Sink
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import NotAllowed
from arneb_core.api.limits import Departure
from arneb_core.api.position import Position
from arneb_core.api.windows import UnackedWindow, consumer_window
from arneb_core.dispatch import Receiver
from arneb_core.subscription.acknowledgements import Held, Taken
from arneb_core.subscription.giving_back import give_back

if TYPE_CHECKING:
    from arneb_core.subscription.subscription import LogSubscription


class Watching(Protocol):
    """Keeps count of what is in flight where."""

    def left(self, positions: Iterable[Position]) -> None:
        """These, if they were in flight, are so no more."""
        ...


NO_PARTS: Final[Mapping[Position, int]] = {}


class LogConsumer:
    """One attached consumer (:class:`arneb_core.api.consumers.Consumer`)."""

    def __init__(
        self,
        subscription: "LogSubscription",
        spec: ConsumerSpec,
        sink: Sink,
        shared: UnackedWindow | None = None,
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.sink = sink
        self.subscription = subscription
        unacked = () if shared is None else (shared,)
        self._unacked = consumer_window(spec.unacked_max) if spec.unacked_max else None
        if self._unacked is not None:
            unacked = (self._unacked, *unacked)
        self.receiver = Receiver(spec, unacked)
        self._windows = (*spec.windows, *unacked)
        self.keys: Watching | None = None
        """Who must know what is no longer in flight here, if anybody must."""
        self.attached = True
        self._era = subscription.settlement.era
        self.whole: set[Position] = set()
        """Entries in flight here that were delivered whole."""
        self.sizes: dict[Position, int] = {}
        """Messages delivered, for those of ``whole`` where that is not one."""
        self.masks: dict[Position, int] = {}
        """Divided batches: bit *i* set = message *i* is in flight here."""
        for window in self._windows:
            window.sharers[self] = None

    def __repr__(self) -> str:
        state = f"{self.in_flight} in flight" if self.attached else "detached"
        return f"<Consumer {self.subscription.name}/{self.name}, {state}>"

    @property
    def properties(self) -> Mapping[str, str]:
        return self.spec.properties

    @property
    def writable(self) -> bool:
        return self.receiver.writable

    @writable.setter
    def writable(self, value: bool) -> None:
        self.receiver.writable = value

    @property
    def permits(self) -> int:
        return self.receiver.permits

    @property
    def is_shut_off(self) -> bool:
        return self._unacked is not None and self._unacked.is_shut

    @property
    def in_flight(self) -> int:
        """Messages delivered here and neither acknowledged nor released."""
        batches = sum(self.sizes.values()) - len(self.sizes)
        return len(self.whole) + batches + sum(map(int.bit_count, self.masks.values()))

    @property
    def entries_in_flight(self) -> int:
        """Entries of which something is in flight here."""
        return len(self.whole) + len(self.masks)

    def flow(self, permits: int) -> None:
        """Add permits."""
        self.receiver.permits += permits
        self.wake()

    def wake(self) -> None:
        """Have the subscription look for work again."""
        self.subscription.wake()

    def took(
        self, run: Deliveries, messages: int, sizes: Sequence[int] | None, *, is_divided: bool
    ) -> None:
        """``run`` is on its way here; windows and permits are counted already."""
        if not self.spec.acks:
            self._freed(messages)
        elif is_divided and run.masks is not None:
            for place, mask in run.masks.items():
                self.masks[place] = self.masks.get(place, 0) | mask
        else:
            self.whole.update(run.positions)
            if sizes is not None:
                held = zip(run.positions, sizes, strict=True)
                self.sizes.update((place, size) for place, size in held if size != 1)

    def acknowledge(self, positions: Sequence[Position], done: Done | None = None) -> None:
        """Acknowledge whole entries; of a divided batch, the messages that are here."""
        settlement = self.subscription.settlement
        if self._is_outdated:
            positions = []
        divided = settlement.divided
        if divided:
            parts = {each for each in positions if each in divided}
            positions = [each for each in positions if each not in parts]
            for place in parts:
                self._acknowledge_part(place)
        taken = self._take(positions)
        settlement.acknowledge(positions, done, elsewhere=taken < len(positions))

    def acknowledge_messages(self, place: Position, mask: int, done: Done | None = None) -> None:
        """Acknowledge the messages ``mask`` of the batch at ``place``."""
        settlement = self.subscription.settlement
        size, elsewhere = None, False
        if self._is_outdated:
            settlement.receipt(done)
            return
        if place in self.masks:
            self._take_mask(place, mask)
        elif place in self.whole:
            size = self._shrink(place, mask)
        else:
            elsewhere = True
        settlement.acknowledge_messages(place, mask, size, done, elsewhere=elsewhere)

    def acknowledge_parts(self, masks: Mapping[Position, int]) -> None:
        """Acknowledge of batches what is in ``masks`` and in flight here."""
        for place, mask in masks.items():
            if place in self.whole:
                self.acknowledge([place])
            elif held := self.masks.get(place, 0) & mask:
                self.acknowledge_messages(place, held)

    def acknowledge_until(
        self, place: Position, mask: int | None = None, done: Done | None = None
    ) -> None:
        """Acknowledge everything up to ``place``; with ``mask``, those messages of the last."""
        kind = self.subscription.type
        if kind is None or not kind.traits.cumulative_acks_allowed:
            raise NotAllowed(
                f"expected an exclusive or failover subscription for a cumulative ack, "
                f"got {self.subscription!r}"
            )
        through = place if mask is None else Position(place - 1)
        settlement = self.subscription.settlement
        if not self._is_outdated:
            self._take([each for each in self.whole if each <= through])
            for each in [each for each in self.masks if each <= through]:
                self._take_mask(each, self.masks[each])
            settlement.acknowledge_until(through)
        if mask is None:
            settlement.receipt(done)
        else:
            self.acknowledge_messages(place, mask, done)

    def release(
        self,
        positions: Sequence[Position],
        *,
        count: bool,
        masks: Mapping[Position, int] | None = None,
    ) -> None:
        """Give entries (with ``masks`` messages of divided batches) back to their places."""
        settlement = self.subscription.settlement
        # What comes back finds its own queue first, before others that share a full window.
        self.wake()
        back: list[Position] = []
        whole: list[Position] = []
        for place in positions:
            if place in self.masks:
                held = self.masks[place]
                wanted = held if masks is None else held & masks.get(place, held)
                if self._take_mask(place, wanted):
                    if count and settlement.exceeds_limit(place, wanted):
                        continue
                    settlement.undivide(place, wanted)
                    back.append(place)
            elif place in self.whole:
                whole.append(place)
        self._take(whole)
        settlement.returned(back + whole, count=count)

    def reject(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None = None
    ) -> None:
        """Have entries in flight here depart; see the interface."""
        departures = self.subscription.departures
        if departures.heir is None or self._is_outdated:
            self.acknowledge(positions)
            for place, mask in (masks or {}).items():
                self.acknowledge_messages(place, mask)
            return
        mine = [each for each in positions if each in self.whole]
        sizes = {each: self.sizes[each] for each in mine if each in self.sizes}
        self._take(mine)
        departures.reject(Departure.REJECTED, mine, sizes)
        for place, mask in (masks or {}).items():
            held = self.masks.get(place, 0) & mask
            if held:
                self._take_mask(place, held)
                departures.reject_messages(Departure.REJECTED, place, held)

    async def give_back(self, *, count: bool) -> None:
        """Give back in turns; see the interface."""
        await give_back(self, count=count)

    def release_all(self, *, count: bool) -> None:
        """Give everything in flight back."""
        self.release([*self.whole, *self.masks], count=count)

    async def pull(self) -> Deliveries | None:
        """One message outside permits and windows; see the interface."""
        return await self.subscription.pull(self)

    def retire(self) -> None:
        """Get nothing any more; see the interface."""
        if self.attached:
            self.subscription.retired(self)

    def detach(self) -> None:
        """Leave; what is in flight goes back without raising redelivery counts."""
        if self.attached:
            self.attached = False
            self.release_all(count=False)
            for window in self._windows:
                window.sharers.pop(self, None)
            self.subscription.detached(self)

    def put_out(self, reason: str) -> None:
        """The core ends the attachment."""
        if self.attached:
            self.detach()
            call(self.sink.closed_by_core, reason)

    def take_for_unit(
        self, positions: Sequence[Position], parts: Mapping[Position, int] = NO_PARTS
    ) -> Taken:
        """Acknowledge as part of a commit that is about to start; how to undo that."""
        settlement = self.subscription.settlement
        if parts:
            positions = [*positions, *(each for each in parts if each in self.whole)]
            parts = {each: mask for each, mask in parts.items() if self.masks.get(each, 0) & mask}
        wanted = [*positions, *parts] if parts else positions
        unacked = [] if self._is_outdated else settlement.acks.only_unacked(wanted)
        held = Held(
            {each: self.sizes.get(each, 1) for each in unacked if each in self.whole},
            {
                each: self.masks[each] & parts.get(each, -1)
                for each in unacked
                if each in self.masks
            },
        )
        taken = settlement.about_to_take(unacked, held)
        self.acknowledge(positions)
        self.acknowledge_parts(parts)
        return taken

    def back_from_unit(self, taken: Taken) -> None:
        """That commit failed: in flight here again, or ready if it was not or the consumer
        left."""
        settlement = self.subscription.settlement
        if taken.era != settlement.era:
            return  # a seek in between has decided what becomes of them
        held = taken.held if self.attached else Held({}, {})
        settlement.untake(taken, held)
        self.whole.update(held.whole)
        self.sizes.update((place, size) for place, size in held.whole.items() if size != 1)
        for place, mask in held.masks.items():
            self.masks[place] = self.masks.get(place, 0) | mask
        for window in self.receiver.windows:
            window.in_flight += held.messages

    def discard(self, positions: Sequence[Position]) -> None:
        """Somebody else acknowledged these for us (a consumer that came back as another)."""
        self._take([each for each in positions if each in self.whole])
        for place in [each for each in positions if each in self.masks]:
            self._take_mask(place, self.masks[place])

    @property
    def _is_outdated(self) -> bool:
        """A seek came after this consumer: what it acknowledges may be meant to come again."""
        return self._era != self.subscription.settlement.era

    def _acknowledge_part(self, place: Position) -> None:
        """Acknowledge what is here of a divided batch; if nothing is, what nobody holds."""
        settlement = self.subscription.settlement
        if place in self.masks:
            self.acknowledge_messages(place, self.masks[place])
        else:
            unheld = ~settlement.divided[place]
            settlement.acknowledge_messages(place, unheld, None, None, elsewhere=True)

    def _take(self, positions: Sequence[Position]) -> int:
        """Out of ``whole``; how many entries of it that were."""
        whole = self.whole
        before = len(whole)
        whole.difference_update(positions)
        messages = taken = before - len(whole)
        if self.sizes and taken:
            for place in positions:
                size = self.sizes.pop(place, None)
                if size is not None:
                    messages += size - 1
        if messages:
            self._freed(messages)
        if taken and self.keys is not None:
            self.keys.left(positions)
        return taken

    def _take_mask(self, place: Position, mask: int) -> int:
        """Out of ``masks``; the messages that were in flight here."""
        held = self.masks[place]
        taken = held & mask
        if taken == held:
            del self.masks[place]
            if self.keys is not None:
                self.keys.left([place])
        else:
            self.masks[place] = held & ~taken
        self._freed(taken.bit_count())
        return taken

    def _shrink(self, place: Position, mask: int) -> int | None:
        """Some messages of a whole batch in flight here are done; the batch's size if known."""
        held = self.sizes.get(place, 1)
        unacked = self.subscription.settlement.acks.unacked_mask(place)
        size = None
        if unacked is None:  # nothing of it was acknowledged before: it was delivered full
            size = held
            unacked = (1 << held) - 1
        left = (unacked & ~mask).bit_count()
        if left:
            self.sizes[place] = left
            self._freed(held - left)
        else:
            self._take([place])
        return size

    def _freed(self, messages: int) -> None:
        """``messages`` are no longer in flight here. Who shares a window that was full may go
        on, on whatever subscription that is; this one last, so that none is left behind."""
        full = [each for each in self.receiver.windows if 0 < each.limit <= each.in_flight]
        self.receiver.freed(messages)
        for window in full:
            sharers = window.sharers
            if len(sharers) > 1:
                if self in sharers:
                    del sharers[self]
                    sharers[self] = None
                for other in sharers:
                    other.wake()
