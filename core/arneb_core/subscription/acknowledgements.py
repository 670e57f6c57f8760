"""A settlement: what becomes of a subscription's entries when they are answered.

The rule: an answer (acknowledged, or given back) reaches every place that knows the entry,
which are the cursor, the replay set, what was read ahead, what is remembered of deliveries,
and other consumers. The replay set holds only entries that the backlog reader is past.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arneb_core.api.callbacks import Done
from arneb_core.api.entry import messages_in
from arneb_core.api.errors import StoreFailed
from arneb_core.api.limits import Departure
from arneb_core.api.position import Position
from arneb_core.cursor.acks import AckState
from arneb_core.cursor.cursor import Cursor
from arneb_core.log.log import Runs
from arneb_core.subscription.handout import HandOut, Past
from arneb_core.subscription.sources.backlog import BacklogReader
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet

if TYPE_CHECKING:
    from arneb_core.subscription.subscription import LogSubscription


@dataclass(frozen=True, slots=True)
class Held:
    """Entries in flight at one consumer."""

    whole: Mapping[Position, int]
    """With the messages that were delivered."""
    masks: Mapping[Position, int]
    """Of divided batches: the messages."""

    @property
    def messages(self) -> int:
        """Messages in flight."""
        return sum(self.whole.values()) + sum(map(int.bit_count, self.masks.values()))


@dataclass(frozen=True, slots=True)
class Taken:
    """What a unit acknowledged, with all that is needed to undo it."""

    era: int
    positions: list[Position]
    held: Held
    parts: Mapping[Position, int]
    """Divided batches: the messages that the unit acknowledged."""
    masks: Mapping[Position, int]
    """Of the other half-acknowledged batches: the messages that were unacknowledged."""
    sizes: Mapping[Position, int]
    """Of the divided batches."""
    past: Past


class Settlement:
    """Takes the answers of one subscription's consumers."""

    def __init__(
        self,
        subscription: "LogSubscription",
        replay: ReplaySet | PrioritySource,
        reader: BacklogReader,
        handout: HandOut,
    ) -> None:
        self._subscription = subscription
        self._log = subscription.topic.log
        self._cursor: Cursor = subscription.cursor
        self.acks: AckState = subscription.cursor.acks
        self.replay = replay
        self._reader = reader
        self._handout = handout
        self.era = 0
        """Counts seeks: an answer from before the last one is about another reading."""

    def __repr__(self) -> str:
        return f"<Settlement of {self._subscription!r}>"

    @property
    def divided(self) -> Mapping[Position, int]:
        """Batches that are out message by message: the messages in flight."""
        return self._handout.divided

    def receipt(self, done: Done | None) -> None:
        """The cursor may have changed; ``done`` is told when that is on disk."""
        self._subscription.receipt(done)

    # Acknowledging

    def acknowledge(
        self, positions: Sequence[Position], done: Done | None, *, elsewhere: bool
    ) -> None:
        """Entries are done with. ``elsewhere``: some were not in flight at who says so."""
        if positions:
            self._cursor.settle(positions)
            self._handout.settled(positions)
            if elsewhere:
                self._overtake(positions)
                self._take_away(positions)
        self.receipt(done)
        self._subscription.wake()

    def acknowledge_messages(
        self, place: Position, mask: int, size: int | None, done: Done | None, *, elsewhere: bool
    ) -> None:
        """Messages of a batch are done with; ``size`` is the batch's, if it is known.
        ``elsewhere``: nothing of it was in flight at who says so."""
        known = size or self._size_of(place)
        if known is not None:
            self._settle_messages(place, mask, known, elsewhere=elsewhere)
        elif self._log.ledgers.contains(place) and not self.acks.is_acknowledged(place):
            era = self.era
            self._log.read_cold(place, 1, lambda found: self._sized(place, mask, era, found, done))
            return
        self.receipt(done)
        self._subscription.wake()

    def acknowledge_until(self, place: Position) -> None:
        """Everything up to ``place`` is done with."""
        last = self._log.ledgers.last
        if last is None:
            return
        place = min(place, last)  # what is appended later was never meant
        self._handout.settled_through(place)
        self._cursor.settle_until(place)
        self.replay.discard_through(place)
        self._subscription.held_back.discard_through(place)
        if place > self._reader.after:
            self._reader.rewind(place)
        self._subscription.wake()

    def settle_delivered(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None
    ) -> None:
        """A consumer that does not acknowledge is being given these: that is the end of them.

        Whoever hands them out takes them out of the replay set and out of what was read.
        """
        if masks is None:
            self._cursor.settle(positions)
            self._handout.settled(positions)
        else:
            for place, mask in masks.items():
                if self._cursor.settle_messages(place, mask, self._handout.sizes[place]):
                    self._handout.settled([place])
                self._handout.undivide(place, mask)
        self.receipt(None)

    def _overtake(self, positions: Sequence[Position]) -> None:
        """What was acknowledged need not be delivered (again)."""
        self.replay.discard(positions)
        self._subscription.held_back.discard(positions)
        self._reader.reread(positions)

    def _take_away(self, positions: Sequence[Position]) -> None:
        """Entries were acknowledged by somebody who did not hold them: a consumer that came
        back after losing its connection. Whoever holds them does so no more."""
        for consumer in self._handout.consumers.values():
            consumer.discard(positions)

    def _settle_messages(self, place: Position, mask: int, size: int, *, elsewhere: bool) -> None:
        shared = elsewhere or place in self._handout.divided
        if self._cursor.settle_messages(place, mask, size):
            self._handout.settled([place])
            self._overtake([place])
            if shared:
                self._take_away([place])
        else:
            self._handout.undivide(place, mask)

    def _size_of(self, place: Position) -> int | None:
        """How many messages the entry holds, if that is known without reading the store."""
        size = self._handout.sizes.get(place)
        if size is not None:
            return size
        unacked = self.acks.unacked_mask(place)
        if unacked is not None:
            return unacked.bit_length()  # those behind are acknowledged, which is all we need
        hot = self._log.read_hot(place, 1)
        return None if hot is None else messages_in(hot[1][0])

    def _sized(
        self,
        place: Position,
        mask: int,
        era: int,
        found: Runs | StoreFailed,
        done: Done | None,
    ) -> None:
        """The entry was read for its size."""
        if isinstance(found, StoreFailed):
            # Not acknowledged, and whoever asked for a receipt must know.
            self._subscription.refuse(found, done)
            return
        if era == self.era and found and found[0][0] == place:
            self._settle_messages(place, mask, messages_in(found[0][1][0]), elsewhere=True)
        self.receipt(done)
        self._subscription.wake()

    # Giving back

    def returned(self, positions: Sequence[Position], *, count: bool) -> None:
        """Entries came back from a consumer: they are due again, in their places."""
        if positions:
            waiting = self.acks.only_unacked(positions)
            self._handout.returned(waiting, count=count)
            if count:
                waiting = self._within_limit(waiting)
            if self._handout.weights is not None:
                self._handout.weights.returned(waiting)
            self._subscription.departures.returned()
            # What lies behind is a batch handed out in part, where the reader still stands.
            held_back = self._subscription.held_back
            self.replay.add(held_back.returning(waiting, self._reader.after))
        self._subscription.wake()

    def _within_limit(self, positions: list[Position]) -> list[Position]:
        """Those that may be delivered once more; the others depart."""
        departures = self._subscription.departures
        limit = departures.limits.delivery_limit
        if limit is None:
            return positions
        over = [each for each in positions if self._handout.redelivery_count(each) > limit]
        if over:
            departures.reject(Departure.DELIVERY_LIMIT, over)
            gone = set(over)
            positions = [each for each in positions if each not in gone]
        return positions

    def exceeds_limit(self, place: Position, mask: int) -> bool:
        """Messages of a divided batch come back once too often, and depart."""
        departures = self._subscription.departures
        limit = departures.limits.delivery_limit
        if limit is None or self._handout.redelivery_count(place) < limit:
            return False
        departures.reject_messages(Departure.DELIVERY_LIMIT, place, mask)
        return True

    def divide_rest(self, place: Position) -> tuple[int, int]:
        """Put what nobody holds of a divided batch in flight: these messages, and its size."""
        size = self._handout.sizes[place]
        free = self._unacked(place, size) & ~self._handout.divided[place]
        self._handout.divide(place, free, size)
        return free, size

    def undivide(self, place: Position, mask: int) -> None:
        """Messages of a divided batch are no longer in flight."""
        self._handout.undivide(place, mask)

    # Units

    def about_to_take(self, positions: list[Position], held: Held) -> Taken:
        """A unit is about to acknowledge ``positions``, none of which is, for a consumer that
        has ``held`` of them in flight."""
        handout, acks = self._handout, self.acks
        parts: dict[Position, int] = {}
        sizes: dict[Position, int] = {}
        for place in positions:
            if place in handout.divided:
                sizes[place] = handout.sizes[place]
                unheld = self._unacked(place, sizes[place]) & ~handout.divided[place]
                parts[place] = held.masks.get(place, unheld)
        masks = acks.masks_of([place for place in positions if place not in parts])
        return Taken(self.era, positions, held, parts, masks, sizes, handout.past(positions))

    def untake(self, taken: Taken, held: Held) -> None:
        """The unit failed: nothing of it is acknowledged any more, and ``held`` is in flight
        again; the rest is ready."""
        masks = dict(taken.masks)
        for place, part in taken.parts.items():
            is_whole = self.acks.is_acknowledged(place)
            left = 0 if is_whole else self._unacked(place, taken.sizes[place])
            masks[place] = left | part
        self._cursor.restore(taken.positions, masks)
        self._handout.remember(taken.past)
        for place, mask in held.masks.items():
            self._handout.divide(place, mask, taken.sizes[place])
        ready = [
            place
            for place in taken.positions
            if place not in held.whole and place not in held.masks
        ]
        if ready:
            self._reader.reread(ready)
            self.returned(ready, count=False)

    def _unacked(self, place: Position, size: int) -> int:
        unacked = self.acks.unacked_mask(place)
        return (1 << size) - 1 if unacked is None else unacked
