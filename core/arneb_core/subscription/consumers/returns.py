"""Returns: entries that come back unacknowledged, or whose acknowledgement was undone.

The rule: a returned entry is ready again in its original place, unless it has exceeded the delivery
limit and departs; and a unit that fails leaves no trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.subscription.departures.dead_lettering import DeadLettering
from arneb_core.subscription.departures.limit_enforcer import LimitEnforcer
from arneb_core.subscription.entries.acknowledgements import Acknowledgements
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.ready import Ready
from arneb_core.subscription.state.in_flight import Held, InFlight
from arneb_core.subscription.state.past_deliveries import Past
from arneb_core.subscription.state.state import SubscriptionState


@dataclass(frozen=True, slots=True)
class Taken:
    """What a unit acknowledged, with everything needed to undo it."""

    era: int
    positions: list[Position]
    held: Held
    parts: Mapping[Position, int]
    """Divided batches: the messages that the unit acknowledged."""
    masks: Mapping[Position, int]
    """Other partly acknowledged batches: the messages that were unacknowledged."""
    sizes: Mapping[Position, int]
    """Divided batches: how many messages each has."""
    past: Past


@dataclass(slots=True, eq=False)
class Returns:
    """Takes back entries of one subscription."""

    _state: SubscriptionState
    _ready: Ready
    _delivery: Delivery
    _acknowledgements: Acknowledgements
    _dead_lettering: DeadLettering
    _enforcer: LimitEnforcer

    def __repr__(self) -> str:
        return f"<Returns to {self._ready!r}>"

    def release(
        self,
        holder: InFlight,
        positions: Sequence[Position],
        *,
        count: bool,
        masks: Mapping[Position, int] | None = None,
    ) -> None:
        """Take entries (with ``masks`` messages of divided batches) back from ``holder``."""
        # This queue gets its turn first, before others that share a full window.
        self._state.wake()
        back: list[Position] = []
        whole: list[Position] = []
        for position in positions:
            if position in holder.masks:
                held = holder.masks[position]
                wanted = held if masks is None else held & masks.get(position, held)
                if holder.remove_messages(position, wanted):
                    if count and self._exceeds_limit(position, wanted):
                        continue
                    self._delivery.undivide(position, wanted)
                    back.append(position)
            elif position in holder.whole:
                whole.append(position)
        holder.remove(whole)
        self.returned(back + whole, count=count)

    def returned(self, positions: Sequence[Position], *, count: bool) -> None:
        """Make entries that came back from a consumer ready again, in their places."""
        if positions:
            waiting = self._state.acks.only_unacked(positions)
            self._delivery.past.came_back(waiting, count=count)
            if count:
                waiting = self._within_limit(waiting)
            if self._state.byte_counter is not None:
                self._state.byte_counter.returned(waiting)
            self._enforcer.returned()
            self._ready.returned(waiting)
        self._state.wake()

    def _within_limit(self, positions: list[Position]) -> list[Position]:
        """Return those that may be delivered once more; the others depart."""
        limit = self._state.limits.delivery_limit
        if limit is None:
            return positions
        over = [each for each in positions if self._delivery.past.redelivery_count(each) > limit]
        if over:
            self._state.departing(
                Departure.DELIVERY_LIMIT, over, is_dead_lettered=self._dead_lettering.has_target
            )
            self._dead_lettering.reject(Departure.DELIVERY_LIMIT, over)
            gone = set(over)
            positions = [each for each in positions if each not in gone]
        return positions

    def _exceeds_limit(self, position: Position, mask: int) -> bool:
        """Let messages of a divided batch depart if they came back once too often."""
        limit = self._state.limits.delivery_limit
        if limit is None or self._delivery.past.redelivery_count(position) < limit:
            return False
        self._state.departing(
            Departure.DELIVERY_LIMIT, [position], is_dead_lettered=self._dead_lettering.has_target
        )
        self._dead_lettering.reject_messages(Departure.DELIVERY_LIMIT, position, mask)
        return True

    # Units

    def about_to_take(self, positions: list[Position], held: Held) -> Taken:
        """Note what undoes a unit that is about to acknowledge ``positions``, all unacknowledged,
        for a consumer that has ``held`` of them in flight."""
        state, unacked = self._state, self._acknowledgements.unacked
        parts: dict[Position, int] = {}
        sizes: dict[Position, int] = {}
        for position in positions:
            if position in state.divided:
                sizes[position] = state.sizes[position]
                unheld = unacked(position, sizes[position]) & ~state.divided[position]
                parts[position] = held.masks.get(position, unheld)
        masks = state.acks.masks_of([position for position in positions if position not in parts])
        past = self._delivery.past.of(positions)
        return Taken(state.era, positions, held, parts, masks, sizes, past)

    def untake(self, taken: Taken, held: Held) -> None:
        """Undo a failed unit: its entries are unacknowledged again, ``held`` is in flight again,
        and the rest is ready."""
        masks = dict(taken.masks)
        for position, part in taken.parts.items():
            is_whole = self._state.acks.is_acknowledged(position)
            left = (
                0 if is_whole else self._acknowledgements.unacked(position, taken.sizes[position])
            )
            masks[position] = left | part
        self._state.cursor.restore(taken.positions, masks)
        self._delivery.remember(taken.past)
        for position, mask in held.masks.items():
            self._delivery.divide(position, mask, taken.sizes[position])
        ready = [
            position
            for position in taken.positions
            if position not in held.whole and position not in held.masks
        ]
        self._state.cursor_changed()
        if ready:
            self._state.reader.reread(ready)
            self.returned(ready, count=False)
