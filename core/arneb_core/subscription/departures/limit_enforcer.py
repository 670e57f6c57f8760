"""The limit enforcer: expired and surplus entries leave from the front.

The rule: no consumer gets an entry that the limits say is gone, but an entry with a TTL of zero
still goes to a consumer that was waiting when it came. What leaves departs as every dead letter
does (:mod:`.dead_lettering`), no more at a time than the target can take.

Sources: RabbitMQ's TTL and queue length limit documentation (what departs, from which end, and
why).
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Protocol

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.expiry import NEVER, count_alive, count_expired, expires_ms
from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.subscription.departures.dead_lettering import DeadLettering
from arneb_core.subscription.entries.counters import Counters
from arneb_core.subscription.entries.ready import Ready, Source
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state.effects import WakeAt
from arneb_core.subscription.state.state import SubscriptionState

DEPARTURES_MAX: Final = 512
"""Entries that depart before others get their turn."""


class Front(Protocol):
    """A source whose first entries may have to depart."""

    def peek(self) -> tuple[list[Position], list[bytes]] | None: ...

    def take(self, positions: list[Position]) -> None: ...


class LimitEnforcer:
    """Keeps one subscription within its limits."""

    def __init__(
        self,
        state: SubscriptionState,
        ready: Ready,
        counters: Counters,
        dead_lettering: DeadLettering,
    ) -> None:
        self._state = state
        self._ready = ready
        self._counters = counters
        self._dead_lettering = dead_lettering
        self.judged_through = state.log.ledgers.last or BEFORE_ALL
        """Entries up to here were there when consumers were last looked at."""
        self._has_returned = False
        """Entries came back, or came when no consumer had room, and may be surplus."""

    def __repr__(self) -> str:
        return f"<LimitEnforcer of {self._state.label}: {self._state.limits!r}>"

    def must_go(self, entries: Sequence[bytes]) -> bool:
        """Return whether the first of ``entries``, which are the front, has to depart."""
        if max(self._surplus()) > 0:
            return True
        return self._state.is_expiring and self.count_expired(entries[:1]) > 0

    def staying(self, ready: int) -> int:
        """Return how many of ``ready`` messages stay: surplus ones are as good as gone."""
        if self._state.limits.message_ttl_ms == 0:
            return 0
        most = self._state.limits.ready_messages_max
        return ready if most is None else min(ready, most)

    def count_expired(self, entries: Sequence[bytes], *, is_new: bool = False) -> int:
        """Count the leading ``entries`` that have expired; see :func:`.count_expired`."""
        state = self._state
        return count_expired(entries, state.limits.message_ttl_ms, state.now_ms(), is_new=is_new)

    def living(
        self, positions: list[Position], entries: list[bytes], *, may_be_new: bool
    ) -> tuple[list[Position], list[bytes]]:
        """Return the leading part of a run that may be delivered: nothing when the front has
        expired. All of that part was there when consumers were last looked at, or none of it."""
        cut = bisect_right(positions, self.judged_through)
        if 0 < cut < len(positions):
            positions, entries = positions[:cut], entries[:cut]
        alive = self.count_alive(entries, is_new=may_be_new and not cut)
        return positions[:alive], entries[:alive]

    def count_alive(self, entries: Sequence[bytes], *, is_new: bool) -> int:
        """Count the leading ``entries`` that may be delivered. ``is_new``: consumers were not
        looked at since these came."""
        state = self._state
        return count_alive(entries, state.limits.message_ttl_ms, state.now_ms(), is_new=is_new)

    def enforce(self, *, has_room: bool) -> int:
        """Let expired and surplus entries depart; return how many. ``has_room``: some consumer
        would take more."""
        state = self._state
        expiring = state.is_expiring
        total = 0
        while total < DEPARTURES_MAX and not state.is_fenced:
            source = self._ready.first()
            gone: int | None = 0
            if expiring:
                gone = self.take_expired(source, spares_new=has_room and source is state.reader)
            if not gone:
                gone = self.take_excess(source)
            if gone is None and not source:
                continue  # the log no longer had any of them
            if not gone:
                break
            total += gone
        last = state.log.ledgers.last or BEFORE_ALL
        if has_room and self._ready.first() is state.reader:
            last = max(self.judged_through, state.reader.after)  # consumers wait for a read
        self.judged_through = last
        return total

    def take_expired(self, source: Front, *, spares_new: bool = False) -> int | None:
        """Let expired entries at the front of ``source`` depart; return how many, None when the
        front is not at hand or the target is full. Asks for a wake-up at the next expiry.
        ``spares_new``: of entries with a TTL of zero, those not judged yet stay."""
        at_hand = source.peek()
        if at_hand is None:
            return None
        positions, entries = at_hand
        cut = bisect_right(positions, self.judged_through) if spares_new else -1
        if cut > 0:
            positions, entries = positions[:cut], entries[:cut]
        expired = self.count_expired(entries, is_new=not cut)
        count = self._dead_lettering.room_for(entries[:expired]) if expired else 0
        if expired and not count:
            return None
        if count:
            self._take(source, Departure.EXPIRED, positions[:count], entries[:count])
        elif (when_ms := expires_ms(entries[0], self._state.limits.message_ttl_ms)) < NEVER:
            self._state.outbox.put(WakeAt(when_ms))
        return count

    def returned(self) -> None:
        """Have entries that came back checked against the limits before they go out again."""
        limits = self._state.limits
        if limits.ready_messages_max is not None or limits.ready_bytes_max is not None:
            self._has_returned = True

    def no_consumer_waited(self) -> None:
        """Have entries that came when no consumer had room checked likewise, even if a consumer
        has room before the next turn."""
        self.judged_through = self._state.log.ledgers.last or BEFORE_ALL
        self.returned()

    def drop_returned(self) -> bool:
        """Let surplus entries depart before anything is handed out, if some came back or came when
        no consumer had room; later ones do not count yet. Return False while more has to go."""
        left = DEPARTURES_MAX
        while self._has_returned and left > 0:
            source = self._ready.first()
            gone = self.take_excess(source, only_before=True)
            if gone is None and isinstance(source, ReplaySet) and not source:
                continue  # the log no longer had any of them
            if gone is None and (source.is_sorting or not source.fetch.is_free or source.peek()):
                return False
            gone = gone or 0  # nothing is there, whatever the counters say
            self._has_returned = gone > 0
            left -= gone
        return not self._has_returned

    def take_excess(self, source: Source, *, only_before: bool = False) -> int | None:
        """Let surplus entries depart from the front of ``source``, as :meth:`take_expired`.
        ``only_before``: entries that came since the last look at consumers are not ready yet."""
        messages, size = self._surplus(only_before=only_before)
        if messages <= 0 and size <= 0:
            return 0
        at_hand = source.peek()
        if at_hand is None:
            return None
        positions, entries = at_hand
        count, room, counter = 0, self._dead_lettering.room_for(entries), self._state.byte_counter
        while (messages > 0 or size > 0) and count < room:
            messages -= messages_in(entries[count])
            size -= 0 if counter is None else counter.size_of(entries[count])
            count += 1
        if not count:
            return None
        self._take(source, Departure.MAX_LENGTH, positions[:count], entries[:count])
        return count

    def _surplus(self, *, only_before: bool = False) -> tuple[int, int]:
        """Return by how many messages and bytes the ready entries exceed the limits."""
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
        self._dead_lettering.depart(reason, positions, entries)
