"""Dead letters: what departs from a queue, on its way through the dead letter exchange.

The rule: one commit takes a message out of its queue and puts it into those that its dead
letter exchange leads to, so that it is never lost and never there twice. A message that no
queue takes, or that would go round in a circle by itself, is gone, as in RabbitMQ.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from arneb_amqp.codec import encode_message
from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.death import bury
from arneb_amqp.routing.delayed import delay_ms_of, delayed
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.routing.router import Router
from arneb_amqp.topology.forwarding import head_of
from arneb_amqp.topology.overflow import Gate
from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.route import join_route, split_route
from arneb_core.api.callbacks import call
from arneb_core.api.codec import codecs
from arneb_core.api.consumers import Consumer
from arneb_core.api.core import Core, Unit
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.entry import (
    HEADER_BYTES,
    PRIORITY_SHIFT,
    EntryFlag,
    Origin,
    read_header,
)
from arneb_core.api.errors import CommitFailed
from arneb_core.api.limits import Departure
from arneb_core.api.position import Position
from arneb_core.api.topics import Topic

if TYPE_CHECKING:
    from arneb_amqp.topology.queues.queue import Queue

LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a queue's dead letters go."""

    queue: str
    exchange: str
    routing_key: str | None


@dataclass(frozen=True, slots=True)
class Way:
    """Where messages of one kind go, and as what: their letters differ in the payload only."""

    head: bytes
    """Header and route."""
    properties: bytes
    topics: Sequence[Topic]
    refusing: Sequence["Queue"]
    """Those that take it only if they have room."""
    delayed: "Way | None" = None
    """To exchanges that keep them for a while, if some do."""


_Kind = tuple[int, int, bytes, bytes]
"""Flags, priority, route and properties of a message. Most runs are of one kind, and to bury a
message costs a hundred times as much as to write the letter."""


class DeadLetterOffice:
    """The heir of one queue (:class:`arneb_core.api.limits.DeadLetters`)."""

    def __init__(
        self,
        core: Core,
        router: Router,
        topic_of_queue: Callable[[str], Topic | None],
        now_ms: Callable[[], int],
        target: Target,
        topic_of_delayed: Callable[[str], Topic | None] = lambda exchange: None,
        refusing: Callable[[str], "Queue | None"] = lambda queue: None,
    ) -> None:
        self._core = core
        self._router = router
        self._topic_of_queue = topic_of_queue
        self._now_ms = now_ms
        self._target = target
        self._topic_of_delayed = topic_of_delayed
        self._refusing = refusing
        self._undelivered: list[tuple[Departure, Deliveries, Consumer]] = []

    def __repr__(self) -> str:
        return f"<DeadLetterOffice of {self._target.queue!r} for {self._target.exchange!r}>"

    def departed(self, reason: Departure, run: Deliveries, estate: Consumer) -> None:
        """Put the run where it belongs, in the commit that takes it out of its queue."""
        self._commit(reason, run, estate)

    def _commit(self, reason: Departure, run: Deliveries, estate: Consumer) -> None:
        gate = Gate()
        ways: dict[_Kind, Way | None] = {}
        whole: list[Position] = []
        for place, entry in zip(run.positions, run.entries, strict=True):
            mask = None if run.masks is None else run.masks.get(place)
            if mask is None:
                whole.append(place)
            for message in _messages(entry, mask, self._target.queue):
                self._address(message, reason, gate, ways)
        appends = list(gate.close().items())
        unit = Unit(appends, passes_over_gone=True, has_batches=False)
        if whole:
            unit.acks.append((estate, whole))
        if run.masks:
            unit.parts.append((estate, run.masks))

        def done(error: CommitFailed | None) -> None:
            gate.over()
            if error is not None:
                LOGGER.warning(
                    "cannot move dead letters of queue %r, will retry: %s",
                    self._target.queue,
                    error,
                )
                self._undelivered.append((reason, run, estate))

        if self._core.commit(unit, done):
            gate.over()

    def retry(self) -> None:
        """Try again what could not be committed."""
        undelivered, self._undelivered = self._undelivered, []
        for reason, run, estate in undelivered:
            # If it is not, a seek came, and they are the queue's again.
            if estate.attached and not call(self._commit, reason, run, estate):
                self._undelivered.append((reason, run, estate))

    def bury_refused(self, entry: bytes, gate: Gate) -> None:
        """Address one message that never got into the queue, which was too full."""
        for message in _messages(entry, None, self._target.queue):
            self._address(message, Departure.MAX_LENGTH, gate, {})

    def _address(
        self,
        entry: bytes,
        reason: Departure,
        gate: Gate,
        ways: dict[_Kind, Way | None],
    ) -> None:
        header = read_header(entry)
        start = HEADER_BYTES + header.hint
        kind = header.flags, header.priority, entry[HEADER_BYTES:start], properties_of(entry, start)
        if kind not in ways:
            ways[kind] = self._way(kind, reason)
        way = ways[kind]
        while way is not None:
            letter = way.head + with_properties(entry[start:], way.properties)
            for topic in way.topics:
                gate.appends.setdefault(topic, []).append(letter)
            for queue in way.refusing:
                gate.offer(queue, letter)
            way = way.delayed

    def _way(self, kind: _Kind, reason: Departure) -> Way | None:
        flags, priority, route, properties = kind
        target, now_ms = self._target, self._now_ms()
        burial = bury(
            decode_properties(properties),
            split_route(route),
            queue=target.queue,
            reason=reason,
            now_s=now_ms // 1000,
            routing_key=target.routing_key,
            died_before=bool(flags & EntryFlag.DEAD_LETTERED),
        )
        try:
            found = self._router.route(
                target.exchange, burial.routing_key, burial.properties.headers, burial.copies
            )
        except AmqpError as error:
            # The exchange is not there (any more), or its bindings are hostile.
            LOGGER.debug("dropping dead letters of queue %r: %s", target.queue, error)
            return None
        queues = found.queues
        if not queues and target.exchange == DEFAULT_EXCHANGE:
            queues = (burial.routing_key,)  # a topic that a Pulsar client made, perhaps
        raw = join_route(target.exchange, burial.routing_key)
        head = head_of(raw, flags | EntryFlag.DEAD_LETTERED | priority << PRIORITY_SHIFT)
        later = None
        headers = burial.properties.headers or {}
        if found.delayed_by and (delay_ms := delay_ms_of(headers)):
            kept = [self._topic_of_delayed(name) for name in found.delayed_by]
            later = Way(
                head(now_ms, now_ms + delay_ms, 0),
                encode_properties(replace(burial.properties, headers=delayed(headers, delay_ms))),
                [topic for topic in kept if topic is not None],
                (),
            )
        refusing: list[Queue] = []
        topics: list[Topic] = []
        for name in queues:
            if reason is not Departure.REJECTED and burial.closes_circle(name):
                continue
            if (queue := self._refusing(name)) is not None:
                refusing.append(queue)
            elif (topic := self._topic_of_queue(name)) is not None:
                topics.append(topic)
        return Way(
            head(now_ms, 0, 0), encode_properties(burial.properties), topics, refusing, later
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
