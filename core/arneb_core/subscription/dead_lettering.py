"""Dead-lettering: entries that leave a subscription without any consumer's acknowledgement.

The rule: what departs is in flight at an internal consumer, the *holder*, until it has found a
place elsewhere; so it is never at two places and never at none, whatever fails in between. Without
a target for dead letters it is acknowledged and gone. What is on its way to the target is bounded,
so that a million messages that expire at once cost no more memory than a thousand.

Sources: RabbitMQ's TTL, queue length limit and dead-letter documentation (what departs, from
which end, and why).
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import messages_in
from arneb_core.api.expiry import NEVER, count_alive, count_expired, expires_ms
from arneb_core.api.limits import Departure, Limits
from arneb_core.api.position import BEFORE_ALL, Position
from arneb_core.subscription.acknowledgements import Acknowledgements
from arneb_core.subscription.counters import Counters
from arneb_core.subscription.effects import Depart, TryAgain, WakeAt
from arneb_core.subscription.in_flight import InFlight
from arneb_core.subscription.outstanding import OUTSTANDING_MAX, Outstanding
from arneb_core.subscription.ready import Ready, Source
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state import NO_LIMITS, SubscriptionState

LET_GO_MAX: Final = 512
"""Entries that depart before others get their turn."""


class Front(Protocol):
    """Where something that may depart stands at the front."""

    def peek(self) -> tuple[list[Position], list[bytes]] | None: ...

    def take(self, positions: list[Position]) -> None: ...


class DeadLettering:
    """What departs from one subscription."""

    def __init__(
        self,
        state: SubscriptionState,
        ready: Ready,
        acknowledgements: Acknowledgements,
        counters: Counters,
        new_holder: Callable[[], InFlight],
    ) -> None:
        self._state = state
        self._ready = ready
        self._acknowledgements = acknowledgements
        self._counters = counters
        self._new_holder = new_holder
        self.has_target = False
        """Somebody gets the dead letters; else they are acknowledged."""
        self._waiting: dict[Departure, ReplaySet] = {}
        self._parts: dict[Position, int] = {}
        """Of the batches that wait, and of which only some messages depart: these."""
        self._handed = Outstanding()
        self.judged_through = state.log.ledgers.last or BEFORE_ALL
        """What stands up to here was there when consumers were looked at before."""
        self._has_returned = False
        self._target_failed = False
        """It gets nothing until it is tried again."""

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        held = self._state.holder.entries_in_flight
        return f"<DeadLettering {held} on their way, {waiting} waiting>"

    def limit(self, limits: Limits, *, has_target: bool) -> None:
        """From now on these rules hold."""
        self._state.limits = NO_LIMITS if limits == NO_LIMITS else limits
        self.has_target = has_target

    def forget(self) -> None:
        """A seek: what was on its way to the target is the log's again."""
        self._state.holder.attached = False  # so that a target that tries again knows
        self._state.holder = self._new_holder()
        self._waiting.clear()
        self._state.is_departing = False
        self._parts.clear()
        self._handed.clear()

    def start_over(self) -> set[Position]:
        """A turn failed half-way: what was on its way to the target and did not come there is the
        log's again. Returns what the target has, or what is about to be read for it."""
        holder = self._state.holder
        known = self._handed.places | {
            Position(each) for waiting in self._waiting.values() for each in waiting.places
        }
        holder.whole &= known
        holder.masks = {place: mask for place, mask in holder.masks.items() if place in known}
        holder.sizes = {place: n for place, n in holder.sizes.items() if place in known}
        self._parts = {place: mask for place, mask in self._parts.items() if place in known}
        return holder.places

    def _fitting(self, entries: Sequence[bytes]) -> int:
        """How many of ``entries``, from the first on, may go to the target now."""
        if not self.has_target:
            return min(len(entries), OUTSTANDING_MAX)
        return 0 if self._target_failed else self._handed.fitting(entries, self._state.holder)

    # What departs

    def reject(
        self,
        reason: Departure,
        positions: Sequence[Position],
        sizes: Mapping[Position, int] | None = None,
    ) -> None:
        """Entries that were in flight and are not ready: read them, then hand them over.
        ``sizes``: of the batches among them, how many messages were in flight."""
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
            known = self._waiting[reason] = self._state.replays()
            self._state.is_departing = True
        known.add(positions)
        self._state.wake()

    def reject_messages(self, reason: Departure, place: Position, mask: int) -> None:
        """As :meth:`reject`, for messages of a batch that was divided."""
        if not self.has_target:
            self._acknowledgements.acknowledge_messages(place, mask, None, None, elsewhere=False)
            return
        self._state.holder.masks[place] = self._state.holder.masks.get(place, 0) | mask
        self._parts[place] = self._parts.get(place, 0) | mask
        self._read(reason, [place])

    def depart(self, reason: Departure, positions: list[Position], entries: list[bytes]) -> None:
        """Entries taken from the front of what was ready."""
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
        """Of divided batches only what nobody holds departs. Returns the other entries."""
        acknowledgements = self._acknowledgements
        rest: list[Position] = []
        kept: list[bytes] = []
        for place, entry in zip(positions, entries, strict=True):
            if place not in self._state.divided:
                rest.append(place)
                kept.append(entry)
                continue
            free, size = acknowledgements.divide_rest(place)
            if not self.has_target:
                acknowledgements.acknowledge_messages(place, free, size, None, elsewhere=False)
            elif free:
                holder = self._state.holder
                holder.masks[place] = holder.masks.get(place, 0) | free
                self._hand_over(reason, [place], [entry], {place: free})
        return rest, kept

    def step(self) -> None:
        """Hand over what has been read meanwhile."""
        for reason, known in list(self._waiting.items()):
            while self.has_target and not self._target_failed:
                at_hand = known.peek()
                if at_hand is None:
                    break
                positions, entries = at_hand
                count = self._fitting(entries)
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

    def let_go(self, *, has_room: bool) -> int:
        """Let what has expired or is too much go; how many entries those were. ``has_room``: some
        consumer would take more."""
        state = self._state
        expiring = state.is_expiring
        total = 0
        while total < LET_GO_MAX and not state.is_fenced:
            source = self._ready.first()
            gone: int | None = 0
            if expiring:
                gone = self.take_expired(source, spares_new=has_room and source is state.reader)
            if not gone:
                gone = self.take_excess(source)
            if gone is None and not source:
                continue  # the log had none of them any more
            if not gone:
                break
            total += gone
        last = state.log.ledgers.last or BEFORE_ALL
        if has_room and self._ready.first() is state.reader:
            last = max(self.judged_through, state.reader.after)  # it waits for what is being read
        self.judged_through = last
        return total

    def retry(self) -> None:
        """Try once more to read what could not be read, and what the target could not take."""
        self._target_failed = False
        for known in self._waiting.values():
            known.fetch.retry()
        if self._state.byte_counter is not None:
            self._state.byte_counter.fetch.retry()

    # When entries depart by themselves

    def must_go(self, entries: Sequence[bytes]) -> bool:
        """The first of ``entries``, which stand at the front, has to depart."""
        if max(self._surplus()) > 0:
            return True
        return self._state.is_expiring and self.count_expired(entries[:1]) > 0

    def staying(self, ready: int) -> int:
        """How many of so many ready messages stay: what is too much is as good as gone."""
        if self._state.limits.message_ttl_ms == 0:
            return 0
        most = self._state.limits.ready_messages_max
        return ready if most is None else min(ready, most)

    def count_expired(self, entries: Sequence[bytes], *, is_new: bool = False) -> int:
        """How many of ``entries``, from the first on, have expired; see :func:`.count_expired`."""
        state = self._state
        return count_expired(entries, state.limits.message_ttl_ms, state.now_ms(), is_new=is_new)

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
        state = self._state
        return count_alive(entries, state.limits.message_ttl_ms, state.now_ms(), is_new=is_new)

    def take_expired(self, source: Front, *, spares_new: bool = False) -> int | None:
        """Let what has expired at the front of ``source`` depart; how many entries those were, or
        None when the front is not at hand. Says when the next one expires. ``spares_new``: what
        lives no time is still for consumers if it has come since they were looked at."""
        at_hand = source.peek()
        if at_hand is None:
            return None
        positions, entries = at_hand
        cut = bisect_right(positions, self.judged_through) if spares_new else -1
        if cut > 0:
            positions, entries = positions[:cut], entries[:cut]
        expired = self.count_expired(entries, is_new=not cut)
        count = self._fitting(entries[:expired]) if expired else 0
        if expired and not count:
            return None
        if count:
            self._take(source, Departure.EXPIRED, positions[:count], entries[:count])
        elif (when_ms := expires_ms(entries[0], self._state.limits.message_ttl_ms)) < NEVER:
            self._state.outbox.put(WakeAt(when_ms))
        return count

    def returned(self) -> None:
        """Entries came back: they are within the limits before anybody gets them again."""
        limits = self._state.limits
        if limits.ready_messages_max is not None or limits.ready_bytes_max is not None:
            self._has_returned = True

    def drop_returned(self) -> bool:
        """Let what is too much go before anything is handed out, if something came back; what
        has come only now does not count yet. False while there is more to let go."""
        left = LET_GO_MAX
        while self._has_returned and left > 0:
            source = self._ready.first()
            gone = self.take_excess(source, only_before=True)
            if gone is None and isinstance(source, ReplaySet) and not source:
                continue  # the log had none of them any more
            if gone is None and (source.is_sorting or not source.fetch.is_free or source.peek()):
                return False
            gone = gone or 0  # nothing is there, whatever the counters say
            self._has_returned = gone > 0
            left -= gone
        return not self._has_returned

    def take_excess(self, source: Source, *, only_before: bool = False) -> int | None:
        """Let what is too much depart from the front of ``source``, as :meth:`take_expired`.
        ``only_before``: what has come since consumers were last looked at is not ready yet."""
        messages, size = self._surplus(only_before=only_before)
        if messages <= 0 and size <= 0:
            return 0
        at_hand = source.peek()
        if at_hand is None:
            return None
        positions, entries = at_hand
        count, fitting, counter = 0, self._fitting(entries), self._state.byte_counter
        while (messages > 0 or size > 0) and count < fitting:
            messages -= messages_in(entries[count])
            size -= 0 if counter is None else counter.size_of(entries[count])
            count += 1
        if not count:
            return None
        self._take(source, Departure.MAX_LENGTH, positions[:count], entries[:count])
        return count

    def _surplus(self, *, only_before: bool = False) -> tuple[int, int]:
        """Messages and bytes that are ready and too many."""
        limits, messages, size = self._state.limits, 0, 0
        if limits.ready_messages_max is not None:
            messages = self._counters.ready_messages - limits.ready_messages_max
            if only_before and messages > 0:
                messages -= self._state.log.ledgers.count_after(self.judged_through)
        counter = self._state.byte_counter
        if limits.ready_bytes_max is not None and counter is not None:
            ready = counter.ready_before if only_before else counter.ready
            size = ready - limits.ready_bytes_max
        return messages, size

    def _take(
        self,
        source: Front,
        reason: Departure,
        positions: list[Position],
        entries: list[bytes],
    ) -> None:
        source.take(positions)
        self.depart(reason, positions, entries)

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
            sizes = {
                place: masks[place].bit_count() if place in masks else messages_in(entry)
                for place, entry in zip(positions, entries, strict=True)
            }
            self._state.holder.sizes.update(
                (each, size) for each, size in sizes.items() if size != 1
            )
        self._state.outbox.calls.append(Depart(reason, run, self._state.holder, parts))

    def not_taken(self, depart: Depart) -> None:
        """The target could not take these: they are read for it once more, a little later."""
        if depart.holder is not self._state.holder:
            return  # a seek in between has decided what becomes of them
        positions = depart.run.positions
        self._target_failed = True
        self._handed.remove(positions)
        for place, mask in (depart.parts or {}).items():
            self._parts[place] = self._parts.get(place, 0) | mask
        self._state.outbox.put(TryAgain(is_read=False))
        self._read(depart.reason, positions)

    def _hand_parts(
        self,
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
                self._hand_over(reason, [place], [entry], {place: mask})
            else:
                rest.append(place)
                kept.append(entry)
        return rest, kept
