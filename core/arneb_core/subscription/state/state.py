"""The state that all parts of a subscription share: its consumers, its clock, its limits.

The rule: it holds values and what a subscription is built on (a log, a cursor, the outbox), and
decides nothing. Parts share this instead of knowing one another, or the subscription.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.api.process.callbacks import Done
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.limits import Departure, Fate, Limits
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.cursor.cursor import Cursor
from arneb_core.dispatch import Receiver
from arneb_core.log.memory_log import Log
from arneb_core.subscription.sources.backlog import AheadBudget, BacklogReader
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state.byte_counter import ByteCounter
from arneb_core.subscription.state.effects import (
    CURSOR_CHANGED,
    HAS_WORK,
    Outbox,
    TryAgain,
    WriteCursor,
)
from arneb_core.subscription.state.history import History
from arneb_core.subscription.state.holders import Holders
from arneb_core.subscription.state.in_flight import InFlight

NO_LIMITS: Final = Limits()

HOLDER: Final = ConsumerSpec(name="dead letters")

logger = logging.getLogger(__name__)


class SubscriptionState:
    """What the parts of one subscription share."""

    __slots__ = (
        "_cursor_reported",
        "_reading",
        "_turn_wanted",
        "_unreadable_at",
        "acks",
        "ahead",
        "byte_counter",
        "consumers",
        "cursor",
        "departed",
        "divided",
        "durable",
        "era",
        "gone",
        "history",
        "holder",
        "holders",
        "is_departing",
        "is_leaving",
        "is_resting",
        "is_seeking",
        "label",
        "last_type",
        "limits",
        "log",
        "name",
        "now_ms",
        "outbox",
        "reader",
        "replay",
        "sizes",
        "topic",
        "type",
        "withheld",
    )

    def __init__(
        self,
        topic: str,
        name: str,
        log: Log,
        cursor: Cursor,
        outbox: Outbox,
        now_ms: Callable[[], int],
        ahead: AheadBudget,
        *,
        durable: bool,
    ) -> None:
        self.topic, self.name = topic, name
        self.label = f"{topic}/{name}"
        """Its name in logs and errors."""
        self.log = log
        self.cursor = cursor
        self.acks = cursor.acks
        self.outbox = outbox
        self.ahead = ahead
        self.durable = durable
        """Its cursor outlives the process."""
        self.now_ms = now_ms
        self.type: SubscriptionType | None = None
        self.last_type: SubscriptionType | None = None
        """As :attr:`type`, but kept when the last consumer leaves."""
        self.limits = NO_LIMITS
        self.consumers: dict[Receiver, InFlight] = {}
        self.holders = Holders(self.consumers)
        self.holder = InFlight(HOLDER)
        """Departing entries are in flight here until they have reached their target."""
        self.withheld: InFlight | None = None
        """Entries acknowledged in open transactions are in flight here; None until there are
        any."""
        self.divided: dict[Position, int] = {}
        """Batches delivered message by message: the messages in flight anywhere."""
        self.sizes: dict[Position, int] = {}
        """How many messages each of :attr:`divided` holds."""
        self.history: History | None = None
        """Records what happens, if it is on."""
        self.departed: dict[tuple[Departure, Fate], int] | None = None
        """Messages that left without an acknowledgement, by reason and by what became of them; None
        until there are any."""
        self.byte_counter: ByteCounter | None = None
        """Counts ready bytes, if a limit needs that."""
        self._reading = outbox.read, self.wake, self.read_failed
        self.replay: ReplaySet | PrioritySource = self.replays()
        self.reader = BacklogReader(log, self.acks, self.acks.mark_delete, self.fetch(), ahead)
        self.era = 0
        """Counts seeks: an answer from before the last one no longer applies."""
        self.is_departing = False
        """Entries are being read for the dead-letter target."""
        self.is_resting = False
        """A turn failed: there is none until it is tried again."""
        self.is_seeking = False
        self.is_leaving = False
        self.gone = False
        """It was removed: nothing more is to be written or dispatched."""
        self._turn_wanted = False
        """The engine was told that there is work, and the turn has not come."""
        self._cursor_reported = False
        """The engine was told that the cursor changed, and has not taken the changes."""
        self._unreadable_at: Position | None = None

    def __repr__(self) -> str:
        kind = self.type.value if self.type else "unused"
        return f"<SubscriptionState of {self.label}, {kind}, {len(self.consumers)} consumers>"

    @property
    def is_fenced(self) -> bool:
        """It is being reset or removed, or is gone."""
        return self.is_seeking or self.is_leaving or self.gone

    @property
    def is_expiring(self) -> bool:
        """Something here may expire."""
        return self.log.has_expiring or self.limits.message_ttl_ms is not None

    @property
    def may_depart(self) -> bool:
        """Something may have to depart even while nobody consumes."""
        return self.limits is not NO_LIMITS or self.is_departing

    @property
    def listens(self) -> bool:
        """It has to be told of appended entries, even if none of them expires."""
        return bool(self.consumers or self.may_depart or self.byte_counter)

    def positions_in_flight(self) -> list[Position]:
        """Entries of which something is in flight, in no order."""
        holders = [*self.consumers.values(), self.holder]
        if self.withheld is not None:
            holders.append(self.withheld)
        out = [position for holder in holders for position in holder.whole]
        return [*out, *self.divided]

    def count_departed(self, reason: Departure, messages: int, fate: Fate) -> None:
        """Count ``messages`` that leave without an acknowledgement."""
        if self.departed is None:
            self.departed = {}
        key = reason, fate
        self.departed[key] = self.departed.get(key, 0) + messages

    def departing(
        self, reason: Departure, positions: Sequence[Position], *, is_dead_lettered: bool
    ) -> None:
        """Record in the history, if there is one, that these leave without an acknowledgement."""
        if self.history is not None:
            self.history.departed(reason, positions, is_dead_lettered=is_dead_lettered)

    # Telling the engine

    def wake(self) -> None:
        """Ask for a turn: there may be something to dispatch."""
        if self._turn_wanted or self.is_resting:
            return
        if self.consumers or self.may_depart or self.log.has_expiring:
            self._turn_wanted = True
            self.outbox.put(HAS_WORK)

    def turn_begins(self) -> None:
        """The turn asked for has come."""
        self._turn_wanted = False

    def rest(self) -> None:
        """Allow no turn until :meth:`rested`."""
        self.is_resting = True

    def rested(self) -> None:
        """Allow turns again."""
        self.is_resting = self._turn_wanted = False

    def cursor_changed(self, done: Done | None = None) -> None:
        """Report that the cursor may have changed; ``done`` is called once that is on disk."""
        if done is not None:
            self.outbox.put(WriteCursor(done))
        elif not self._cursor_reported:
            self._cursor_reported = self.durable  # else each change may allow a trim
            self.outbox.put(CURSOR_CHANGED)

    def cursor_taken(self) -> None:
        """The changes are on their way to disk; later ones must be reported again."""
        self._cursor_reported = False

    def cursor_kept(self) -> None:
        """The changes did not reach the disk, and the engine will write them again."""
        self._cursor_reported = True

    def cursor_forgotten(self) -> None:
        """Report the changes again: the engine may have dropped them."""
        if self._cursor_reported:
            self._cursor_reported = False
            self.cursor_changed()

    # Reading

    def fetch(self) -> Fetch:
        """Make a fetch of this subscription's log."""
        return Fetch(self.log, *self._reading)

    def replays(self) -> ReplaySet:
        """Make a replay set over this subscription's log."""
        return ReplaySet(self.log, self.fetch())

    def read_failed(self, fetch: Fetch) -> None:
        """Handle a failed read: log it once per place, and have it tried again later."""
        if fetch.failed_at != self._unreadable_at:
            self._unreadable_at = fetch.failed_at
            logger.error("%s is paused and will be retried: %s", self.label, fetch.failure)
        self.outbox.put(TryAgain(is_read=True))
