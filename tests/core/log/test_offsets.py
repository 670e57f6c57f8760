"""Offsets: every message has one number, whatever is trimmed, restarted or batched."""

from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import Position, ledger_of
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import append, make_entry, quiet

pytestmark = pytest.mark.real_time

RUNS = st.lists(st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=1, max_size=6), max_size=12)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(runs=RUNS, more=RUNS, kept_bytes=st.sampled_from([-1, 200, 1_000]))
def test_every_message_has_one_offset_for_ever(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[list[int]],
    more: list[list[int]],
    kept_bytes: int,
) -> None:
    path = tmp_path_factory.mktemp("offsets") / "data"
    trio.run(_play, path, runs, more, kept_bytes)


async def _play(path: Path, runs: list[list[int]], more: list[list[int]], kept_bytes: int) -> None:
    known: dict[int, Position] = {}
    asked = TopicSettings(True, -1, kept_bytes, ledger_bytes_max=150)
    for attempt, part in enumerate((runs, more)):
        async with open_engine(path) as engine:
            topic = engine.topic("s") if attempt else await engine.create_topic("s", asked)
            count = max((offset + 1 for offset in known), default=0)
            for sizes in part:
                first = await append(engine, "s", [make_entry(b"x", size) for size in sizes])
                for index, size in enumerate(sizes):
                    for _ in range(size):
                        known[count] = Position(first + index)
                        count += 1
            await quiet(engine)
            floor = topic.first
            for offset, position in known.items():
                if floor is not None and position >= floor:
                    assert await topic.find_offset(offset) == position
                    lowest = min(each for each, at in known.items() if at == position)
                    assert await topic.offset_of(position) == lowest
                    base = topic.first_offset(ledger_of(position))
                    assert base is not None and base <= offset
                else:
                    assert await topic.find_offset(offset) == floor
            assert await topic.find_offset(count) is None
            assert await topic.offset_of(topic.log.ledgers.next_append) == count
            assert topic.messages == sum(
                messages_in(entry)
                for _, entries in (await topic.read(floor, 1 << 30) if floor else [])
                for entry in entries
            )
