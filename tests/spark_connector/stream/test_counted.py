"""A query by ``path`` over batches of any size: what it had read and is gone is no loss."""

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark_connector.stream.fake_broker import FakeBroker
from tests.spark_connector.stream.micro_batches import Checkpoint, Run

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import Position
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.stored_blocks import StoredBlock
from pyspark_arneb.errors import DataLossError
from pyspark_arneb.log.counted import CountedSource
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.stream.admission import Limits
from pyspark_arneb.stream.options import stream_options
from pyspark_arneb.stream.planner import StreamPlanner

APPEND = st.tuples(st.just("append"), st.integers(1, 4), st.integers(1, 5))
STEPS = st.lists(APPEND | st.sampled_from(["roll", "trigger", "restart"]), max_size=14)


def directory() -> FakeBroker:
    broker = FakeBroker(is_directory=True)
    broker.create("a")
    return broker


def run(broker: FakeBroker, checkpoint: Checkpoint, limits: Limits) -> Run:
    options = stream_options({"path": "/nowhere", "topic": "a", "startingOffsets": "earliest"})
    planner = StreamPlanner(
        options,
        CountedSource(broker),
        None,
        now_s=lambda: broker.now_s,
        new_name=lambda: "unused",
    )
    return Run(checkpoint, planner, broker, limits)


@given(STEPS, st.builds(Limits, st.none() | st.integers(1, 6)))
def test_a_trimmed_ledger_is_a_loss_if_it_was_not_read_to_its_end(
    steps: list[tuple[str, int, int] | str], limits: Limits
) -> None:
    """Nothing keeps what the query has not read: whole ledgers go as soon as they are closed."""
    broker, checkpoint, numbers = directory(), Checkpoint(), count()
    query = run(broker, checkpoint, limits)
    query.planner.initial()
    unread: list[bytes] = []
    for step in [*steps, "trigger"]:
        match step:
            case (_, amount, messages):
                found = [b"%d" % next(numbers) for _ in range(amount)]
                broker.append("a", found, messages)
                unread += found
            case "roll":
                broker.roll("a")
                if unread:
                    with pytest.raises(DataLossError, match="topic a from"):
                        query.trigger()
                    return
            case "restart" if checkpoint.finished:
                query = run(broker, checkpoint, limits)
            case "trigger":
                while query.trigger():
                    pass
                unread.clear()
    assert checkpoint.rows == [b"%d" % each for each in range(next(numbers))]


@given(st.lists(st.lists(st.integers(1, 5), max_size=6), max_size=6), st.sets(st.integers(0, 5)))
def test_a_counted_source_counts_what_open_ledgers_hold_and_reads_them_once(
    appended: list[list[int]], rolls: set[int]
) -> None:
    broker = directory()
    first_read: list[Position] = []
    read = broker.read

    def watched(
        topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        first_read.append(first)
        return read(topic_id, first, last, bytes_max)

    broker.read = watched  # type: ignore[method-assign]
    source = CountedSource(broker)
    for number, sizes in enumerate(appended):
        for size in sizes:
            broker.append("a", [b""], size)
        if number in rolls:
            broker.roll("a")
        (extent,) = source.extents([full_name("a")])
        held = broker.logs[full_name("a")].ledgers
        assert [each.messages for each in extent.ledgers] == [
            sum(map(messages_in, ledger.entries)) for ledger in held if ledger.entries
        ]
    assert len(set(first_read)) == len(first_read)
