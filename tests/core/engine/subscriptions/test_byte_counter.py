"""The byte counter counts the bytes of a queue's ready entries, whatever happens to them."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import append, attach, body_of, make_entry, quiet

WEIGHED = Limits(size_of=lambda entry: len(body_of(entry)))

acts = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.integers(0, 9), min_size=1, max_size=5)),
    st.tuples(st.sampled_from(("ack", "release", "reject")), st.integers(0, 5)),
    st.tuples(st.sampled_from(("pull", "flow", "purge", "detach", "seek", "elsewhere")), st.none()),
)


class Play:
    """One consumer, and what a queue should weigh."""

    def __init__(self, subscription: Subscription, *, durable: bool) -> None:
        self.subscription = subscription
        self.durable = durable
        self.sizes: dict[Position, int] = {}
        self.done: set[Position] = set()
        self.out: set[Position] = set()
        self.attach()

    def attach(self) -> None:
        self.consumer, self.sink = attach(self.subscription, permits=2)

    def see(self) -> None:
        """What has been delivered is out."""
        self.out |= set(self.sink.positions)
        self.sink.runs.clear()

    @property
    def ready(self) -> int:
        gone = self.done | self.out
        return sum(size for position, size in self.sizes.items() if position not in gone)


async def act(play: Play, do: str, how_many: int) -> None:
    consumer, some = play.consumer, sorted(play.out)[:how_many]
    if do == "flow":
        consumer.flow(3)  # type: ignore[attr-defined]
    elif do == "pull":
        run = await consumer.pull()  # type: ignore[attr-defined]
        play.out |= set(run.positions) if run else set()
    elif do == "purge":
        play.done |= play.sizes.keys() - play.out
        await play.subscription.purge()
    elif do == "detach":
        consumer.detach()  # type: ignore[attr-defined]
        play.out.clear()
        play.attach()
    elif do == "seek":
        if play.sizes and play.durable:  # otherwise what is done with is gone
            await play.subscription.seek(min(play.sizes))
            play.done.clear()
            play.out.clear()
            play.attach()
    elif do == "elsewhere":
        ready = sorted(play.sizes.keys() - play.done - play.out)[-1:]
        consumer.acknowledge(ready)  # type: ignore[attr-defined]
        play.done |= set(ready)
    else:
        play.out -= set(some)
        if do == "release":
            consumer.release(some, count=False)  # type: ignore[attr-defined]
        else:
            play.done |= set(some)
            (consumer.acknowledge if do == "ack" else consumer.reject)(some)  # type: ignore[attr-defined]


@given(st.lists(acts, max_size=20), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_it_is_the_sum_of_what_is_ready(
    plan: list[tuple[str, object]], durable: bool, late: bool
) -> None:
    """``late``: nobody asks for the count before much has happened."""

    async def run(path: Path) -> None:
        async with open_engine(path) as engine:
            await engine.create_topic("q", TopicSettings(durable=durable))
            made = await engine.topic("q").subscribe("s", initial=InitialPosition.EARLIEST)
            play = Play(made, durable=durable)
            if not late:
                made.limit(WEIGHED, None)
            for index, (do, what) in enumerate(plan):
                if late and index == len(plan) // 2:
                    made.limit(WEIGHED, None)
                if do == "publish":
                    assert isinstance(what, list)
                    first = await append(engine, "q", [make_entry(bytes(size)) for size in what])
                    play.sizes |= {Position(first + n): size for n, size in enumerate(what)}
                else:
                    await act(play, do, what if isinstance(what, int) else 0)
                await quiet(engine)
                play.see()
                if late and index < len(plan) // 2:
                    continue
                if made.ready_bytes != play.ready:
                    await quiet(engine)  # it was being read
                assert made.ready_bytes == play.ready, f"after {do} at {index}"

    with TemporaryDirectory() as directory:
        trio.run(run, Path(directory, "data"), clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_start_weighs_what_is_there(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        await engine.create_topic("q", TopicSettings(durable=True))
        made = await engine.topic("q").subscribe("s", initial=InitialPosition.EARLIEST)
        first = await append(engine, "q", [make_entry(bytes(size)) for size in (1, 20, 300)])
        consumer = attach(made, permits=3)[0]
        await quiet(engine)
        consumer.acknowledge([Position(first + 1)])  # type: ignore[attr-defined]
    async with open_engine(data_dir) as engine:
        found = engine.topic("q").subscriptions["s"]
        found.limit(WEIGHED, None)
        assert found.ready_bytes == 0, "it is being read"
        await quiet(engine)
        assert found.ready_bytes == 301
