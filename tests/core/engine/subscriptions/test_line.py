"""Consumers of one line get what is handed out to them in the order of the log."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import RecordingSink, publish, quiet


class Ordered(RecordingSink):
    """Writes down to whom each entry went, for all sinks of a line."""

    def __init__(self, name: str, line: list[tuple[int, str]]) -> None:
        super().__init__()
        self._name = name
        self._line = line

    def deliver(self, run: Deliveries) -> None:
        super().deliver(run)
        self._line += [(position, self._name) for position in run.positions]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), min_size=2, max_size=5),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.booleans(),
)
@settings(max_examples=30)
def test_each_line_is_in_order_and_everybody_gets_what_he_would_get_alone(
    rows: list[tuple[int, int]], runs: list[int], with_lines: bool
) -> None:
    async def play(path: Path) -> None:
        async with open_engine(path) as engine:
            await engine.create_topic("q", TopicSettings(durable=False))
            subscription = await engine.topic("q").subscribe("s")
            lines: list[list[tuple[int, str]]] = [[], []]
            for number, (line, prefetch) in enumerate(rows):
                spec = ConsumerSpec(
                    str(number),
                    unlimited=True,
                    entries_per_turn_max=1,
                    line=f"line {line}" if with_lines else None,
                    windows=(Window(prefetch),),
                )
                subscription.attach(spec, Ordered(str(number), lines[line]))
            for count in runs:
                await publish(engine, "q", [b"m"] * count)
                await quiet(engine)
            given_out = [position for line in lines for position, _ in line]
            assert len(given_out) == len(set(given_out))
            room = sum(prefetch or 99 for _, prefetch in rows)
            assert len(given_out) == min(sum(runs), room)
            if with_lines:
                assert all(line == sorted(line) for line in lines)

    with TemporaryDirectory() as directory:
        trio.run(play, Path(directory, "data"), clock=trio.testing.MockClock(autojump_threshold=0))


async def test_what_comes_back_goes_before_other_subscriptions_that_share_a_window(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        window = Window(1)
        consumers = []
        for name in ("q", "r"):
            await engine.create_topic(name, TopicSettings(durable=False))
            subscription = await engine.topic(name).subscribe("s")
            spec = ConsumerSpec(name, unlimited=True, windows=(window,))
            sink = RecordingSink()
            consumers.append((subscription.attach(spec, sink), sink))
        for name in ("q", "r"):
            await publish(engine, name, [b"m"])
        await quiet(engine)
        (one, sink), (_, other_sink) = consumers
        for _ in range(3):
            one.release(sink.positions[-1:], count=True)
            await quiet(engine)
        assert (len(sink.positions), other_sink.positions) == (4, [])
        one.acknowledge(sink.positions[-1:])
        await quiet(engine)
        assert len(other_sink.positions) == 1
