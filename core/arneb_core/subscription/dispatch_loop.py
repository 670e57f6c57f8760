"""Turns: one subscription hands out what is ready, until others must have their turn.

The rule: what is at hand is shared out run by run, and nothing waits here; what was read and
could not be handed out stays where it was.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from arneb_core.api.consumers import ConsumerSpec
from arneb_core.dispatch import Dispatcher, KeySharedDispatcher
from arneb_core.subscription.dead_lettering import Departures
from arneb_core.subscription.grouped import GroupedHandOut
from arneb_core.subscription.handout import HandOut
from arneb_core.subscription.keyed import KeyedHandOut
from arneb_core.subscription.sources.backlog import BacklogReader
from arneb_core.subscription.sources.due import DueSource
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet

if TYPE_CHECKING:
    from arneb_core.subscription.subscription import LogSubscription

DISPATCH_ENTRIES_MAX: Final = 2_048
"""Entries dispatched before other subscriptions and connections get their turn."""

Source = ReplaySet | PrioritySource | DueSource | BacklogReader


class Turns:
    """The turns of one subscription."""

    def __init__(
        self,
        subscription: "LogSubscription",
        handout: HandOut,
        departures: Departures,
        next_source: Callable[[], Source],
        behind_replays: Callable[[], Source],
    ) -> None:
        self._subscription = subscription
        self._handout = handout
        self._departures = departures
        self._next_source = next_source
        self._behind_replays = behind_replays
        self.keyed: KeyedHandOut | None = None
        """Hands out instead, while the type is Key_Shared."""
        self.grouped: GroupedHandOut | None = None
        """Hands out instead, while a Shared subscription has entries that belong together."""

    def __repr__(self) -> str:
        return f"<Turns of {self._subscription!r}>"

    def begin(self, spec: ConsumerSpec, dispatcher: Dispatcher | KeySharedDispatcher) -> None:
        """The first consumer is about to come, and sets the type."""
        replay = self._subscription.settlement.replay
        if spec.type.traits.divides_groups and not spec.message_level:
            self.grouped = GroupedHandOut(
                self._subscription, self._handout, self._departures, self._behind_replays
            )
        elif isinstance(dispatcher, KeySharedDispatcher):
            assert isinstance(replay, ReplaySet), "check_type() was asked"
            self.keyed = KeyedHandOut(
                self._subscription, self._handout, replay, self._behind_replays, dispatcher
            )

    def end(self) -> None:
        """The last consumer left."""
        if self.keyed is not None:
            self.keyed.let_go()
        if self.grouped is not None:
            self.grouped.end()
        self.keyed = self.grouped = None

    @property
    def watching(self) -> KeySharedDispatcher | GroupedHandOut | None:
        """Who must know what is no longer in flight at a consumer."""
        if self.keyed is not None:
            return self.keyed.dispatcher
        return self.grouped if self.grouped is not None and self.grouped.is_active else None

    def take(self) -> int:
        """Hand out what can be handed out now; how many entries that were. When they are
        :data:`DISPATCH_ENTRIES_MAX` or more, there may be more to do at once."""
        departures = self._departures
        if not (departures.is_active or self._subscription.is_expiring):
            return self._hand_out()
        departures.step()
        if not departures.drop_returned(self._next_source):
            return 0
        taken = self._hand_out() + departures.let_go(self._next_source)
        if departures.limits.waits:
            return taken
        return self._subscription.let_fall(taken, DISPATCH_ENTRIES_MAX)

    def _hand_out(self) -> int:
        taken_total = 0
        subscription, handout = self._subscription, self._handout
        while taken_total < DISPATCH_ENTRIES_MAX and not subscription.is_fenced:
            if not handout.has_room:
                if subscription.topic.engine.ahead.is_spent:
                    subscription.let_go()
                break
            taken = self._take_run() if self._special is None else self._special.hand_out()
            if taken is not None:
                taken_total += taken
            if handout.broken:
                self._put_out_broken()
            elif taken == 0:
                break
        return taken_total

    @property
    def _special(self) -> KeyedHandOut | GroupedHandOut | None:
        if self.grouped is not None and self.grouped.is_active:
            return self.grouped
        return self.keyed

    def _take_run(self) -> int | None:
        """One run; how many entries of it are done with. None: nothing, but there may be more."""
        source = self._next_source()
        at_hand = source.peek()
        if at_hand is None:
            # Perhaps the log had none of the replays any more.
            return None if not source else 0
        positions, entries = at_hand
        if self._subscription.is_expiring:
            positions, entries = self._departures.living(
                positions, entries, may_be_new=not isinstance(source, ReplaySet)
            )
            if not positions:
                return 1 if self._departures.take_expired(source) else 0
        log = self._subscription.topic.log
        if positions[0] <= log.groups_through and self._has_groups(entries):
            return None
        batches = log.has_batches
        taken = self._handout.hand_out(positions, entries, batches=batches)
        if taken:
            source.take(positions[:taken] if taken < len(positions) else positions)
        return taken

    def _has_groups(self, entries: list[bytes]) -> bool:
        return self.grouped is not None and self.grouped.begin_if_needed(entries)

    def _put_out_broken(self) -> None:
        broken, self._handout.broken = self._handout.broken, []
        for consumer in broken:
            consumer.put_out("failed")
