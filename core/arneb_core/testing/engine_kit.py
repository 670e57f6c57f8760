"""Helpers of the engine's tests: a recording sink, and a way to wait until all is quiet."""

from collections.abc import Callable
from dataclasses import dataclass, field

import trio
import trio.testing

from arneb_core.api.core import Unit
from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.engine.engine import Engine


def make_entry(body: bytes, messages: int = 1, publish_time_ms: int = 0, key: bytes = b"") -> bytes:
    """Make an entry as a frontend would."""
    header = EntryHeader(
        Origin.AMQP,
        messages=messages,
        publish_time_ms=publish_time_ms,
        key_hash=key_hash(key),
    )
    return header.pack() + body


def body_of(entry: bytes) -> bytes:
    """Return the body that :func:`make_entry` was given."""
    return entry[40:]


@dataclass
class RecordingSink:
    """Keeps every run that is delivered to it."""

    runs: list[Deliveries] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    active: list[bool] = field(default_factory=list)

    def deliver(self, run: Deliveries) -> None:
        self.runs.append(run)

    def active_changed(self, active: bool) -> None:
        self.active.append(active)

    def closed_by_core(self, reason: str) -> None:
        self.closed.append(reason)

    @property
    def positions(self) -> list[Position]:
        return [position for run in self.runs for position in run.positions]

    @property
    def bodies(self) -> list[bytes]:
        return [body_of(entry) for run in self.runs for entry in run.entries]

    @property
    def redelivered(self) -> set[Position]:
        return {position for run in self.runs for position in run.redelivered or ()}


async def quiet(engine: Engine) -> None:
    """Wait until no commit and no read is under way and nothing is left to do."""
    while True:
        await engine.committed(Unit())
        before = engine.statistics()
        await trio.testing.wait_all_tasks_blocked(0.001)
        if engine.is_quiet and engine.statistics() == before:
            return


async def occupy(engine: Engine, name: str) -> int:
    """Append entry by entry to a topic while commits are held back, until as many are under way as
    the commit log takes; return how many. Later appends wait."""
    for _ in range(engine.commits_at_once):
        engine.append(engine.topic(name), [make_entry(b"")], lambda error, first: None)
        await trio.testing.wait_all_tasks_blocked()
    return engine.commits_at_once


async def pass_time(engine: Engine, seconds: float) -> None:
    """Let a test's clock run on, with the engine at rest before and after."""
    await quiet(engine)
    await trio.sleep(seconds)
    await quiet(engine)


async def until(engine: Engine, what: Callable[[], bool]) -> None:
    """Let a test's clock run on until ``what`` holds, for at least a minute."""
    for _ in range(600):
        if what():
            return
        await pass_time(engine, 0.1)
    raise AssertionError("it never came to be")


async def publish(engine: Engine, name: str, bodies: list[bytes]) -> Position:
    """Append plain entries and wait until they are durable; return the first one's position."""
    return await append(engine, name, [make_entry(body) for body in bodies])


async def append(engine: Engine, name: str, entries: list[bytes]) -> Position:
    """Append entries and wait until they are durable; return the first one's position."""
    placed: list[Position] = []
    outcome = Outcome()

    def done(error: Exception | None, first: Position) -> None:
        placed.append(first)
        outcome(error)

    engine.append(engine.topic(name), entries, done)
    error = await outcome.wait()
    if error is not None:
        raise error
    return placed[0]


def attach(
    subscription: Subscription, *, permits: int = 0, **spec: object
) -> tuple["object", RecordingSink]:
    """Attach a consumer with a recording sink, and with permits if it counts them."""
    sink = RecordingSink()
    consumer = subscription.attach(ConsumerSpec(**{"name": "c", **spec}), sink)  # type: ignore[arg-type]
    if permits:
        consumer.flow(permits)
    return consumer, sink


class Outcome:
    """A ``done`` callback that a test can wait for."""

    def __init__(self) -> None:
        self.calls: list[Exception | None] = []
        self._event = trio.Event()

    def __repr__(self) -> str:
        return f"<Outcome {self.calls}>"

    def __call__(self, error: Exception | None, *_: object) -> None:
        self.calls.append(error)
        self._event.set()

    async def wait(self) -> Exception | None:
        await self._event.wait()
        assert len(self.calls) == 1, "told more than once"
        return self.calls[0]
