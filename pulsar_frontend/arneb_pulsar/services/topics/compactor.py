"""The compactor: walks topics and marks superseded messages, one topic after the other.

The rule: a message is superseded if the subscription ``__compaction`` has acknowledged it; so that
is durable, survives crashes and costs what any cursor costs. A message that deletes a key is marked
last, after the marks of the messages it deletes are durable.
"""

import logging
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NoReturn

import trio

from arneb_core.api.core import Core
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, CoreError
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import COMPACTION
from arneb_pulsar.namespaces.compaction import Compaction
from arneb_pulsar.services.clock import Clock

READ_BYTES: Final = 256 * 1024
TURN_ENTRIES: Final = 64
"""Entries looked into before others get their turn: about a millisecond."""

MARKED_AT_ONCE: Final = 4096

logger = logging.getLogger(__name__)


class Status(Enum):
    """How a topic's last compaction went."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """The status of a topic's last compaction, and what went wrong."""

    status: Status = Status.NOT_RUN
    error: str = ""
    removed: int = 0
    """Messages that the last successful one marked."""
    succeeded_ms: int = 0
    failed_ms: int = 0
    took_ms: int = 0


class Compactor:
    """Compacts the topics of one broker."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self._core = core
        self._clock = clock
        self._outcomes: dict[int, CompactionOutcome] = {}
        """By the id of the topic."""
        self._sizes: dict[int, int] = {}
        """Bytes of the log when it was last compacted, by the id of the topic."""
        self._wanted: dict[int, Topic] = {}
        self._more = trio.Event()

    def __repr__(self) -> str:
        return f"<Compactor {len(self._wanted)} waiting>"

    def outcome(self, topic: Topic) -> CompactionOutcome:
        """Return how the topic's last compaction since the broker's start went."""
        return self._outcomes.get(topic.id, CompactionOutcome())

    def compacted_bytes(self, topic: Topic) -> int:
        """Return the log's bytes at its last compaction since the broker's start."""
        return self._sizes.get(topic.id, 0)

    def want(self, topic: Topic) -> bool:
        """Have a topic compacted; return False if that is under way."""
        if self.outcome(topic).status is Status.RUNNING:
            return False
        before = self.outcome(topic)
        self._outcomes[topic.id] = replace(before, status=Status.RUNNING, error="")
        self._wanted[topic.id] = topic
        self._more.set()
        return True

    def forget_except(self, topics: Container[int]) -> None:
        """Forget all topics but these ids: the others are gone."""
        for known in (self._outcomes, self._sizes):
            for topic in [each for each in known if each not in topics]:
                del known[topic]

    async def run(self) -> NoReturn:
        """Compact what is wanted until cancelled."""
        while True:
            while self._wanted:
                _, topic = self._wanted.popitem()
                await self._attempt(topic)
            self._more = trio.Event()
            await self._more.wait()

    async def _attempt(self, topic: Topic) -> None:
        before, began_ms = self.outcome(topic), self._clock.wall_ms()
        failure = ""
        removed = 0
        try:
            removed = await self.compact(topic)
        except CoreError as error:
            logger.warning("cannot compact topic %s: %s", topic.name, error)
            failure = str(error)
        except Exception:
            # A defect of ours; everything else continues.
            logger.exception("unexpected error while compacting topic %s", topic.name)
            failure = "Internal error"
        now_ms = self._clock.wall_ms()
        if failure:
            outcome = replace(before, status=Status.ERROR, error=failure, failed_ms=now_ms)
        else:
            took_ms = now_ms - began_ms
            outcome = replace(
                before,
                status=Status.SUCCESS,
                removed=removed,
                succeeded_ms=now_ms,
                took_ms=took_ms,
            )
        if self._core.topics.get(topic.name) is topic:
            self._outcomes[topic.id] = outcome
        else:
            self._outcomes.pop(topic.id, None)
            self._sizes.pop(topic.id, None)

    async def compact(self, topic: Topic) -> int:
        """Mark superseded messages; return how many. Raises :class:`CoreError`."""
        marks = await topic.subscribe(COMPACTION, initial=InitialPosition.EARLIEST)
        horizon = topic.last
        if horizon is None:
            return 0
        self._sizes[topic.id] = sum(each.bytes for each in topic.ledgers())
        found = await _walk(topic, marks, horizon)
        consumer = marks.attach(ConsumerSpec(name=COMPACTION), _Nowhere())
        try:
            await _mark(consumer, found, found.superseded)
            await _mark(consumer, found, found.spent)
        finally:
            consumer.detach()
        masks = (*found.superseded.values(), *found.spent.values())
        return sum(map(int.bit_count, masks))


async def _walk(topic: Topic, marks: Subscription, horizon: Position) -> Compaction:
    """Look into all entries up to ``horizon`` that are not superseded yet."""
    found = Compaction()
    after: Position | None = None
    while waiting := marks.unacknowledged(1024, after):
        runs = await topic.read(waiting[0], READ_BYTES)
        entries = {
            Position(first + index): entry for first, run in runs for index, entry in enumerate(run)
        }
        # Missing entries were trimmed meanwhile; those after the runs come next.
        reached = max(entries, default=waiting[-1])
        for count, position in enumerate(waiting):
            if position > min(reached, horizon):
                break
            if entry := entries.get(position):
                found.add(position, entry)
            if count % TURN_ENTRIES == TURN_ENTRIES - 1:
                await trio.lowlevel.checkpoint()
        after = min(reached, waiting[-1])
        if after >= horizon:
            break
    return found


async def _mark(consumer: Consumer, found: Compaction, masks: Mapping[Position, int]) -> None:
    """Mark messages; durable when this returns. Raises :class:`CommitFailed`."""
    steps = sorted(masks.items())
    for at in range(0, len(steps), MARKED_AT_ONCE):
        marking = _Marking()
        piece = steps[at : at + MARKED_AT_ONCE]
        whole = [position for position, mask in piece if found.is_whole(position, mask)]
        parts = [(position, mask) for position, mask in piece if not found.is_whole(position, mask)]
        marking.waiting = len(parts) + 1
        for position, mask in parts:
            consumer.acknowledge_messages(position, mask, marking.done)
        consumer.acknowledge(whole, marking.done)
        await marking.finished.wait()
        if marking.failure is not None:
            raise marking.failure


class _Marking:
    """Acknowledgements under way."""

    def __init__(self) -> None:
        self.waiting = 0
        self.failure: CommitFailed | None = None
        self.finished = trio.Event()

    def __repr__(self) -> str:
        return f"<_Marking, {self.waiting} waiting>"

    def done(self, error: CommitFailed | None) -> None:
        """Note that one of them is durable, or failed."""
        self.failure = self.failure or error
        self.waiting -= 1
        if not self.waiting:
            self.finished.set()


class _Nowhere:
    """The sink of the marking consumer, which asks for nothing and gets nothing."""

    def __repr__(self) -> str:
        return "<sink of the compaction>"

    def deliver(self, run: Deliveries) -> None:
        raise AssertionError("it has no permits")

    def active_changed(self, active: bool) -> None:
        """Nothing depends on it."""

    def closed_by_core(self, reason: str) -> None:
        """Nothing to do: the marks go with the topic."""
