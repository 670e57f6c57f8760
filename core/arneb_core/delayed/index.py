"""The delayed index of a topic: one tracker, and the subscriptions that hold back by it.

The rule: an entry is in it from the moment when it is in the log, before any subscription looks,
so that no reader comes by an entry that is not due. It is taken out when every subscription that
holds back is past it both in time and in the log.
"""

from typing import TYPE_CHECKING

from arneb_core.delayed.due_key import AFTER_ALL_TIME, keys_in, time_of
from arneb_core.delayed.held_back import HeldBack
from arneb_core.delayed.tracker import NEVER_MS, DelayedDeliveryTracker, DelayedSettings
from arneb_core.position import AFTER_ALL, BEFORE_ALL, FIRST_LEDGER

if TYPE_CHECKING:
    from arneb_core.log import PlannedRun
    from arneb_core.topic import LogTopic


class DelayedIndex:
    """The delayed entries of one topic."""

    def __init__(
        self, topic: "LogTopic", tracker: DelayedDeliveryTracker, settings: DelayedSettings
    ) -> None:
        self._topic = topic
        self.tracker = tracker
        self.settings = settings
        self.opened_ms = topic.engine.now_ms()
        """Nobody was given anything that comes due later, before this."""
        self.since = topic.last or BEFORE_ALL
        """What stands up to here is either delayed by an earlier process's word, or not at all."""

    def __repr__(self) -> str:
        return f"<DelayedIndex of {self._topic.name}, {self.tracker!r}>"

    def confirm(self, run: "PlannedRun") -> None:
        """``run`` is in the log now."""
        keys = keys_in(run.first, run.entries)
        rolled = run.new_ledger is not None and run.new_ledger > FIRST_LEDGER
        if not keys and not rolled:
            return
        count = len(self.tracker.members)
        now_ms = run.now_ms
        keys = [key for key in keys if time_of(key) > now_ms]
        soonest_ms = self.tracker.add(keys, run.last, rolled=rolled)
        if soonest_ms < NEVER_MS:
            count = len(self.tracker.members) - count
            for each in self._topic.subscriptions.values():
                if isinstance(each.held_back, HeldBack):
                    each.held_back.added(count, soonest_ms)

    def passed(self) -> None:
        """A subscription moved on: what nobody wants any more can go."""
        place, after = AFTER_ALL_TIME, AFTER_ALL
        for each in self._topic.subscriptions.values():
            held = each.held_back
            if isinstance(held, HeldBack) and held.is_wanting:
                place, after = min(place, held.place), min(after, held.after)
        if place < AFTER_ALL_TIME:
            self.tracker.passed(place, after)
