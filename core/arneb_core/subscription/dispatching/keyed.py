"""Delivery by key: how a Key_Shared subscription finds what it may deliver.

The rule: an entry that waits for its key's turn is in the replay set, like everything else that is
ready and was read; the dispatcher only knows its slot. So no other part has to know of keys, and an
entry that leaves the replay set (acknowledged, departed, purged) waits no more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import Position
from arneb_core.dispatch import KeySharedDispatcher, Receiver
from arneb_core.dispatch.groups import groups_of
from arneb_core.dispatch.selector import key_hashes
from arneb_core.subscription.departures.limit_enforcer import LimitEnforcer
from arneb_core.subscription.entries.delivery import DELIVERIES_MAX, Delivery
from arneb_core.subscription.entries.ready import Ready, Source
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state.in_flight import InFlight
from arneb_core.subscription.state.state import SubscriptionState

LOOK_ENTRIES_MAX: Final = 256
"""Replays with unknown slots that are looked at in one go."""

HELD_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of waiting entries kept in memory; others are read again when it is their turn."""


class Single:
    """One replay as a source, wherever it is in its set."""

    def __init__(self, replay: ReplaySet, position: Position, entry: bytes) -> None:
        self._replay = replay
        self._at_hand = [position], [entry]

    def __repr__(self) -> str:
        return f"<Single {self._at_hand[0]} of {self._replay!r}>"

    def peek(self) -> tuple[list[Position], list[bytes]]:
        """Return that replay alone."""
        return self._at_hand

    def take(self, positions: list[Position]) -> None:
        """Take it out of its set."""
        self._replay.take(positions)


class Portion:
    """Entries for one receiver, in log order."""

    __slots__ = ("entries", "positions", "slots")

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.entries: list[bytes] = []
        self.slots: list[int] = []

    def __repr__(self) -> str:
        return f"<Portion of {len(self.positions)} entries>"

    def add(self, position: Position, entry: bytes, slot: int) -> None:
        self.positions.append(position)
        self.entries.append(entry)
        self.slots.append(slot)


@dataclass(slots=True, eq=False)
class KeyedDelivery:
    """Hands out the entries of a Key_Shared subscription."""

    _state: SubscriptionState
    _ready: Ready
    _delivery: Delivery
    _enforcer: LimitEnforcer
    _replay: ReplaySet
    dispatcher: KeySharedDispatcher
    _held: dict[Position, bytes] = field(default_factory=dict, init=False)
    _held_bytes: int = field(default=0, init=False)
    _is_reading: bool = field(default=False, init=False)
    """A replay that is due was not at hand."""

    def __repr__(self) -> str:
        return f"<KeyedDelivery {self.dispatcher!r}, {len(self._held)} held>"

    def hand_out(self) -> int:
        """Take one step; return how many entries it dealt with, 0 if there was nothing to do.

        Replays go before anything new here too, so nothing new goes out while one that is due is
        being read."""
        if not self._sort_returned():
            return 0
        handed_out = self._hand_out_due()
        return handed_out if handed_out or self._is_reading else self._hand_out_new()

    def drop_cached(self) -> None:
        """Drop the entries held; they are read again when they are needed."""
        self._held.clear()
        self._count(-self._held_bytes)

    # What came back

    def _sort_returned(self) -> bool:
        """Have every replay wait behind its key; return False while one with an unknown slot is
        being read. Such entries are delayed, or were there before the type was Key_Shared."""
        dispatcher, returned = self.dispatcher, self._replay.positions
        if not (returned or dispatcher.waiting.positions):
            dispatcher.wait_again(returned)
            return True
        if len(dispatcher.waiting.positions - returned):
            dispatcher.waiting.keep_only(returned)
            self._forget_answered()
        unknown = returned - dispatcher.waiting.positions
        dispatcher.wait_again(unknown)
        unknown -= dispatcher.waiting.positions
        while unknown and dispatcher.may_look_ahead:
            positions: list[Position] = []
            entries: list[bytes] = []
            for number in unknown[:LOOK_ENTRIES_MAX]:
                entry = self._replay.find(Position(number))
                if entry is None:
                    break
                positions.append(Position(number))
                entries.append(entry)
            if not positions:
                if Position(unknown[0]) in self._replay.positions:
                    return False
                unknown &= self._replay.positions
                continue
            slots = dispatcher.slots(key_hashes(positions, entries))
            dispatcher.wait(positions, slots, self._groups_of(positions, entries, slots))
            unknown -= dispatcher.waiting.positions
        return True

    # What waits

    def _hand_out_due(self) -> int:
        self._is_reading = False
        due = self.dispatcher.due_receivers
        return sum(map(self._hand_out_due_to, due[:DELIVERIES_MAX]))

    def _hand_out_due_to(self, receiver: Receiver) -> int:
        dispatcher, portion = self.dispatcher, Portion()
        room, gone = receiver.room, 0
        while room > 0 and (position := dispatcher.next_due(receiver)) is not None:
            entry = self._held.get(position) or self._replay.find(position)
            if entry is None:
                if position in self._replay.positions:
                    self._is_reading = True
                    break
                dispatcher.take_due(receiver)  # the log no longer has it
                continue
            if self._state.is_expiring and not self._may_be_delivered(position, entry):
                single = Single(self._replay, position, entry)
                if not self._enforcer.take_expired(single):
                    break  # the dead-letter target has no room
                dispatcher.take_due(receiver)
                gone += 1
                continue
            _, slot = dispatcher.take_due(receiver)
            portion.add(position, entry, slot)
            room -= self._cost(position, entry)
        if portion.positions:
            self._replay.take(portion.positions)
            self._forget(portion.positions)
            self._give(receiver, portion, is_counted=False)
        return gone + len(portion.positions)

    def _may_be_delivered(self, position: Position, entry: bytes) -> bool:
        enforcer = self._enforcer
        is_new = position > enforcer.judged_through
        return bool(enforcer.count_alive([entry], is_new=is_new))

    # What is new

    def _hand_out_new(self) -> int:
        dispatcher = self.dispatcher
        if not dispatcher.may_look_ahead:
            return 0
        source = self._ready.after_replays()
        at_hand = source.peek()
        if at_hand is None:
            return 0
        positions, entries = at_hand
        if self._state.is_expiring:
            enforcer = self._enforcer
            positions, entries = enforcer.living(positions, entries, may_be_new=True)
            if not positions:
                return enforcer.take_expired(source, spares_new=True) or 0
        if len(positions) > DELIVERIES_MAX and self._delivery.is_crowded:
            positions, entries = positions[:DELIVERIES_MAX], entries[:DELIVERIES_MAX]
        return self._share(source, positions, entries)

    def _share(self, source: Source, positions: list[Position], entries: list[bytes]) -> int:
        dispatcher = self.dispatcher
        slots = dispatcher.slots(key_hashes(positions, entries))
        costs = None
        if self._state.log.has_batches:
            costs = list(map(self._cost, positions, entries))
        groups = self._groups_of(positions, entries, slots)
        decision = dispatcher.share(slots, costs, groups)
        if not decision.looked_at:
            return 0
        waiting = [positions[index] for index in decision.waiting]
        for index in decision.waiting:
            self._hold(positions[index], entries[index])
        source.take(positions[: decision.looked_at])
        self._replay.add(waiting)
        dispatcher.wait(
            waiting,
            [slots[index] for index in decision.waiting],
            None if groups is None else [groups[index] for index in decision.waiting],
        )
        for receiver, indexes in decision.given.items():
            portion = Portion()
            portion.positions = [positions[index] for index in indexes]
            portion.entries = [entries[index] for index in indexes]
            portion.slots = [slots[index] for index in indexes]
            self._give(receiver, portion, is_counted=True)
        return decision.looked_at

    def _give(self, receiver: Receiver, portion: Portion, *, is_counted: bool) -> None:
        consumer = self._state.consumers[receiver]
        if consumer.spec.acks:
            groups = self._groups_of(portion.positions, portion.entries, portion.slots)
            self.dispatcher.took(receiver, portion.positions, portion.slots, groups)
        has_batches = self._state.log.has_batches
        if not is_counted:
            costs = map(self._cost, portion.positions, portion.entries)
            receiver.given(sum(costs) if has_batches else len(portion.positions))
        sizes = list(map(messages_in, portion.entries)) if has_batches else []
        if max(sizes, default=1) == 1:
            self._delivery.deliver(consumer, portion.positions, portion.entries)
        elif self._state.divided:
            for position, entry, size in zip(
                portion.positions, portion.entries, sizes, strict=True
            ):
                self._deliver_rest(consumer, position, entry, size)
        else:
            masks = self._delivery.weigh(portion.positions, sizes)
            self._delivery.deliver(
                consumer, portion.positions, portion.entries, sizes, masks or None
            )

    def _groups_of(
        self, positions: list[Position], entries: list[bytes], slots: list[int]
    ) -> list[int] | None:
        """Return the groups of entries, None when there are none; a log that never had groups pays
        nothing."""
        if min(positions) > self._state.log.groups_through:
            return None
        return groups_of(entries, slots)

    def _deliver_rest(
        self, consumer: InFlight, position: Position, entry: bytes, size: int
    ) -> None:
        """Deliver the free messages of an entry: parts of batches that were divided before the type
        was Key_Shared may be in flight elsewhere."""
        delivery = self._delivery
        free = delivery.free(position, size) if size > 1 else 1
        if size == 1:
            delivery.deliver(consumer, [position], [entry])
        elif free:
            delivery.divide(position, free, size)
            count = free.bit_count()
            delivery.deliver(
                consumer, [position], [entry], [count], {position: free}, is_divided=True
            )

    def _cost(self, position: Position, entry: bytes) -> int:
        """Return how many messages of the entry are neither acknowledged nor in flight."""
        size = messages_in(entry)
        return 1 if size == 1 else self._delivery.free(position, size).bit_count()

    # Entries in memory

    def _hold(self, position: Position, entry: bytes) -> None:
        is_spent = self._state.ahead.is_spent
        if self._held_bytes + len(entry) <= HELD_BYTES_MAX and not is_spent:
            self._held[position] = entry
            self._count(len(entry))

    def _forget(self, positions: Iterable[Position]) -> None:
        for position in positions:
            entry = self._held.pop(position, None)
            if entry is not None:
                self._count(-len(entry))

    def _forget_answered(self) -> None:
        positions = self._replay.positions
        self._forget([position for position in self._held if position not in positions])

    def _count(self, size: int) -> None:
        self._held_bytes += size
        self._state.ahead.bytes += size
