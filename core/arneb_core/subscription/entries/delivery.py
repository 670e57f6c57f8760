"""Delivery: which runs go to which of a subscription's consumers.

The rule: what the dispatcher shares out is counted, put in flight and queued for its client in the
same call, so that no entry is ever between two places. A run of plain entries costs a handful of
calls whatever its length; only logs that hold batches are looked at entry by entry.
"""

from collections.abc import Callable, Sequence
from typing import Final

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import Window
from arneb_core.dispatch import (
    Dispatcher,
    FailoverDispatcher,
    KeySharedDispatcher,
    Members,
    Receiver,
    SharedDispatcher,
)
from arneb_core.subscription.state.effects import Deliver
from arneb_core.subscription.state.in_flight import InFlight
from arneb_core.subscription.state.past_deliveries import Past, PastDeliveries
from arneb_core.subscription.state.state import SubscriptionState

PARTS_PER_TURN: Final = 512
"""Messages of batches handed out one by one in a turn: each costs its consumer's session some 10 µs
to unbatch, and a batch may hold 65,536."""

DELIVERIES_MAX: Final = 256
"""Entries shared out at once among more consumers than this; each may be a delivery of its own."""

Acknowledge = Callable[[Sequence[Position], dict[Position, int] | None], None]
"""Acknowledges what was delivered to a consumer that does not acknowledge; of batches in the
mapping, only those messages."""


class Delivery:
    """Delivers entries, in the order in which they come, to the consumers of a subscription."""

    acknowledge_delivered: Acknowledge
    """Called with entries that are done as soon as they are delivered."""

    def __init__(self, state: SubscriptionState, suspect_until: Position) -> None:
        self._state = state
        self._acks = state.acks
        self._outbox = state.outbox
        self._dispatcher: Dispatcher = SharedDispatcher()
        self._members: Members = self._dispatcher
        self.consumers = state.consumers
        self.parts_left = PARTS_PER_TURN
        """How many messages of batches may still be handed out one by one in this turn."""
        self.past = PastDeliveries(suspect_until)
        self.divided, self.sizes = state.divided, state.sizes
        self.furthest = BEFORE_ALL
        """Nothing beyond this was handed out."""
        self.delivered_total = 0
        self.redelivered_total = 0

    def __repr__(self) -> str:
        return f"<Delivery to {len(self.consumers)} consumers, {self.past!r}>"

    @property
    def active(self) -> InFlight | None:
        """The active consumer of a Failover subscription, which gets everything."""
        if isinstance(self._dispatcher, FailoverDispatcher) and self._dispatcher.active:
            return self.consumers[self._dispatcher.active]
        return None

    @property
    def is_crowded(self) -> bool:
        """More consumers get entries than a turn has deliveries for."""
        return len(self.consumers) > DELIVERIES_MAX and self.active is None

    def begin(self, dispatcher: Dispatcher | KeySharedDispatcher) -> None:
        """Prepare for the first consumer: ``dispatcher`` shares entries out."""
        assert not self.consumers, "the type is free when nobody is there"
        self._members = dispatcher
        if not isinstance(dispatcher, KeySharedDispatcher):
            self._dispatcher = dispatcher

    def retire(self, consumer: InFlight) -> None:
        """Give ``consumer``, which stays attached, nothing more."""
        self._members.remove(consumer.receiver)

    def add(self, consumer: InFlight) -> None:
        """Let ``consumer`` have its share from now on."""
        self.consumers[consumer.receiver] = consumer
        if not consumer.spec.pulls:
            self._members.add(consumer.receiver)

    def remove(self, consumer: InFlight) -> None:
        """Give ``consumer``, which leaves, nothing more."""
        if self.consumers.pop(consumer.receiver, None) is not None:
            self._members.remove(consumer.receiver)

    @property
    def room(self) -> int:
        """Messages that consumers would take now. Those that share a window share its room."""
        left: dict[Window, int] = {}
        total = 0
        for receiver in self._dispatcher.receivers:
            room = receiver.room
            limited = [each for each in receiver.windows if each.limit]
            for window in limited:
                room = min(room, left.setdefault(window, window.limit - window.in_flight))
            if room > 0:
                total += room
                for window in limited:
                    left[window] -= room
        return total

    @property
    def has_room(self) -> bool:
        """Some consumer would take a message now."""
        return self._members.has_room

    def choose(self) -> Receiver | None:
        """Choose who gets the next message, and count it as given; None if nobody has room."""
        shares = self._dispatcher.share(1)
        return shares[0][0] if shares else None

    def acknowledged(self, positions: Sequence[Position]) -> None:
        """Forget the deliveries of these, which are acknowledged."""
        if self._state.byte_counter is not None:
            self._state.byte_counter.acknowledged(positions)
        known = self.past
        if known.returned or known.counts:
            known.acknowledged(positions)
        if self.divided:
            for position in positions:
                self.divided.pop(position, None)
                self.sizes.pop(position, None)

    def acknowledged_through(self, position: Position) -> None:
        """As :meth:`acknowledged`, for everything up to ``position``; called before it is
        acknowledged."""
        if self._state.byte_counter is not None and position > self._acks.mark_delete:
            self._state.byte_counter.lose_count()
        self.past.acknowledged_through(position)
        if self.divided:
            self.acknowledged([each for each in self.divided if each <= position])

    def acknowledged_all_but(self, positions: Sequence[Position]) -> None:
        """As :meth:`acknowledged`, for everything but ``positions``."""
        self.past.keep_only(positions)
        if self._state.byte_counter is not None:
            self._state.byte_counter.emptied()
        for position in self.divided.keys() - set(positions):
            del self.divided[position], self.sizes[position]

    def remember(self, past: Past) -> None:
        """Undo :meth:`acknowledged`: the acknowledgement was undone."""
        if self._state.byte_counter is not None:
            self._state.byte_counter.lose_count()
        self.past.remember(past)

    def forget(self) -> None:
        """A seek: nothing counts as seen."""
        if self._state.byte_counter is not None:
            self._state.byte_counter.forget()
        self.past.forget()
        self.divided.clear()
        self.sizes.clear()
        self.furthest = BEFORE_ALL

    def divide(self, position: Position, mask: int, size: int) -> None:
        """Note that messages of a batch of ``size`` are in flight."""
        self.divided[position] = self.divided.get(position, 0) | mask
        self.sizes[position] = size

    def undivide(self, position: Position, mask: int) -> None:
        """Note that messages of a divided batch are no longer in flight."""
        left = self.divided.get(position, 0) & ~mask
        if left:
            self.divided[position] = left
        else:
            self.divided.pop(position, None)
            self.sizes.pop(position, None)

    def hand_out(self, positions: list[Position], entries: list[bytes], *, batches: bool) -> int:
        """Share entries out and deliver them; return how many leading ones are dealt with.

        ``batches``: some entry may hold more or fewer than one message.
        """
        if not batches:
            return self._hand_out_plain(positions, entries)
        sizes = list(map(messages_in, entries))
        if max(sizes) == 1:
            return self._hand_out_plain(positions, entries)
        if self.divided or any(each.message_level for each in self.consumers):
            return self._hand_out_messages(positions, entries, sizes)
        return self._hand_out_batches(positions, entries, sizes)

    def pull(self, consumer: InFlight, position: Position, entry: bytes) -> Deliveries | None:
        """Give one message to ``consumer`` whatever its permits; :meth:`is_done_with` tells whether
        the entry has more. None: no message of it is free."""
        size = messages_in(entry)
        masks: dict[Position, int] | None = None
        if size > 1:
            free = self.free(position, size)
            if not free:
                return None
            masks = {position: free & -free}
            self.divide(position, masks[position], size)
        consumer.receiver.given(1)
        return self._run(consumer, [position], [entry], None, masks, is_divided=masks is not None)

    def is_done_with(self, position: Position, entry: bytes) -> bool:
        """No message of the entry is left to hand out."""
        size = messages_in(entry)
        return size == 1 or self._acks.is_acknowledged(position) or not self.free(position, size)

    def _hand_out_plain(self, positions: list[Position], entries: list[bytes]) -> int:
        shares = self._dispatcher.share(len(positions))
        if not shares:
            return 0
        done = shares[-1][2]
        if len(shares) == 1:
            if done != len(positions):
                positions, entries = positions[:done], entries[:done]
            self.deliver(self.consumers[shares[0][0]], positions, entries)
            return done
        gathered: dict[Receiver, tuple[list[Position], list[bytes]]] = {}
        for receiver, start, stop in shares:
            run = gathered.get(receiver)
            if run is None:
                run = gathered[receiver] = ([], [])
            run[0].extend(positions[start:stop])
            run[1].extend(entries[start:stop])
        if len({receiver.line for receiver in gathered}) < len(gathered):
            for receiver, start, stop in shares:
                self.deliver(self.consumers[receiver], positions[start:stop], entries[start:stop])
            return done
        for receiver, (run_positions, run_entries) in gathered.items():
            self.deliver(self.consumers[receiver], run_positions, run_entries)
        return done

    def _hand_out_batches(
        self, positions: list[Position], entries: list[bytes], sizes: list[int]
    ) -> int:
        """Share out whole entries; a partly acknowledged batch counts, and shows, only what is left
        of it."""
        masks = self.weigh(positions, sizes)
        shares = self._dispatcher.share(len(positions), sizes)
        for receiver, start, stop in shares:
            part = positions[start:stop]
            own = {each: masks[each] for each in part if each in masks}
            consumer = self.consumers[receiver]
            self.deliver(consumer, part, entries[start:stop], sizes[start:stop], own or None)
        return shares[-1][2] if shares else 0

    def _hand_out_messages(
        self, positions: list[Position], entries: list[bytes], sizes: list[int]
    ) -> int:
        """Divide batches message by message among consumers that want it so.

        A batch handed out only in part, for lack of room or at the end of a turn, stays at the
        front, and :attr:`divided` keeps which of its messages are out.
        """
        for index, (position, entry, size) in enumerate(
            zip(positions, entries, sizes, strict=True)
        ):
            free = self.free(position, size) if size > 1 else 1
            given: dict[Receiver, int] = {}
            while free and self.parts_left > 0:
                self.parts_left -= 1
                shares = self._dispatcher.share(1)
                if not shares:
                    break
                receiver = shares[0][0]
                part = free & -free
                if not receiver.message_level:
                    receiver.given(free.bit_count() - 1)
                    part = free
                given[receiver] = given.get(receiver, 0) | part
                free &= ~part
            for receiver, mask in given.items():
                consumer = self.consumers[receiver]
                if size == 1:
                    self.deliver(consumer, [position], [entry])
                    continue
                self.divide(position, mask, size)
                masks = {position: mask}
                self.deliver(
                    consumer, [position], [entry], [mask.bit_count()], masks, is_divided=True
                )
            if free:
                return index
        return len(positions)

    def weigh(self, positions: list[Position], sizes: list[int]) -> dict[Position, int]:
        """Return the messages left of partly acknowledged batches, and set their ``sizes`` to
        that."""
        masks: dict[Position, int] = {}
        for index, position in enumerate(positions):
            if sizes[index] > 1:
                free = self.free(position, sizes[index])
                if free.bit_count() != sizes[index]:
                    masks[position], sizes[index] = free, free.bit_count()
        return masks

    def free(self, position: Position, size: int) -> int:
        """Return the messages of a batch that are neither acknowledged nor in flight."""
        unacked = self._acks.unacked_mask(position)
        whole = (1 << size) - 1 if unacked is None else unacked
        return whole & ~self.divided.get(position, 0)

    def deliver(
        self,
        consumer: InFlight,
        positions: list[Position],
        entries: list[bytes],
        sizes: list[int] | None = None,
        masks: dict[Position, int] | None = None,
        *,
        is_divided: bool = False,
    ) -> None:
        """Deliver a run that the dispatcher has counted already."""
        run = self._run(consumer, positions, entries, sizes, masks, is_divided=is_divided)
        self._outbox.calls.append(Deliver(consumer, run))

    def _run(
        self,
        consumer: InFlight,
        positions: list[Position],
        entries: list[bytes],
        sizes: list[int] | None,
        masks: dict[Position, int] | None,
        *,
        is_divided: bool,
    ) -> Deliveries:
        """Put a run in flight at ``consumer``; the dispatcher has counted it already."""
        messages = len(positions) if sizes is None else sum(sizes)
        known = self.past
        redelivered = known.seen_before(positions)
        counts = known.counts.of(positions) if known.counts else None
        if self._state.byte_counter is not None:
            self._state.byte_counter.left(positions, entries)
        run = Deliveries(positions, entries, redelivered, counts or None, masks)
        self.delivered_total += messages
        self.furthest = max(self.furthest, positions[-1])
        if redelivered:
            self.redelivered_total += len(redelivered)
        consumer.took(run, messages, sizes, is_divided=is_divided)
        if not consumer.spec.acks:
            self.acknowledge_delivered(positions, masks if is_divided else None)
        return run
