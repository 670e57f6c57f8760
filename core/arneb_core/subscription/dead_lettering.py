"""Departures: entries that leave a subscription without any consumer's acknowledgement.

The rule: what departs is in flight at an internal consumer, the *estate*, until the heir has
found a place for it; so it is never at two places and never at none, whatever fails in between.
Without an heir it is acknowledged and gone. What is on its way to the heir is bounded, so that
a million messages that expire at once cost no more memory than a thousand.

Sources: RabbitMQ's TTL, queue length limit and dead-letter documentation (what departs, from
which end, and why).
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from arneb_core.api.callbacks import call
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import messages_in
from arneb_core.api.expiry import NEVER, count_alive, count_expired, expires_ms
from arneb_core.api.limits import DeadLetters, Departure, Limits
from arneb_core.api.position import BEFORE_ALL, Position
from arneb_core.subscription.dead_letter_holder import new_estate
from arneb_core.subscription.outstanding import OUTSTANDING_MAX, Outstanding
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.sources.replay import ReplaySet

if TYPE_CHECKING:
    from arneb_core.subscription.byte_counter import Weights
    from arneb_core.subscription.counters import Tally
    from arneb_core.subscription.keyed import Single
    from arneb_core.subscription.sources.backlog import BacklogReader
    from arneb_core.subscription.sources.due import DueSource
    from arneb_core.subscription.sources.priorities import PrioritySource
    from arneb_core.subscription.subscription import LogSubscription

    Source = ReplaySet | PrioritySource | DueSource | BacklogReader

LET_GO_MAX: Final = 512
"""Entries that depart before others get their turn."""

NO_LIMITS: Final = Limits()


class Departures:
    """What departs from one subscription."""

    tally: "Tally"
    weights: "Weights | None" = None

    def __init__(self, subscription: "LogSubscription") -> None:
        self._subscription = subscription
        self.limits = NO_LIMITS
        self.heir: DeadLetters | None = None
        self.estate = new_estate(subscription)
        self._waiting: dict[Departure, ReplaySet] = {}
        self._parts: dict[Position, int] = {}
        """Of the batches that wait, and of which only some messages depart: these."""
        self._handed = Outstanding()
        self.departed_total = 0
        self.judged_through = subscription.topic.log.ledgers.last or BEFORE_ALL
        """What stands up to here was there when consumers were looked at before."""
        self._has_returned = False
        self._heir_failed = False
        """It gets nothing until it is tried again."""

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"<Departures {self.estate.entries_in_flight} in the estate, {waiting} waiting>"

    @property
    def is_active(self) -> bool:
        """Something may have to depart though nobody consumes."""
        return self.limits is not NO_LIMITS or bool(self._waiting)

    def limit(self, limits: Limits, heir: DeadLetters | None) -> None:
        """From now on these rules hold."""
        self.limits, self.heir = NO_LIMITS if limits == NO_LIMITS else limits, heir

    def forget(self) -> None:
        """A seek: what was on its way to the heir is the log's again."""
        self.estate.attached = False  # so that an heir who tries again knows
        self.estate = new_estate(self._subscription)
        self._waiting.clear()
        self._parts.clear()
        self._handed.clear()

    def start_over(self) -> set[Position]:
        """A turn failed half-way: what was on its way to the heir and did not come there is the
        log's again. Returns what the heir has, or what is about to be read for it."""
        estate = self.estate
        known = self._handed.places | {
            Position(each) for waiting in self._waiting.values() for each in waiting.places
        }
        estate.whole &= known
        estate.masks = {place: mask for place, mask in estate.masks.items() if place in known}
        estate.sizes = {place: n for place, n in estate.sizes.items() if place in known}
        self._parts = {place: mask for place, mask in self._parts.items() if place in known}
        return {*estate.whole, *estate.masks}

    def _fitting(self, entries: Sequence[bytes]) -> int:
        """How many of ``entries``, from the first on, may go to the heir now."""
        if self.heir is None:
            return min(len(entries), OUTSTANDING_MAX)
        return 0 if self._heir_failed else self._handed.fitting(entries, self.estate)

    # What departs

    def reject(
        self,
        reason: Departure,
        positions: Sequence[Position],
        sizes: Mapping[Position, int] | None = None,
    ) -> None:
        """Entries that were in flight and are not ready: read them, then hand them over.
        ``sizes``: of the batches among them, how many messages were in flight."""
        if self.heir is None:
            self._subscription.settlement.acknowledge(positions, None, elsewhere=False)
            return
        self.estate.whole.update(positions)
        if sizes:
            self.estate.sizes.update(sizes)
        self._read(reason, positions)

    def _read(self, reason: Departure, positions: Sequence[Position]) -> None:
        known = self._waiting.get(reason)
        if known is None:
            log, wake = self._subscription.topic.log, self._subscription.wake
            known = ReplaySet(log, Fetch(log, wake, self._subscription.unreadable_by))
            self._waiting[reason] = known
        known.add(positions)
        self._subscription.wake()

    def reject_messages(self, reason: Departure, place: Position, mask: int) -> None:
        """As :meth:`reject`, for messages of a batch that was divided."""
        if self.heir is None:
            settlement = self._subscription.settlement
            settlement.acknowledge_messages(place, mask, None, None, elsewhere=False)
            return
        self.estate.masks[place] = self.estate.masks.get(place, 0) | mask
        self._parts[place] = self._parts.get(place, 0) | mask
        self._read(reason, [place])

    def depart(self, reason: Departure, positions: list[Position], entries: list[bytes]) -> None:
        """Entries taken from the front of what was ready."""
        self.departed_total += len(positions)
        if self.weights is not None:
            self.weights.left(positions, entries)
        settlement = self._subscription.settlement
        if settlement.divided:
            positions, entries = self._depart_parts(reason, positions, entries)
        if self.heir is None:
            settlement.acknowledge(positions, None, elsewhere=False)
        elif positions:
            self.estate.whole.update(positions)
            self._hand_over(self.heir, reason, positions, entries)

    def _depart_parts(
        self, reason: Departure, positions: list[Position], entries: list[bytes]
    ) -> tuple[list[Position], list[bytes]]:
        """Of divided batches only what nobody holds departs. Returns the other entries."""
        settlement = self._subscription.settlement
        rest: list[Position] = []
        kept: list[bytes] = []
        for place, entry in zip(positions, entries, strict=True):
            if place not in settlement.divided:
                rest.append(place)
                kept.append(entry)
                continue
            free, size = settlement.divide_rest(place)
            if self.heir is None:
                settlement.acknowledge_messages(place, free, size, None, elsewhere=False)
            elif free:
                self.estate.masks[place] = self.estate.masks.get(place, 0) | free
                self._hand_over(self.heir, reason, [place], [entry], {place: free})
        return rest, kept

    def step(self) -> None:
        """Hand over what has been read meanwhile."""
        for reason, known in list(self._waiting.items()):
            while self.heir is not None and not self._heir_failed:
                at_hand = known.peek()
                if at_hand is None:
                    break
                positions, entries = at_hand
                count = self._fitting(entries)
                if not count:
                    return  # the heir's commits wake us
                positions, entries = positions[:count], entries[:count]
                known.take(positions)
                self.departed_total += count
                if self._parts:
                    positions, entries = self._hand_parts(self.heir, reason, positions, entries)
                if positions:
                    self._hand_over(self.heir, reason, positions, entries)
            if not known:
                del self._waiting[reason]

    def let_go(self, next_source: "Callable[[], Source]") -> int:
        """Let what has expired or is too much go; how many entries those were."""
        subscription = self._subscription
        expiring = subscription.is_expiring
        total = 0
        while total < LET_GO_MAX and not subscription.is_fenced:
            source = next_source()
            gone: int | None = 0
            if expiring:
                gone = self.take_expired(source)
            if not gone:
                gone = self.take_excess(source)
            if gone is None and not source:
                continue  # the log had none of them any more
            if not gone:
                break
            total += gone
        self.judged_through = subscription.topic.log.ledgers.last or BEFORE_ALL
        return total

    def retry(self) -> None:
        """Try once more to read what could not be read, and what the heir could not take."""
        self._heir_failed = False
        for known in self._waiting.values():
            known.fetch.retry()
        if self.weights is not None:
            self.weights.fetch.retry()

    # When entries depart by themselves

    def must_go(self, entries: Sequence[bytes]) -> bool:
        """The first of ``entries``, which stand at the front, has to depart."""
        if max(self._surplus()) > 0:
            return True
        return self._subscription.is_expiring and self.count_expired(entries[:1]) > 0

    def staying(self, ready: int) -> int:
        """How many of so many ready messages stay: what is too much is as good as gone."""
        if self.limits.message_ttl_ms == 0:
            return 0
        most = self.limits.ready_messages_max
        return ready if most is None else min(ready, most)

    def count_expired(self, entries: Sequence[bytes]) -> int:
        """How many of ``entries``, from the first on, have expired."""
        now_ms = self._subscription.topic.engine.now_ms()
        return count_expired(entries, self.limits.message_ttl_ms, now_ms)

    def living(
        self, positions: list[Position], entries: list[bytes], *, may_be_new: bool
    ) -> tuple[list[Position], list[bytes]]:
        """The first part of a run, as far as it may be delivered; nothing when what stands at the
        front has expired. Either all of it was there before or, if it may be new, nothing was."""
        cut = bisect_right(positions, self.judged_through)
        if 0 < cut < len(positions):
            positions, entries = positions[:cut], entries[:cut]
        alive = self.count_alive(entries, is_new=may_be_new and not cut)
        return positions[:alive], entries[:alive]

    def count_alive(self, entries: Sequence[bytes], *, is_new: bool) -> int:
        """How many of ``entries``, from the first on, may be delivered. ``is_new``: nobody had
        them before."""
        now_ms = self._subscription.topic.engine.now_ms()
        return count_alive(entries, self.limits.message_ttl_ms, now_ms, is_new=is_new)

    def take_expired(self, source: "Source | Single") -> int | None:
        """Let what has expired at the front of ``source`` depart; how many entries those were, or
        None when the front is not at hand. Says when the next one expires."""
        at_hand = source.peek()
        if at_hand is None:
            return None
        positions, entries = at_hand
        expired = self.count_expired(entries)
        count = self._fitting(entries[:expired]) if expired else 0
        if expired and not count:
            return None
        if count:
            self._take(source, Departure.EXPIRED, positions[:count], entries[:count])
        elif (when_ms := expires_ms(entries[0], self.limits.message_ttl_ms)) < NEVER:
            self._subscription.topic.engine.wake_at(self._subscription, when_ms)
        return count

    def returned(self) -> None:
        """Entries came back: they are within the limits before anybody gets them again."""
        limits = self.limits
        if limits.ready_messages_max is not None or limits.ready_bytes_max is not None:
            self._has_returned = True

    def drop_returned(self, next_source: "Callable[[], Source]") -> bool:
        """Let what is too much go before anything is handed out, if something came back; what
        has come only now does not count yet. False while there is more to let go."""
        left = LET_GO_MAX
        while self._has_returned and left > 0:
            source = next_source()
            gone = self.take_excess(source, only_before=True)
            if gone is None and isinstance(source, ReplaySet) and not source:
                continue  # the log had none of them any more
            if gone is None and (source.is_sorting or not source.fetch.is_free or source.peek()):
                return False
            gone = gone or 0  # nothing is there, whatever the tally says
            self._has_returned = gone > 0
            left -= gone
        return not self._has_returned

    def take_excess(self, source: "Source", *, only_before: bool = False) -> int | None:
        """Let what is too much depart from the front of ``source``, as :meth:`take_expired`.
        ``only_before``: what has come since consumers were last looked at is not ready yet."""
        messages, size = self._surplus(only_before=only_before)
        if messages <= 0 and size <= 0:
            return 0
        at_hand = source.peek()
        if at_hand is None:
            return None
        positions, entries = at_hand
        count, fitting = 0, self._fitting(entries)
        while (messages > 0 or size > 0) and count < fitting:
            messages -= messages_in(entries[count])
            size -= 0 if self.weights is None else self.weights.size_of(entries[count])
            count += 1
        if not count:
            return None
        self._take(source, Departure.MAX_LENGTH, positions[:count], entries[:count])
        return count

    def _surplus(self, *, only_before: bool = False) -> tuple[int, int]:
        """Messages and bytes that are ready and too many."""
        limits, messages, size = self.limits, 0, 0
        if limits.ready_messages_max is not None:
            messages = self.tally.ready_messages - limits.ready_messages_max
            if only_before and messages > 0:
                ledgers = self._subscription.topic.log.ledgers
                messages -= ledgers.count_after(self.judged_through)
        if limits.ready_bytes_max is not None and self.weights is not None:
            ready = self.weights.ready_before if only_before else self.weights.ready
            size = ready - limits.ready_bytes_max
        return messages, size

    def _take(
        self,
        source: "Source | Single",
        reason: Departure,
        positions: list[Position],
        entries: list[bytes],
    ) -> None:
        source.take(positions)
        self.depart(reason, positions, entries)

    def _hand_over(
        self,
        heir: DeadLetters,
        reason: Departure,
        positions: list[Position],
        entries: list[bytes],
        parts: dict[Position, int] | None = None,
    ) -> None:
        self._handed.add(positions, entries)
        masks = parts or self._subscription.acks.masks_of(positions)
        run = Deliveries(positions, entries, masks=masks or None)
        if parts is None and self._subscription.topic.log.has_batches:
            sizes = {
                place: masks[place].bit_count() if place in masks else messages_in(entry)
                for place, entry in zip(positions, entries, strict=True)
            }
            self.estate.sizes.update((each, size) for each, size in sizes.items() if size != 1)
        if not call(heir.departed, reason, run, self.estate):
            self._not_taken(reason, positions, parts)

    def _not_taken(
        self, reason: Departure, positions: list[Position], parts: dict[Position, int] | None
    ) -> None:
        """The heir could not take these: they are read for it once more, a little later."""
        self._heir_failed = True
        self.departed_total -= len(positions)
        self._handed.remove(positions)
        for place, mask in (parts or {}).items():
            self._parts[place] = self._parts.get(place, 0) | mask
        self._subscription.topic.engine.try_again(self._subscription)
        self._read(reason, positions)

    def _hand_parts(
        self,
        heir: DeadLetters,
        reason: Departure,
        positions: list[Position],
        entries: list[bytes],
    ) -> tuple[list[Position], list[bytes]]:
        """Hand over the batches of which only some messages depart; the rest of the run."""
        rest: list[Position] = []
        kept: list[bytes] = []
        for place, entry in zip(positions, entries, strict=True):
            mask = self._parts.pop(place, 0)
            if mask:
                self._hand_over(heir, reason, [place], [entry], {place: mask})
            else:
                rest.append(place)
                kept.append(entry)
        return rest, kept
