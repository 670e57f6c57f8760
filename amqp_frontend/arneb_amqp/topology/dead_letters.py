"""Dead letters: messages on their way from a queue through its dead letter exchange.

The rule: one commit takes a message out of its queue and puts it into those that its dead letter
exchange routes to, so it is never lost and never duplicated. A message that no queue takes, or that
would circulate forever by itself, is dropped, as in RabbitMQ, unless the queue's strategy is
"at-least-once" (:mod:`.kept_dead_letters`).
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from arneb_amqp.codec import encode_message
from arneb_amqp.errors import AmqpError, ReplyCode
from arneb_amqp.routing.death import DeadLetter, dead_letter_of
from arneb_amqp.routing.delayed import delay_ms_of, delayed
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.routing.router import Router, RouteResult
from arneb_amqp.topology.dead_letter_runs import Letters, Resolved
from arneb_amqp.topology.dead_letter_turns import Turns
from arneb_amqp.topology.forwarding import Forwarding, Head, MessageKind, head_of
from arneb_amqp.topology.kept_dead_letters import Kept, KeptDeadLetters, Letter
from arneb_amqp.topology.overflow import Admission, Overflow
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.route import is_short, join_route, split_route
from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import EntryFlag, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.callbacks import has_failed
from arneb_core.api.process.clock import monotonic_ms
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.topics.topic import Topic

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetterTarget:
    """Where a queue's dead letters go."""

    queue: str
    exchange: str
    routing_key: str | None
    keeps: bool = False
    """Whether they are kept until queues have taken them."""


@dataclass(frozen=True, slots=True)
class Destinations:
    """Resolves names; None if there is nothing of that name."""

    queue: Callable[[str], Topic | None]
    """The topic of a queue."""
    refusing: Callable[[str], Overflow | None] = lambda queue: None
    """The overflow of a queue that refuses messages."""
    delayed_exchange: Callable[[str], Topic | None] = lambda exchange: None
    """The topic for messages that an exchange delays."""


class DeadLettering:
    """The dead lettering of one queue; see
    :class:`arneb_core.api.subscriptions.limits.DeadLetters`."""

    def __init__(
        self,
        core: Core,
        router: Router,
        destinations: Destinations,
        now_ms: Callable[[], int],
        target: DeadLetterTarget,
        turns: Turns,
    ) -> None:
        self._core = core
        self._router = router
        self._destinations = destinations
        self._now_ms = now_ms
        self.target = target
        """The target of further dead letters."""
        self._turns = turns
        self._waiting: deque[tuple[Departure, Deliveries, Consumer]] = deque()
        """What departed and has not had its turn, in order."""
        self._undelivered: list[tuple[Departure, Deliveries, Consumer]] = []
        self._kept = KeptDeadLetters(
            core, target.queue, self._resolve, monotonic_ms, router.traffic
        )

    def __repr__(self) -> str:
        target = self.target
        return (
            f"<DeadLettering of {target.queue!r} to {target.exchange!r}, "
            f"{len(self._waiting)} runs waiting, {len(self._undelivered)} to try again, "
            f"{len(self._kept)} kept>"
        )

    def departed(self, reason: Departure, run: Deliveries, holder: Consumer) -> None:
        """Move a run to its targets, at once or in later passes of the loop if it is much."""
        self._waiting.append((reason, run, holder))
        self._turns.add(self)

    @property
    def has_more(self) -> bool:
        """Whether something waits for its turn."""
        return bool(self._waiting or self._kept.has_due)

    def part(self, work: int) -> int:
        """Move the first messages that wait, about as many as ``work`` allows; return the work."""
        if not self._waiting:
            return self._kept.part(work, may_be_lost=not self.target.keeps)
        reason, run, holder = self._waiting.popleft()
        if not holder.attached:
            return 0  # a seek returned the messages to the queue
        try:
            if self.target.keeps:
                self._kept.add(self._each(reason, run, holder))
                return 0
            count, done = self._move(reason, run, holder, work)
        except Exception as error:
            has_failed(self.part, error)
            self._undelivered.append((reason, run, holder))
            return work
        if count < len(run.positions):
            self._waiting.appendleft((reason, _part(run, count, None), holder))
        return done

    def _move(
        self, reason: Departure, run: Deliveries, holder: Consumer, work: int
    ) -> tuple[int, int]:
        """Move the first messages of a run, in the commit that takes them out of their queue.
        Return how many of its entries those were, and the work."""
        admission = Admission()
        letters = Letters(partial(self._resolve, reason), admission)
        whole: list[Position] = []
        parts: dict[Position, int] = {}
        count = 0
        for position, entry in zip(run.positions, run.entries, strict=True):
            if letters.work >= work and not letters.goes_on_with(entry):
                break
            mask = None if run.masks is None else run.masks.get(position)
            if mask is None:
                whole.append(position)
            else:
                parts[position] = mask
            for message in _messages(entry, mask, self.target.queue):
                letters.put(message)
            count += 1
        moved = _part(run, 0, count) if count < len(run.positions) else run
        appends = list(admission.close().items())
        unit = Unit(appends, passes_over_gone=True, has_batches=False)
        if whole:
            unit.acks.append((holder, whole))
        if parts:
            unit.parts.append((holder, parts))

        def done(error: CommitFailed | None) -> None:
            admission.over()
            if error is not None:
                logger.warning(
                    "cannot move dead letters of queue %r, will retry: %s",
                    self.target.queue,
                    error,
                )
                self._undelivered.append((reason, moved, holder))

        if self._core.commit(unit, done):
            admission.over()
        return count, letters.work

    def _each(self, reason: Departure, run: Deliveries, holder: Consumer) -> list[Kept]:
        masks = run.masks or {}
        return [
            Kept(
                reason,
                position,
                masks.get(position),
                holder,
                tuple(map(Letter, _messages(entry, masks.get(position), self.target.queue))),
            )
            for position, entry in zip(run.positions, run.entries, strict=True)
        ]

    def retry(self) -> bool:
        """Retry what could not be committed, and some of what no queue has taken yet; return
        whether there was any."""
        was_kept = self._kept.retry(all_of_them=not self.target.keeps)
        if was_kept:
            self._turns.add(self)
        undelivered, self._undelivered = self._undelivered, []
        for reason, run, holder in undelivered:
            self.departed(reason, run, holder)
        return was_kept or bool(undelivered)

    def dead_letter_refused(self, entries: Sequence[bytes], admission: Admission) -> None:
        """Dead-letter messages that a full queue refused."""
        letters = Letters(partial(self._resolve, Departure.MAX_LENGTH), admission)
        for entry in entries:
            for message in _messages(entry, None, self.target.queue):
                letters.put(message)

    def _resolve(self, reason: Departure, kind: MessageKind) -> Resolved:
        """Return where dead letters of this kind go."""
        word, route, properties = kind
        priority_and_flags = int.from_bytes(word, "big")
        target, now_ms = self.target, self._now_ms()
        letter = dead_letter_of(
            decode_properties(properties),
            split_route(route),
            queue=target.queue,
            reason=reason,
            now_s=now_ms // 1000,
            routing_key=target.routing_key,
        )
        if not is_short(letter.routing_key):
            logger.debug("dropping dead letters of queue %r: too long a key", target.queue)
            return Resolved(None, {}, True)
        try:
            found = self._router.route(
                target.exchange, letter.routing_key, letter.properties.headers, letter.copies
            )
        except AmqpError as error:
            # The exchange does not exist (any more), or its bindings are hostile.
            logger.debug("dropping dead letters of queue %r: %s", target.queue, error)
            return Resolved(None, {}, error.reply_code is ReplyCode.NOT_FOUND)
        queues = found.queues
        if not queues and target.exchange == DEFAULT_EXCHANGE:
            queues = (letter.routing_key,)  # perhaps a topic that a Pulsar client made
        raw = join_route(target.exchange, letter.routing_key)
        head = head_of(raw, priority_and_flags | EntryFlag.DEAD_LETTERED)
        refusing: list[Overflow] = []
        topics: list[Topic] = []
        for name in queues:
            if reason is not Departure.REJECTED and letter.closes_circle(name):
                continue
            if (overflow := self._destinations.refusing(name)) is not None:
                refusing.append(overflow)
            elif (topic := self._destinations.queue(name)) is not None:
                topics.append(topic)
        way = Forwarding(
            head(now_ms, 0, 0),
            encode_properties(letter.properties),
            topics,
            refusing,
            self._delayed(letter, found, head, now_ms),
        )
        return Resolved(way, letter.properties.headers or {}, not found.depends_on_headers)

    def _delayed(
        self, letter: DeadLetter, found: RouteResult, head: Head, now_ms: int
    ) -> Forwarding | None:
        """Return the forwarding to exchanges that delay the messages, if any."""
        headers = letter.properties.headers or {}
        if not found.delayed_by or not (delay_ms := delay_ms_of(headers)):
            return None
        topics = map(self._destinations.delayed_exchange, found.delayed_by)
        return Forwarding(
            head(now_ms, now_ms + delay_ms, 0),
            encode_properties(replace(letter.properties, headers=delayed(headers, delay_ms))),
            [topic for topic in topics if topic is not None],
            (),
        )


def _part(run: Deliveries, first: int, end: int | None) -> Deliveries:
    """Return these entries of a run, as far as a dead letter goes by them."""
    return Deliveries(run.positions[first:end], run.entries[first:end], masks=run.masks)


def _messages(entry: bytes, mask: int | None, queue: str) -> list[bytes]:
    """Return the messages of an entry as AMQP entries; of a batch, those in ``mask``."""
    if entry[1] == Origin.AMQP:
        return [entry]
    try:
        messages = codecs()[Origin(entry[1])].decode(entry)
    except ValueError:
        return []  # unreadable, so its death cannot be recorded in it
    wanted = -1 if mask is None else mask
    return [
        encode_message(message, queue)
        for index, message in enumerate(messages)
        if wanted >> index & 1
    ]
