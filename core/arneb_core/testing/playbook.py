"""Playbooks of a subscription: scripts of its inputs and of the effects it must want.

``play >> input`` tells the machine something; ``play << expected`` takes the next effect and
compares. A playbook left with an unread effect fails: ``with Playbook() as play: ...``. There is no
engine, store or event loop; the log is in memory, the clock stands still, and reads are answered
when the script says so.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import BEFORE_ALL, FIRST_LEDGER, Position, position_at
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.cursor.acks import AckState
from arneb_core.cursor.cursor import Cursor
from arneb_core.delayed.index import DelayedIndex, IndexReader
from arneb_core.delayed.memory import InMemoryDelayedDeliveryTracker
from arneb_core.log.durable_log import DurableLog, Runs
from arneb_core.log.durable_log import Read as ReadThen
from arneb_core.log.ledgers import LedgerIndex
from arneb_core.log.tail_cache import CacheBudget
from arneb_core.store.format.schema import TopicId
from arneb_core.subscription.consumers.consumer import AttachedConsumer
from arneb_core.subscription.entries.delayed_entries import DelayedEntries
from arneb_core.subscription.inputs import Appended, Attached, Input, Inputs, ReadDone
from arneb_core.subscription.machine import SubscriptionMachine
from arneb_core.subscription.sources.backlog import AheadBudget
from arneb_core.subscription.state.effects import (
    ActiveChanged,
    Closed,
    Deliver,
    Depart,
    Effect,
    Outbox,
    Read,
)
from arneb_core.subscription.state.state import SubscriptionState

NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Delivered:
    """A :class:`.Deliver` in short: to whom, which entries, and which of these may have been seen
    before."""

    consumer: str
    numbers: tuple[int, ...]
    redelivered: tuple[int, ...] = ()


@dataclass(frozen=True)
class Departed:
    """A :class:`.Depart` in short."""

    reason: str
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Active:
    """An :class:`.ActiveChanged` in short."""

    consumer: str
    is_active: bool


@dataclass(frozen=True)
class PutOut:
    """A :class:`.Closed` in short."""

    consumer: str
    reason: str


def to(consumer: str, *numbers: int, redelivered: Sequence[int] = ()) -> Delivered:
    """Expect the entries of these numbers to go to a consumer."""
    return Delivered(consumer, numbers, tuple(redelivered))


def position(number: int) -> Position:
    """Return the position of the entry with that number."""
    return position_at(FIRST_LEDGER, number)


def positions(*numbers: int) -> list[Position]:
    """Return the positions of the entries with these numbers."""
    return list(map(position, numbers))


class NoReader:
    """A reader that must not be used: the machine reads by effects."""

    def read(
        self, topic_id: TopicId, position: Position, last: Position, bytes_max: int, then: ReadThen
    ) -> None:
        raise AssertionError("a subscription has it read by an effect")

    def read_positions(
        self, topic_id: TopicId, positions: Sequence[Position], bytes_max: int, then: ReadThen
    ) -> None:
        raise AssertionError("what comes due is in memory here")


class Playbook:
    """A machine, its log, and the effects it wants."""

    def __init__(self, *, is_hot: bool = True, holds_back: bool = False) -> None:
        """``is_hot``: appended entries stay in memory; otherwise they have to be read."""
        self.now_ms = NOW_MS
        self._is_hot = is_hot
        self.entries: list[bytes] = []
        self.log = DurableLog(TopicId(1), LedgerIndex(), NoReader(), CacheBudget())
        self.effects: deque[Effect] = deque()
        cursor = Cursor(self.log, AckState(self.log.ledgers, BEFORE_ALL))
        self.state = SubscriptionState(
            "t",
            "s",
            self.log,
            cursor,
            Outbox(self.effects.append),
            lambda: self.now_ms,
            AheadBudget(),
            durable=True,
        )
        self.machine = SubscriptionMachine(self.state)
        self.inputs = Inputs(self.machine)
        self.answer: object = None
        """What the latest input returned."""
        self.index = self._index() if holds_back else None
        if self.index is not None:
            self.machine.hold_back(self.index)

    def __repr__(self) -> str:
        return f"<Playbook of {self.machine!r}, {len(self.effects)} effects>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            assert not self.effects, f"effects nobody expected: {list(self.effects)}"

    def __rshift__(self, event: Input) -> Self:
        self.answer = self.inputs.tell(event)
        return self

    def __lshift__(self, expected: object) -> Self:
        assert self.effects, f"expected {expected}, but there was no effect"
        got = in_short(self.effects.popleft())
        assert got == expected, f"expected {expected}, got {got}"
        return self

    # What happens outside

    def append(self, *bodies: bytes, **header: int) -> Appended:
        """Put entries into the log; return what to tell the machine of it."""
        fields = {"publish_time_ms": self.now_ms, **header}
        made = [EntryHeader(Origin.AMQP, **fields).pack() + body for body in bodies]  # type: ignore[arg-type]
        run = self.log.plan(made, None, self.now_ms)
        self.log.planned.append(run.ledger)
        self.log.confirm(run, cache=self._is_hot)
        self.entries += made
        if self.index is not None:
            self.index.confirm(run, self.now_ms)
        return Appended(run.first, made)

    def attach(self, name: str, permits: int = 0, **fields: object) -> AttachedConsumer:
        """Attach a consumer, and grant it permits."""
        self >> Attached(ConsumerSpec(name, **fields))  # type: ignore[arg-type]
        consumer = self.inputs.consumers[name]
        if permits:
            consumer.flow(permits)
        return consumer

    def read(self, effect: Read) -> ReadDone:
        """Answer a read, with one entry more than asked for."""
        first = effect.position - position(0)
        runs: Runs = [(effect.position, self.entries[first : first + 2])]
        return ReadDone(effect.number, runs)

    def take(self, kind: type[Effect]) -> Effect:
        """Take the next effect, which must be of that kind."""
        assert self.effects, f"expected {kind.__name__}, but there was no effect"
        got = self.effects.popleft()
        assert isinstance(got, kind), f"expected {kind.__name__}, got {got}"
        return got

    def skip(self, *kinds: type[Effect]) -> Self:
        """Drop effects of these kinds, which the script is not about."""
        kept = [each for each in self.effects if not isinstance(each, kinds)]
        self.effects.clear()
        self.effects.extend(kept)
        return self

    def _index(self) -> DelayedIndex:
        def readers() -> list[IndexReader]:
            delayed = self.machine.ready.delayed
            return [delayed] if isinstance(delayed, DelayedEntries) else []

        return DelayedIndex(
            "t",
            self.log,
            InMemoryDelayedDeliveryTracker(),
            DelayedSettings(),
            CacheBudget(),
            readers,
            self.now_ms,
        )


def in_short(effect: Effect) -> object:
    """Return an effect as scripts write it: consumers by name, entries by number."""
    match effect:
        case Deliver(consumer, run):
            return Delivered(
                consumer.name, _numbers(run.positions), _numbers(sorted(run.redelivered or ()))
            )
        case Depart(reason, run):
            return Departed(reason.value, _numbers(run.positions))
        case ActiveChanged(consumer, is_active):
            return Active(consumer.name, is_active)
        case Closed(consumer, reason):
            return PutOut(consumer.name, reason)
        case _:
            return effect


def _numbers(positions: Sequence[Position]) -> tuple[int, ...]:
    return tuple(each - position(0) for each in positions)
