"""Kept dead letters: those that every queue they are routed to must take ("at-least-once").

The rule: an entry is acknowledged in the commit in which the last of its messages reaches the last
of its queues. Until then it is in flight, and is routed again from time to time: if no queue takes
it, because the exchange does not exist or routes it nowhere, or because a queue is full, it waits.
A queue that has taken a message does not get it again, unless the broker ends in between.

Source: ``rabbit_fifo_dlx_worker``, RabbitMQ 3.13.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Final

from arneb_amqp.topology.dead_letter_runs import Resolved
from arneb_amqp.topology.dead_letter_turns import COPY_WORK, REFUSED_WORK, work_of
from arneb_amqp.topology.forwarding import MessageKind, forwarded, word_and_route_of
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.traffic import VhostTraffic
from arneb_amqp.wire.content import properties_of
from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.callbacks import has_failed
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.topics.topic import Topic

logger = logging.getLogger(__name__)

KEPT_MAX: Final = 64
"""Entries of one queue that are kept, in memory. More wait in the log. RabbitMQ's worker has 32
under way."""

RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 180_000
"""After how long an entry is routed again: doubled each time. The longest is RabbitMQ's; with it, a
thousand queues full of kept letters take some 2 % of the loop."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One message that some queue has yet to take."""

    message: bytes
    taken_by: frozenset[Topic] = frozenset()
    """Topics of the queues that have it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry that has left its queue's consumers, but not its queue."""

    reason: Departure
    position: Position
    mask: int | None
    """The messages of a batch that died; None = all of the entry."""
    holder: Consumer
    letters: tuple[Letter, ...]
    retry_ms: int = RETRY_MS_MIN
    """How long it waits next."""


@dataclass(slots=True)
class _Part:
    """What is sent together."""

    admission: Admission = field(default_factory=Admission)
    known: dict[tuple[Departure, MessageKind], Resolved] = field(default_factory=dict)
    spent: int = 0
    """The work done, without that of what full queues have refused."""

    @property
    def work(self) -> int:
        """The work done, and that which refused messages will make."""
        return self.spent + REFUSED_WORK * self.admission.refused_messages


class KeptDeadLetters:
    """The kept letters of one queue."""

    def __init__(
        self,
        core: Core,
        queue: str,
        resolve: Callable[[Departure, MessageKind], Resolved],
        now_ms: Callable[[], int],
        traffic: VhostTraffic,
    ) -> None:
        """``resolve`` returns where messages of a kind go that died for a reason; ``now_ms`` is a
        monotonic clock; ``traffic`` counts what queues have taken."""
        self._core = core
        self._queue = queue
        self._resolve = resolve
        self._now_ms = now_ms
        self._traffic = traffic
        self._numbers = count()
        self._due: deque[Kept] = deque()
        """What is to be sent now, in order."""
        self._waiting: list[tuple[int, int, Kept]] = []
        """A heap, by the time when each is due again and by a number that decides between equal
        times."""
        self._is_reported = False

    def __repr__(self) -> str:
        return f"<KeptDeadLetters of {self._queue!r}, {len(self)} waiting>"

    def __len__(self) -> int:
        return len(self._due) + len(self._waiting)

    @property
    def has_due(self) -> bool:
        """Whether some are to be sent now."""
        return bool(self._due)

    def add(self, entries: Iterable[Kept]) -> None:
        """Keep these, which are to be sent now."""
        self._due += entries

    def retry(self, *, all_of_them: bool = False) -> bool:
        """Have those sent again whose time has come, or all; return whether there are any."""
        waiting, now_ms = self._waiting, self._now_ms()
        while waiting and (all_of_them or waiting[0][0] <= now_ms):
            self._due.append(heappop(waiting)[2])
        if not self:
            self._is_reported = False
        return self.has_due

    def part(self, work: int, *, may_be_lost: bool) -> int:
        """Send the first of those that are due, about as many as ``work`` allows, to the queues
        that have yet to take them; return the work. ``may_be_lost``: acknowledge them even if no
        queue takes them."""
        part, entries = _Part(), list[Kept]()
        try:
            left, unit = self._sent(part, work, entries, may_be_lost=may_be_lost)
        except Exception as error:
            has_failed(self.part, error)
            part.admission.over()
            self._wait(entries)
            return work
        taken = sum(len(each.letters) for each in entries) - sum(len(each.letters) for each in left)
        if left:
            self._report(len(left))

        def done(error: CommitFailed | None) -> None:
            part.admission.over()
            if error is None:
                self._traffic.kept_and_taken += taken
            else:
                logger.warning(
                    "cannot move dead letters of queue %r, will retry: %s", self._queue, error
                )
            self._wait(left if error is None else entries)

        if not (unit.appends or unit.acks or unit.parts):
            done(None)
        elif self._core.commit(unit, done):
            part.admission.over()
        return part.work

    def _sent(
        self, part: _Part, work: int, entries: list[Kept], *, may_be_lost: bool
    ) -> tuple[list[Kept], Unit]:
        """Take ``entries`` and put their messages into the admission of ``part``. Return the
        entries that have to be kept on, and the unit that moves the others."""
        left = []
        unit = Unit(passes_over_gone=True, has_batches=False)
        while self._due and part.work < work:
            entry = self._due.popleft()
            if not entry.holder.attached:
                continue  # a seek returned the messages to the queue
            entries.append(entry)
            rest = tuple(
                filter(None, (self._put(entry.reason, each, part) for each in entry.letters))
            )
            if rest and not may_be_lost:
                left.append(replace(entry, letters=rest))
            elif entry.mask is None:
                unit.acks.append((entry.holder, [entry.position]))
            else:
                unit.parts.append((entry.holder, {entry.position: entry.mask}))
        unit.appends.extend(part.admission.close().items())
        return left, unit

    def _put(self, reason: Departure, letter: Letter, part: _Part) -> Letter | None:
        """Send one message; return it if it still has to be kept."""
        word, route, start = word_and_route_of(letter.message)
        kind = word, route, properties_of(letter.message, start)
        resolved = part.known.get((reason, kind))
        if resolved is None:
            resolved = part.known[reason, kind] = self._resolve(reason, kind)
            part.spent += work_of(kind[2])
        way, taken_by, is_refused = resolved.way, set(letter.taken_by), False
        part.spent += COPY_WORK
        while way is not None:
            part.spent += COPY_WORK * (len(way.topics) + len(way.refusing))
            message = forwarded(letter.message, start, way)
            for topic in way.topics:
                if topic not in taken_by:
                    part.admission.put(topic, message)
                    taken_by.add(topic)
            for overflow in way.refusing:
                if overflow.topic in taken_by:
                    continue
                # What goes to the dead letter exchange of the queue that refused it is not lost.
                if part.admission.offer(overflow, message) or overflow.refused is not None:
                    taken_by.add(overflow.topic)
                else:
                    is_refused = True
            way = way.delayed
        # Like a mandatory message: if the routes are gone, one queue that took it is enough.
        return Letter(letter.message, frozenset(taken_by)) if is_refused or not taken_by else None

    def _wait(self, entries: Sequence[Kept]) -> None:
        now_ms = self._now_ms()
        for each in entries:
            after = replace(each, retry_ms=min(2 * each.retry_ms, RETRY_MS_MAX))
            heappush(self._waiting, (now_ms + each.retry_ms, next(self._numbers), after))

    def _report(self, count: int) -> None:
        if not self._is_reported:
            self._is_reported = True
            logger.warning(
                "%d dead letters of queue %r wait: their dead letter exchange does not exist or"
                " routes them to no queue, or a queue is full; they are sent again now and then",
                count,
                self._queue,
            )
