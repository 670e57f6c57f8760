"""Dead-lettering: entries that leave a subscription without any consumer's acknowledgement.

The rule: a departing entry is in flight at an internal consumer, the *holder*, until it has reached
its target; so it is never in two places and never in none, whatever fails in between. Without a
dead-letter target it is acknowledged and gone. The entries on their way to the target are bounded,
so that a million messages that expire at once cost no more memory than a thousand.

:mod:`.limit_enforcer` decides which entries depart because they expired or are surplus.
"""

from collections.abc import Callable, Mapping, Sequence

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure, Fate, Limits
from arneb_core.subscription.departures.leaving import Leaving
from arneb_core.subscription.departures.outstanding import OUTSTANDING_MAX, Outstanding
from arneb_core.subscription.entries.acknowledgements import Acknowledgements
from arneb_core.subscription.state.effects import Depart, TryAgain
from arneb_core.subscription.state.in_flight import InFlight
from arneb_core.subscription.state.state import NO_LIMITS, SubscriptionState


class DeadLettering:
    """The departures of one subscription."""

    def __init__(
        self,
        state: SubscriptionState,
        acknowledgements: Acknowledgements,
        new_holder: Callable[[], InFlight],
    ) -> None:
        self._state = state
        self._acknowledgements = acknowledgements
        self._new_holder = new_holder
        self.has_target = False
        """There is a dead-letter target; without one, departures are acknowledged."""
        self._waiting: dict[Departure, Leaving] = {}
        self._parts: dict[Position, int] = {}
        """Waiting batches that depart only in part: the messages that do."""
        self._handed = Outstanding()
        self._target_failed = False
        """The target gets nothing until it is tried again."""

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        held = self._state.holder.entries_in_flight
        return f"<DeadLettering {held} on their way, {waiting} waiting>"

    def limit(self, limits: Limits, *, has_target: bool) -> None:
        """Apply these limits from now on."""
        self._state.limits = NO_LIMITS if limits == NO_LIMITS else limits
        self.has_target = has_target
        self._handed.entries_max = limits.departing_max or OUTSTANDING_MAX

    def forget(self) -> None:
        """A seek: entries on their way to the target are read from the log again."""
        self._state.holder.attached = False  # tells a target that tries again
        self._state.holder = self._new_holder()
        self._waiting.clear()
        self._state.is_departing = False
        self._parts.clear()
        self._handed.clear()

    def start_over(self) -> set[Position]:
        """Recover from a turn that failed half-way: entries that did not reach the target are read
        from the log again. Return those that did, and those about to be read for it."""
        holder = self._state.holder
        known = self._handed.positions | {
            each for waiting in self._waiting.values() for each in waiting
        }
        holder.whole &= known
        holder.masks = {
            position: mask for position, mask in holder.masks.items() if position in known
        }
        holder.sizes = {position: n for position, n in holder.sizes.items() if position in known}
        self._parts = {
            position: mask for position, mask in self._parts.items() if position in known
        }
        return holder.positions

    def room_for(self, entries: Sequence[bytes]) -> int:
        """Return how many of the leading ``entries`` may depart now."""
        return (
            self._target_room_for(entries)
            if self.has_target
            else min(len(entries), OUTSTANDING_MAX)
        )

    def _target_room_for(self, entries: Sequence[bytes]) -> int:
        return 0 if self._target_failed else self._handed.room_for(entries, self._state.holder)

    # What departs

    def _count(self, reason: Departure, messages: int) -> None:
        fate = Fate.DROPPED
        if self.has_target:
            fate = Fate.MOVED if self._state.limits.departing_max is None else Fate.KEPT
        self._state.count_departed(reason, messages, fate)

    def reject(
        self,
        reason: Departure,
        positions: Sequence[Position],
        sizes: Mapping[Position, int] | None = None,
    ) -> None:
        """Let entries that were in flight depart: read them, then hand them over.
        ``sizes``: how many messages of the batches among them were in flight."""
        self._count(reason, len(positions))
        if not self.has_target:
            self._acknowledgements.acknowledge(positions, None, elsewhere=False)
            return
        self._state.holder.whole.update(positions)
        if sizes:
            self._state.holder.sizes.update(sizes)
        self._read(reason, positions)

    def _read(self, reason: Departure, positions: Sequence[Position]) -> None:
        known = self._waiting.get(reason)
        if known is None:
            known = self._waiting[reason] = Leaving(self._state.replays)
            self._state.is_departing = True
        known.add(positions)
        self._state.wake()

    def reject_messages(self, reason: Departure, position: Position, mask: int) -> None:
        """As :meth:`reject`, for messages of a batch that was divided."""
        self._count(reason, mask.bit_count())
        if not self.has_target:
            self._acknowledgements.acknowledge_messages(position, mask, None, None, elsewhere=False)
            return
        self._state.holder.masks[position] = self._state.holder.masks.get(position, 0) | mask
        self._parts[position] = self._parts.get(position, 0) | mask
        self._read(reason, [position])

    def depart(self, reason: Departure, positions: list[Position], entries: list[bytes]) -> None:
        """Let entries taken from the front of a source depart."""
        self._count(reason, len(positions))
        self._state.departing(reason, positions, is_dead_lettered=self.has_target)
        if self._state.byte_counter is not None:
            self._state.byte_counter.left(positions, entries)
        if self._state.divided:
            positions, entries = self._depart_parts(reason, positions, entries)
        if not self.has_target:
            self._acknowledgements.acknowledge(positions, None, elsewhere=False)
        elif positions:
            self._state.holder.whole.update(positions)
            self._hand_over(reason, positions, entries)

    def _depart_parts(
        self, reason: Departure, positions: list[Position], entries: list[bytes]
    ) -> tuple[list[Position], list[bytes]]:
        """Let the messages of divided batches that nobody holds depart. Return the other
        entries."""
        acknowledgements = self._acknowledgements
        rest: list[Position] = []
        kept: list[bytes] = []
        for position, entry in zip(positions, entries, strict=True):
            if position not in self._state.divided:
                rest.append(position)
                kept.append(entry)
                continue
            free, size = acknowledgements.divide_rest(position)
            if not self.has_target:
                acknowledgements.acknowledge_messages(position, free, size, None, elsewhere=False)
            elif free:
                holder = self._state.holder
                holder.masks[position] = holder.masks.get(position, 0) | free
                self._hand_over(reason, [position], [entry], {position: free})
        return rest, kept

    def step(self) -> None:
        """Hand over what has been read meanwhile; what departed to a target that was removed since
        still goes there."""
        for reason, known in list(self._waiting.items()):
            while not self._target_failed:
                at_hand = known.peek()
                if at_hand is None:
                    break
                positions, entries = at_hand
                count = self._target_room_for(entries)
                if not count:
                    return  # the target's commits wake us
                positions, entries = positions[:count], entries[:count]
                known.take(positions)
                if self._parts:
                    positions, entries = self._hand_parts(reason, positions, entries)
                if positions:
                    self._hand_over(reason, positions, entries)
            if not known:
                del self._waiting[reason]
        self._state.is_departing = bool(self._waiting)

    def retry(self) -> None:
        """Try again to read what could not be read, and to hand over what was not taken."""
        self._target_failed = False
        for known in self._waiting.values():
            known.retry()
        if self._state.byte_counter is not None:
            self._state.byte_counter.fetch.retry()

    def _hand_over(
        self,
        reason: Departure,
        positions: list[Position],
        entries: list[bytes],
        parts: dict[Position, int] | None = None,
    ) -> None:
        self._handed.add(positions, entries)
        masks = parts or self._state.acks.masks_of(positions)
        run = Deliveries(positions, entries, masks=masks or None)
        if parts is None and self._state.log.has_batches:
            sizes = zip(positions, run.sizes(), strict=True)
            self._state.holder.sizes.update((each, size) for each, size in sizes if size != 1)
        self._state.outbox.calls.append(Depart(reason, run, self._state.holder, parts))

    def not_taken(self, depart: Depart) -> None:
        """Read again, a little later, what the target could not take."""
        if depart.holder is not self._state.holder:
            return  # a seek in between has decided what becomes of them
        positions = depart.run.positions
        self._target_failed = True
        self._handed.remove(positions)
        for position, mask in (depart.parts or {}).items():
            self._parts[position] = self._parts.get(position, 0) | mask
        self._state.outbox.put(TryAgain(is_read=False))
        self._read(depart.reason, positions)

    def _hand_parts(
        self,
        reason: Departure,
        positions: list[Position],
        entries: list[bytes],
    ) -> tuple[list[Position], list[bytes]]:
        """Hand over the batches that depart only in part; return the rest of the run."""
        rest: list[Position] = []
        kept: list[bytes] = []
        for position, entry in zip(positions, entries, strict=True):
            mask = self._parts.pop(position, 0)
            if mask:
                self._hand_over(reason, [position], [entry], {position: mask})
            else:
                rest.append(position)
                kept.append(entry)
        return rest, kept
