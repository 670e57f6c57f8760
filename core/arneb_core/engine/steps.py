"""Steps: what topics and subscriptions want done, and the steps of the pump that do it.

The rule: whoever calls is not called back in the same turn of the loop, unless it says that it may
be. A commit is begun first, so that the disk works while the rest of the step is done; what a step
brings about is for the next.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, ParamSpec

from arneb_core.api.callbacks import Done, call
from arneb_core.api.core import Unit
from arneb_core.api.errors import CommitFailed
from arneb_core.api.lease import Lease
from arneb_core.engine.committer import Committer
from arneb_core.engine.maintenance import Maintenance
from arneb_core.engine.pump import Pump
from arneb_core.engine.recording import Recorder
from arneb_core.engine.request import Request
from arneb_core.engine.subscription import LogSubscription, SubscribedTopic
from arneb_core.engine.topic import LogTopic
from arneb_core.engine.write_ahead import WriteAhead
from arneb_core.subscription.dispatch_loop import DISPATCH_ENTRIES_MAX

STEP_ENTRIES_MAX: Final = 4 * DISPATCH_ENTRIES_MAX
"""What all subscriptions together dispatch before connections get their turn."""

TURN_END_ENTRIES_MAX: Final = DISPATCH_ENTRIES_MAX // 2
"""The same at the end of a connection's turn, which is longer by that: no other subscription begins
once so much is dispatched, so it is three times that at the most, some 4 ms. The pump does the
rest, in a pass of its own."""

TURN_ENTRIES: Final = 64
"""What a subscription's turn costs of that at least, so that many with little to do do not
take the loop for long either: 128 of them, some 5 ms."""

TURN_END_OTHERS_MAX: Final = 8
"""Who stands before what a small turn has stored is served there, too, if it is so few; who sends
all it can has one ready nearly always. More are the pump's."""

ALONE_TURNS: Final = 16
"""So many turns of one connection in a row, and nobody else's between them, before what it appends
is committed at the end of its turn, and what it makes room for is delivered there: that saves a
pass of the loop or two, a fifth of what a publisher at window 1 waits for. Where several publish,
what all of them append in a pass is one commit."""

logger = logging.getLogger(__name__)

P = ParamSpec("P")


class Steps:
    """The work of one engine."""

    def __init__(self, committer: Committer, now_ms: Callable[[], int], lease: Lease) -> None:
        self.lease = lease
        """Without it nothing is delivered, nor is anybody told to be the active consumer."""
        self._committer = committer
        self._pump = Pump(self._step)
        self._maintenance = Maintenance(committer, self._pump.wake, now_ms)
        self._ready: OrderedDict[LogSubscription, None] = OrderedDict()
        """They have something to dispatch, first come first served."""
        self._trimmable: dict[SubscribedTopic, None] = {}
        """Topics kept in memory of which something may go."""
        self._completed: deque[Callable[[], None]] = deque()
        """Who is to be told something."""
        self._turns_total = 0
        self._write_ahead = WriteAhead(self.submit)
        self._held_up: deque[Callable[[], None]] = deque()
        """What is to be told when the lease holds again."""
        self._after_dispatch: dict[Callable[[], None], int] = {}
        """Who is to be called when there were so many turns in all."""
        self._last_turn = -1
        """Whose the last turn was, of those who say so."""
        self._turns_alone = 0
        self._others_came = False
        self._waits_for_end = False
        """Somebody who is alone has its turn: what it brings about is done at the end of that."""
        self._stood = (0, 0)
        """How many subscriptions' turns and commits there had been at the end of the last one."""
        self._is_only_its_own = False
        """Nothing was done since then, nor was anything to be, when this turn began: what is done
        at its end is its own."""

    def __repr__(self) -> str:
        return f"<Steps, {len(self._ready)} subscriptions ready>"

    @property
    def has_more(self) -> bool:
        """There is something to do at once."""
        return bool(self._completed or self._trimmable or (self._ready and self.lease.holds))

    def after_dispatch(self, back: Callable[[], None]) -> bool:
        """Have ``back`` called behind the deliveries that are ready; see the interface."""
        if self._ready and self.lease.holds:
            self._after_dispatch.setdefault(back, self._turns_total + len(self._ready))
            return True
        return False

    def turn_begins(self, whose: int) -> None:
        """A turn in which there may be appends; see the interface."""
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
        """Several connections have had turns since this was asked last."""
        came, self._others_came = self._others_came, False
        return came

    def turn_ends(self, *, may_be_called: bool) -> bool:
        """The end of it; see the interface."""
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
                # What a subscription was served with may have others write in turns of theirs.
                are_served = self._turns_total != self._stood[0]
                self._stood = self._turns_total, self._committer.commits_total
            return self._is_only_its_own and not (is_left or are_served)
        if may_be_called:
            # Where others send all they can, each pass that is waited for is a long turn of theirs.
            others, stored = len(self._ready), self._committer.commits_total
            self._committer.start(commits=False)
            if self._committer.commits_total != stored and others <= TURN_END_OTHERS_MAX:
                self._dispatch(TURN_END_ENTRIES_MAX)
        return False

    def has_work(self, subscription: LogSubscription) -> None:
        """Have ``subscription`` dispatch at the next step."""
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
        """Have a history written, soon."""
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

    def tell_while_leased(self, told: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call ``told`` at once, or when the lease holds again, behind what waits for that."""
        if self.lease.holds and not self._held_up:
            call(partial(told, *args, **kwargs))
        else:
            self._held_up.append(partial(told, *args, **kwargs))
            self._wake()

    def wake_at(self, subscription: LogSubscription, when_ms: int) -> None:
        """Have ``subscription`` dispatch at ``when_ms``."""
        self._maintenance.wake_at(subscription, when_ms)

    def unreadable(self, subscription: LogSubscription) -> None:
        """A read failed for ``subscription``; have it tried again."""
        self._maintenance.unreadable(subscription)

    def has_appends(self, topic: LogTopic) -> bool:
        """Something is on its way into ``topic``."""
        return self._committer.has_appends(topic)

    def turn_failed(self, subscription: LogSubscription, error: Exception) -> None:
        """A defect of ours showed in a turn of ``subscription``. It starts over a little later;
        the others go on."""
        logger.error("error in %r; it is rebuilt from the store", subscription, exc_info=error)
        call(subscription.machine.start_over)
        self._ready.pop(subscription, None)
        self.try_again(subscription)

    def try_again(self, subscription: LogSubscription) -> None:
        """Something of ``subscription`` failed; have it tried again a little later."""
        self._maintenance.try_again(subscription)

    def submit(self, request: Request) -> None:
        """Have ``request`` committed."""
        self._committer.add(request)
        self._wake()

    def written_ahead(self, unit: Unit) -> AbstractAsyncContextManager[None]:
        """Write the runs of ``unit`` ahead of its commit; see the interface."""
        return self._write_ahead.of(unit)

    def forget(self, subscription: LogSubscription) -> None:
        """The subscription is gone: nothing of it is to be written or dispatched any more."""
        subscription.machine.removed()
        self._maintenance.alarms.forget(subscription)
        self._committer.forget_cursor(subscription)
        self._ready.pop(subscription, None)

    def ledger_closed(self, topic: SubscribedTopic) -> None:
        """A ledger of ``topic`` may be ready to go though no cursor moved."""
        if topic.durable:
            self._committer.trim_due(topic)
        else:
            self._trimmable[topic] = None
        self._pump.wake()

    # A step

    def _wake(self) -> None:
        """Have a step made soon, if it is not made at the end of this turn."""
        if not self._waits_for_end:
            self._pump.wake()

    def _step(self, entries_max: int | None = None) -> bool:
        """One step of the pump; True when there is more to do at once."""
        # The commit first: the disk works while the rest of the step is done.
        self._committer.start()
        for _ in range(len(self._completed)):  # what these bring about is for the next step
            call(self._completed.popleft())
        self._dispatch(entries_max or STEP_ENTRIES_MAX)
        trimmable, self._trimmable = self._trimmable, {}
        for topic in trimmable:
            call(topic.trimming.sweep)
        self._committer.start()
        return self.has_more

    def _dispatch(self, left: int) -> None:
        """Give the subscriptions that are ready their turns, first come first served, until
        ``left`` entries are dispatched."""
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
            # Not those whose deliveries are for the next step: they would be overtaken.
            # Without a lease they wait for deliveries that may never be made.
            had, more = self._turns_total, self._ready and lease.holds
            backs = [each for each, due in self._after_dispatch.items() if due <= had or not more]
            for back in backs:
                del self._after_dispatch[back]
                call(back)
