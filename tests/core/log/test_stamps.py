"""Stamps: none goes backwards inside a log, whatever the clock does and whoever appends."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin, read_header
from arneb_core.api.entries.expiry import lives_no_time
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_core.store.format.bodies import SHARED_BYTES_MIN
from arneb_core.store.format.schema import Table
from arneb_core.testing.engine_kit import Outcome, append, attach, quiet

NAMES = ("a", "b", "memory")


def entry(stamp_ms: int, body: bytes = b"", **times_ms: int) -> bytes:
    return EntryHeader(Origin.AMQP, publish_time_ms=stamp_ms, **times_ms).pack() + body


async def stamps_of(engine: Engine, name: str) -> list[int]:
    topic = engine.topic(name)
    held = await topic.subscribe("look", initial=InitialPosition.EARLIEST)
    consumer, sink = attach(held, permits=1000)
    await quiet(engine)
    consumer.detach()  # type: ignore[attr-defined]
    return [read_header(each).publish_time_ms for run in sink.runs for each in run.entries]


class Play:
    """Random appends by a random clock, over restarts."""

    def __init__(self, path: Path, steps: Sequence[tuple[str, ...] | tuple[str, int]]) -> None:
        self.path = path
        self.steps = list(steps)
        self.now_ms = 1_000

    async def run(self) -> None:
        while True:
            async with open_engine(self.path, now_ms=lambda: self.now_ms) as engine:
                for name in NAMES:
                    if name not in engine.topics:
                        await engine.create_topic(name, TopicSettings(durable=name != "memory"))
                    # What nobody waits for would not stay.
                    await engine.topic(name).subscribe("keep", initial=InitialPosition.EARLIEST)
                if not await self._play(engine):
                    for name in NAMES:
                        stamps = await stamps_of(engine, name)
                        assert stamps == sorted(stamps), name
                    return

    async def _play(self, engine: Engine) -> bool:
        """True when a restart is wanted."""
        waiting: list[Outcome] = []
        while self.steps:
            match self.steps.pop(0):
                case ("set", int(ms)):
                    self.now_ms = max(1, self.now_ms + ms)
                case ("restart",):
                    await quiet(engine)
                    return True
                case ("unit",):
                    unit, done = Unit(), Outcome()
                    made = entry(self.now_ms, bytes(SHARED_BYTES_MIN))
                    unit.appends += [(engine.topic(name), [made]) for name in NAMES]
                    engine.commit(unit, done)
                    waiting.append(done)
                case (name,):
                    done = Outcome()
                    engine.append(engine.topic(name), [entry(self.now_ms)] * 2, done)
                    waiting.append(done)
        for each in waiting:
            assert await each.wait() is None
        await quiet(engine)
        return False


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(-2_000, 2_000)),
        st.tuples(st.sampled_from([*NAMES, "unit", "restart"])),
    ),
    max_size=12,
)


@given(steps=STEPS)
@example(steps=[("a",), ("restart",), ("set", -500), ("a",)])
@example(steps=[("a",), ("set", -500), ("unit",), ("memory",), ("b",)])
@settings(max_examples=60)
def test_no_stamp_goes_backwards_inside_a_log(steps: list[tuple[str, int] | tuple[str]]) -> None:
    with TemporaryDirectory() as position:
        trio.run(Play(Path(position) / "data", steps).run, clock=trio.testing.MockClock())


async def test_what_stands_in_several_topics_stays_one_body(data_dir: Path) -> None:
    async with open_engine(data_dir, now_ms=lambda: 500) as engine:
        for name in ("a", "b"):
            await engine.create_topic(name, TopicSettings())
        await append(engine, "a", [entry(9_000)])
        large = entry(500, bytes(2 * SHARED_BYTES_MIN))
        await engine.committed(Unit([(engine.topic(name), [large]) for name in ("a", "b")]))
        assert await stamps_of(engine, "b") == [9_000]
    with Store.open(data_dir) as store, store.snapshot() as snapshot:
        assert snapshot.rows(Table.BODIES) == 1


async def test_a_message_lives_its_time_from_its_stamp_and_waits_by_the_clock(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir, now_ms=lambda: 500) as engine:
        await engine.create_topic("a", TopicSettings(durable=False))
        await append(engine, "a", [entry(9_000)])
        await append(engine, "a", [entry(500, deliver_at_ms=700, expires_at_ms=1_500)])
        held = await engine.topic("a").subscribe("s", initial=InitialPosition.EARLIEST)
        _, sink = attach(held, permits=10)
        await quiet(engine)
        second = sink.runs[-1].entries[-1]
    header = read_header(second)
    assert (header.publish_time_ms, header.deliver_at_ms) == (9_000, 700)
    assert header.expires_at_ms == 10_000
    assert not lives_no_time(second, None)
