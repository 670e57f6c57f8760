"""Steps: what topics and subscriptions ask for, and the pump's steps that do it.

The rule: a caller is not called back in the same turn of the loop unless it says that it may be. A
step starts a commit first, so that the disk works during the rest; work that a step causes is for
the next step.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, ParamSpec

from arneb_core.api.core import Unit
from arneb_core.api.errors import CommitFailed
from arneb_core.api.nodes.lease import Lease
from arneb_core.api.process.callbacks import Done, call
from arneb_core.engine.group_commit.committer import Committer
from arneb_core.engine.group_commit.recording import Recorder
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.group_commit.write_ahead import WriteAhead
from arneb_core.engine.scheduling.maintenance import Maintenance
from arneb_core.engine.scheduling.pump import Pump
from arneb_core.engine.subscriptions.subscription import LogSubscription, SubscribedTopic
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.subscription.dispatching.dispatch_loop import DISPATCH_ENTRIES_MAX

STEP_ENTRIES_MAX: Final = 4 * DISPATCH_ENTRIES_MAX
"""Entries that all subscriptions together dispatch before connections have their turn."""

TURN_END_ENTRIES_MAX: Final = DISPATCH_ENTRIES_MAX // 2
"""The same bound at the end of a connection's turn, which it prolongs: no further subscription
begins once so many are dispatched, so it is three times that at most, some 4 ms. The pump does the
rest in a pass of its own."""

TURN_ENTRIES: Final = 64
"""The least that a subscription's turn counts, so that many turns with little to do do not take
long either: 128 of them, some 5 ms."""

TURN_END_OTHERS_MAX: Final = 8
"""If no more subscriptions than this were ready before, they are served at the end of a turn that
stored something small; a publisher at full rate nearly always has one. More are for the pump."""

ALONE_TURNS: Final = 16
"""After so many turns in a row of one connection, with no other's between, its appends are
committed at the end of its turn, and what they make ready is delivered there. That saves a pass or
two of the loop, a fifth of the latency of a publisher at window 1. Where several publish, the
appends of all of them in a pass are one commit."""

logger = logging.getLogger(__name__)

P = ParamSpec("P")


class Steps:
    """The work of one engine."""

    def __init__(self, committer: Committer, now_ms: Callable[[], int], lease: Lease) -> None:
        self.lease = lease
        """While it does not hold, nothing is delivered, and no consumer is told to be active."""
        self._committer = committer
        self._pump = Pump(self._step)
        self._maintenance = Maintenance(committer, self._pump.wake, now_ms)
        self._ready: OrderedDict[LogSubscription, None] = OrderedDict()
        """Subscriptions with entries to dispatch, in arrival order."""
        self._trimmable: dict[SubscribedTopic, None] = {}
        """Topics kept in memory from which something may be dropped."""
        self._completed: deque[Callable[[], None]] = deque()
        """Callbacks for the next step."""
        self._turns_total = 0
        self._write_ahead = WriteAhead(self.submit)
        self._held_up: deque[Callable[[], None]] = deque()
        """Callbacks for when the lease holds again."""
        self._after_dispatch: dict[Callable[[], None], int] = {}
        """Callbacks, with the total of turns after which each is due."""
        self._last_turn = -1
        """The owner of the last turn, among those that name themselves."""
        self._turns_alone = 0
        self._others_came = False
        self._waits_for_end = False
        """A lone connection has its turn: the work it causes is done at the end of it."""
        self._stood = (0, 0)
        """Totals of subscriptions' turns and of commits at the end of the last turn."""
        self._is_only_its_own = False
        """Nothing was done since the last turn or was left to do when this one began: all work at
        its end is its own."""

    def __repr__(self) -> str:
        return f"<Steps, {len(self._ready)} subscriptions ready>"

    @property
    def has_more(self) -> bool:
        """Whether there is work for another step at once."""
        return bool(self._completed or self._trimmable or (self._ready and self.lease.holds))

    def after_dispatch(self, back: Callable[[], None]) -> bool:
        """Have ``back`` called after the deliveries that are ready; see the interface."""
        if self._ready and self.lease.holds:
            self._after_dispatch.setdefault(back, self._turns_total + len(self._ready))
            return True
        return False

    def turn_begins(self, whose: int) -> None:
        """Begin a turn that may append; see the interface."""
        if whose != self._last_turn:
            self._last_turn, self._turns_alone = whose, 0
            self._others_came = True
        elif self._turns_alone < ALONE_TURNS:
            self._turns_alone += 1
        else:
            self._waits_for_end = True
            stands = self._turns_total, self._committer.commits_total
            self._is_only_its_own = stands == self._stood and self._committer.is_idle

    def others_came(self) -> bool:
        """Whether several connections have had turns since the last call."""
        came, self._others_came = self._others_came, False
        return came

    def turn_ends(self, *, may_be_called: bool) -> bool:
        """End the turn; see the interface."""
        if self._waits_for_end:
            is_left = True
            try:
                if may_be_called:
                    is_left = self._step(TURN_END_ENTRIES_MAX)
            finally:
                self._waits_for_end = False
                is_left = is_left or not self._committer.is_idle
                if is_left:
                    self._pump.wake()
                # Deliveries to a subscription may let others write in turns of their own.
                are_served = self._turns_total != self._stood[0]
                self._stood = self._turns_total, self._committer.commits_total
            return self._is_only_its_own and not (is_left or are_served)
        if may_be_called:
            # Where others send all they can, every pass waited for is a long turn of theirs.
            others, stored = len(self._ready), self._committer.commits_total
            self._committer.start(commits=False)
            if self._committer.commits_total != stored and others <= TURN_END_OTHERS_MAX:
                self._dispatch(TURN_END_ENTRIES_MAX)
        return False

    def has_work(self, subscription: LogSubscription) -> None:
        """Have ``subscription`` dispatch in the next step."""
        if subscription.machine.state.is_resting:
            return
        self._ready[subscription] = None
        self._wake()

    def cursor_changed(self, subscription: LogSubscription, done: Done | None) -> None:
        """Have the cursor written: at once if somebody waits for it, else soon."""
        if subscription.durable and not subscription.gone:
            self._committer.cursor_changed(subscription, done)
            self._maintenance.cursor_changed()
        else:
            self._trimmable[subscription.topic] = None
            if done is not None:
                self.tell(done, None)
        if done is not None or not subscription.durable:
            self._wake()

    def history_due(self, recorder: Recorder) -> None:
        """Have a history written soon."""
        self._committer.history_due(recorder)
        self._maintenance.cursor_changed()

    def tell(self, done: Done, error: CommitFailed | None) -> None:
        """Call ``done`` soon, for what needs no commit."""
        self._completed.append(lambda: done(error))
        self._wake()

    def complete(self, back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Have ``back`` called in the next step."""
        self._completed.append(partial(back, *args, **kwargs))
        self._wake()

    def call_while_leased(self, back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call ``back`` at once, or when the lease holds again, after those already waiting."""
        if self.lease.holds and not self._held_up:
            call(partial(back, *args, **kwargs))
        else:
            self._held_up.append(partial(back, *args, **kwargs))
            self._wake()

    def wake_at(self, subscription: LogSubscription, when_ms: int) -> None:
        """Have ``subscription`` dispatch at ``when_ms``."""
        self._maintenance.wake_at(subscription, when_ms)

    def unreadable(self, subscription: LogSubscription) -> None:
        """Have a failed read for ``subscription`` tried again."""
        self._maintenance.unreadable(subscription)

    def has_appends(self, topic: LogTopic) -> bool:
        """Whether appends to ``topic`` wait or are under way."""
        return self._committer.has_appends(topic)

    def turn_failed(self, subscription: LogSubscription, error: Exception) -> None:
        """Rebuild ``subscription`` a little later after an error of ours in its turn; the others
        continue."""
        logger.error("error in %r; it is rebuilt from the store", subscription, exc_info=error)
        call(subscription.machine.start_over)
        self._ready.pop(subscription, None)
        self.try_again(subscription)

    def try_again(self, subscription: LogSubscription) -> None:
        """Have ``subscription`` try again a little later what failed."""
        self._maintenance.try_again(subscription)

    def submit(self, request: Request) -> None:
        """Have ``request`` committed."""
        self._committer.add(request)
        self._wake()

    def written_ahead(self, unit: Unit) -> AbstractAsyncContextManager[None]:
        """Write the runs of ``unit`` ahead of its commit; see the interface."""
        return self._write_ahead.of(unit)

    def forget(self, subscription: LogSubscription) -> None:
        """Write and dispatch nothing more of a removed subscription."""
        subscription.machine.removed()
        self._maintenance.wake_ups.forget(subscription)
        self._committer.forget_cursor(subscription)
        self._ready.pop(subscription, None)

    def ledger_closed(self, topic: SubscribedTopic) -> None:
        """Check whether a ledger of ``topic`` may go although no cursor moved."""
        if topic.durable:
            self._committer.trim_due(topic)
        else:
            self._trimmable[topic] = None
        self._pump.wake()

    # A step

    def _wake(self) -> None:
        """Have a step run soon, unless one runs at the end of this turn."""
        if not self._waits_for_end:
            self._pump.wake()

    def _step(self, entries_max: int | None = None) -> bool:
        """Run one step of the pump; True when there is more to do at once."""
        # The commit first: the disk works while the rest of the step is done.
        self._committer.start()
        for _ in range(len(self._completed)):  # what these cause is for the next step
            call(self._completed.popleft())
        self._dispatch(entries_max or STEP_ENTRIES_MAX)
        trimmable, self._trimmable = self._trimmable, {}
        for topic in trimmable:
            call(topic.trimming.sweep)
        self._committer.start()
        return self.has_more

    def _dispatch(self, left: int) -> None:
        """Give ready subscriptions their turns, in arrival order, until ``left`` entries are
        dispatched."""
        lease = self.lease
        while self._held_up and lease.holds:
            call(self._held_up.popleft())
        topics: dict[SubscribedTopic, None] = {}
        for _ in range(len(self._ready)):
            if left <= 0 or not (self._ready and lease.holds):  # a turn may end others
                break
            subscription, _none = self._ready.popitem(last=False)
            self._turns_total += 1
            try:
                taken = subscription.turn()
            except Exception as error:
                self.turn_failed(subscription, error)
                taken = 0
            if taken >= DISPATCH_ENTRIES_MAX:
                self._ready[subscription] = None
            left -= max(taken, TURN_ENTRIES)
            topics[subscription.topic] = None
        for topic in topics:
            call(topic.dispatched)
        if self._after_dispatch:
            # Not those whose deliveries are left for the next step: they would be overtaken.
            # Without a lease they would wait for deliveries that may never be made.
            had, more = self._turns_total, self._ready and lease.holds
            backs = [each for each, due in self._after_dispatch.items() if due <= had or not more]
            for back in backs:
                del self._after_dispatch[back]
                call(back)
