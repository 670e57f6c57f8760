"""Dead letters: what departs from a queue, on its way through the dead letter exchange.

The rule: one commit takes a message out of its queue and puts it into those that its dead
letter exchange leads to, so that it is never lost and never there twice. A message that no
queue takes, or that would go round in a circle by itself, is gone, as in RabbitMQ.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from arneb_amqp.codec import encode_message
from arneb_amqp.errors import AmqpError, ReplyCode
from arneb_amqp.routing.death import DeadLetter, dead_letter_of
from arneb_amqp.routing.delayed import delay_ms_of, delayed
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.routing.router import Router, RouteResult
from arneb_amqp.topology.forwarding import Forwarding, Head, MessageKind, head_of
from arneb_amqp.topology.letters import Letters, Resolved
from arneb_amqp.topology.overflow import Admission, Overflow
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.route import join_route, split_route
from arneb_core.api.callbacks import call
from arneb_core.api.codec import codecs
from arneb_core.api.consumers import Consumer
from arneb_core.api.core import Core, Unit
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import EntryFlag, Origin
from arneb_core.api.errors import CommitFailed
from arneb_core.api.limits import Departure
from arneb_core.api.position import Position
from arneb_core.api.topics import Topic

LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeadLetterTarget:
    """Where a queue's dead letters go."""

    queue: str
    exchange: str
    routing_key: str | None


@dataclass(frozen=True, slots=True)
class Destinations:
    """Finds what a name stands for now; None when it stands for nothing."""

    queue: Callable[[str], Topic | None]
    """Where messages for that queue are appended."""
    refusing: Callable[[str], Overflow | None] = lambda queue: None
    """What that queue refuses, should it refuse anything."""
    delayed_exchange: Callable[[str], Topic | None] = lambda exchange: None
    """Where messages are appended that this exchange delays."""


class DeadLettering:
    """What one queue does with its dead letters (:class:`arneb_core.api.limits.DeadLetters`)."""

    def __init__(
        self,
        core: Core,
        router: Router,
        destinations: Destinations,
        now_ms: Callable[[], int],
        target: DeadLetterTarget,
    ) -> None:
        self._core = core
        self._router = router
        self._destinations = destinations
        self._now_ms = now_ms
        self.target = target
        """For what departs from now on."""
        self._undelivered: list[tuple[Departure, Deliveries, Consumer]] = []

    def __repr__(self) -> str:
        target = self.target
        return (
            f"<DeadLettering of {target.queue!r} to {target.exchange!r}, "
            f"{len(self._undelivered)} runs to try again>"
        )

    def departed(self, reason: Departure, run: Deliveries, holder: Consumer) -> None:
        """Put the run where it belongs, in the commit that takes it out of its queue."""
        admission = Admission()
        letters = Letters(partial(self._resolve, reason), admission)
        whole: list[Position] = []
        for position, entry in zip(run.positions, run.entries, strict=True):
            mask = None if run.masks is None else run.masks.get(position)
            if mask is None:
                whole.append(position)
            for message in _messages(entry, mask, self.target.queue):
                letters.put(message)
        appends = list(admission.close().items())
        unit = Unit(appends, passes_over_gone=True, has_batches=False)
        if whole:
            unit.acks.append((holder, whole))
        if run.masks:
            unit.parts.append((holder, run.masks))

        def done(error: CommitFailed | None) -> None:
            admission.over()
            if error is not None:
                LOGGER.warning(
                    "cannot move dead letters of queue %r, will retry: %s",
                    self.target.queue,
                    error,
                )
                self._undelivered.append((reason, run, holder))

        if self._core.commit(unit, done):
            admission.over()

    def retry(self) -> None:
        """Try again what could not be committed."""
        undelivered, self._undelivered = self._undelivered, []
        for reason, run, holder in undelivered:
            # If it is not, a seek came, and they are the queue's again.
            if holder.attached and not call(self.departed, reason, run, holder):
                self._undelivered.append((reason, run, holder))

    def dead_letter_refused(self, entries: Sequence[bytes], admission: Admission) -> None:
        """Address messages that never got into the queue, which was too full."""
        letters = Letters(partial(self._resolve, Departure.MAX_LENGTH), admission)
        for entry in entries:
            for message in _messages(entry, None, self.target.queue):
                letters.put(message)

    def _resolve(self, reason: Departure, kind: MessageKind) -> Resolved:
        """Where dead letters of this kind go."""
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
        try:
            found = self._router.route(
                target.exchange, letter.routing_key, letter.properties.headers, letter.copies
            )
        except AmqpError as error:
            # The exchange is not there (any more), or its bindings are hostile.
            LOGGER.debug("dropping dead letters of queue %r: %s", target.queue, error)
            return Resolved(None, {}, error.reply_code is ReplyCode.NOT_FOUND)
        queues = found.queues
        if not queues and target.exchange == DEFAULT_EXCHANGE:
            queues = (letter.routing_key,)  # a topic that a Pulsar client made, perhaps
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
        """How exchanges that delay get them, if some do."""
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


def _messages(entry: bytes, mask: int | None, queue: str) -> list[bytes]:
    """The messages of an entry as AMQP entries; of a batch, those in ``mask``."""
    if entry[1] == Origin.AMQP:
        return [entry]
    try:
        messages = codecs()[Origin(entry[1])].decode(entry)
    except ValueError:
        return []  # nobody can read it, so nobody can be told where it died
    wanted = -1 if mask is None else mask
    return [
        encode_message(message, queue)
        for index, message in enumerate(messages)
        if wanted >> index & 1
    ]
