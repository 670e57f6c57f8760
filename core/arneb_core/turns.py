"""Turns: one subscription hands out what is ready, until others must have their turn.

The rule: what is at hand is shared out run by run, and nothing waits here; what was read and
could not be handed out stays where it was.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from arneb_core.backlog import BacklogReader
from arneb_core.delayed.due import DueSource
from arneb_core.departures import Departures
from arneb_core.handout import HandOut
from arneb_core.keyed import KeyedHandOut
from arneb_core.priorities import PrioritySource
from arneb_core.replay import ReplaySet

if TYPE_CHECKING:
    from arneb_core.subscription import LogSubscription

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
    ) -> None:
        self._subscription = subscription
        self._handout = handout
        self._departures = departures
        self._next_source = next_source
        self.keyed: KeyedHandOut | None = None
        """Hands out instead, while the type is Key_Shared."""

    def __repr__(self) -> str:
        return f"<Turns of {self._subscription!r}>"

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
            taken = self._take_run() if self.keyed is None else self.keyed.hand_out()
            if taken is not None:
                taken_total += taken
            if handout.broken:
                self._put_out_broken()
            elif taken == 0:
                break
        return taken_total

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
        batches = self._subscription.topic.log.has_batches
        taken = self._handout.hand_out(positions, entries, batches=batches)
        if taken:
            source.take(positions[:taken] if taken < len(positions) else positions)
        return taken

    def _put_out_broken(self) -> None:
        broken, self._handout.broken = self._handout.broken, []
        for consumer in broken:
            consumer.put_out("failed")
