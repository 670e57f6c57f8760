"""A stream begins where a batch read with the same ``startingOffsets`` does, and has its losses."""

import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark_connector.stream.fake_broker import FakeBroker
from tests.spark_connector.stream.micro_batches import Checkpoint, Run

from pyspark_arneb.errors import DataLossError
from pyspark_arneb.option_table import OptionError
from pyspark_arneb.options import read_options
from pyspark_arneb.plan.ranges import select
from pyspark_arneb.stream.options import stream_options
from pyspark_arneb.stream.planner import StreamPlanner

TOPICS = ("a", "pt-partition-0", "pt-partition-1")

PLACES = st.one_of(
    st.sampled_from(["earliest", "latest", -1, -2]),
    st.builds("{}:{}".format, st.integers(1, 4), st.integers(0, 5)),
    st.builds("{}:{}@{}".format, st.integers(1, 3), st.integers(0, 3), st.integers(1, 4)),
)
NAMED = st.fixed_dictionaries(
    {},
    optional={
        "a": PLACES | st.dictionaries(st.sampled_from("01"), PLACES, min_size=1),
        "pt": PLACES | st.dictionaries(st.sampled_from("012"), PLACES, min_size=1),
        "pt-partition-1": PLACES,
        "other": PLACES,
    },
)


@st.composite
def brokers(draw: st.DrawFn) -> FakeBroker:
    """Logs of a few ledgers, of which the first may be trimmed."""
    broker = FakeBroker()
    numbers = count()
    for name in TOPICS:
        broker.create(name)
        for _ in range(draw(st.integers(1, 3))):
            entries = draw(st.integers(0, 3))
            broker.append(name, [b"%d" % next(numbers) for _ in range(entries)])
            if draw(st.booleans()):
                ledgers = list(broker.logs.values())[-1].ledgers
                kept = list(ledgers)
                broker.roll(name)
                if draw(st.booleans()):  # this broker trims whatever nobody keeps
                    ledgers[:0] = [each for each in kept if each not in ledgers]
    return broker


def entries_of_a_batch(broker: FakeBroker, offsets: str, fail: str) -> list[bytes]:
    options = read_options({**GIVEN, "startingOffsets": offsets, "failOnDataLoss": fail})
    chosen, _ = options.topics.choose(broker.topics())
    spans, losses = select(broker.extents(chosen), options)
    for loss in losses:
        options.lose(loss)
    run = Run(Checkpoint(), planner(broker, offsets, fail), broker)
    return [row for span in spans for row in run._read(span)]


def entries_of_a_stream(broker: FakeBroker, offsets: str, fail: str) -> list[bytes]:
    checkpoint = Checkpoint()
    run = Run(checkpoint, planner(broker, offsets, fail), broker)
    while run.trigger():
        pass
    return checkpoint.rows


GIVEN = {"path": "/nowhere", "topics": "a,pt"}


def planner(broker: FakeBroker, offsets: str, fail: str = "true", **more: str) -> StreamPlanner:
    given = {**GIVEN, "startingOffsets": offsets, "failOnDataLoss": fail, **more}
    options = stream_options(given)
    return StreamPlanner(
        options, broker, None, now_s=lambda: broker.now_s, new_name=lambda: "unused"
    )


@given(brokers(), NAMED, st.sampled_from(["true", "false"]))
def test_a_stream_begins_where_a_batch_read_does(
    broker: FakeBroker, named: dict[str, object], fail: str
) -> None:
    offsets = json.dumps(named)
    try:
        expected = entries_of_a_batch(broker, offsets, fail)
    except (DataLossError, OptionError) as error:
        with pytest.raises(type(error)) as caught:
            entries_of_a_stream(broker, offsets, fail)
        assert str(caught.value) == str(error)
    else:
        assert entries_of_a_stream(broker, offsets, fail) == expected


def test_one_offset_stands_for_all_partitions() -> None:
    """As ``{"topic": "earliest"}`` does in Kafka's source."""
    broker = FakeBroker()
    for name in TOPICS:
        broker.create(name)
        broker.append(name, [name[-1:].encode()])
    found = entries_of_a_stream(broker, '{"a": "latest", "pt": "earliest"}', "true")
    assert found == [b"0", b"1"]


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ('{"pt": {"2": "1:0"}}', "partition 2 of topic persistent://public/default/pt is not"),
        ('{"other": {"0": "1:0"}}', "partition 0 of topic persistent://public/default/other is"),
        ('{"other": "1:0"}', "topic persistent://public/default/other is not among those"),
    ],
)
def test_what_is_named_and_not_read_is_refused(offsets: str, reason: str) -> None:
    broker = FakeBroker()
    for name in TOPICS:
        broker.create(name)
    with pytest.raises(OptionError, match=f'option "startingOffsets": {reason}'):
        planner(broker, offsets).initial()


def timed() -> tuple[FakeBroker, int]:
    """In each topic one entry, and a minute later another; that moment."""
    broker = FakeBroker()
    for name in TOPICS:
        broker.create(name)
        broker.append(name, [f"{name} early".encode()])
    broker.wait(60)
    for name in TOPICS:
        broker.append(name, [f"{name} late".encode()])
    return broker, int(broker.now_s * 1000)


def test_each_topic_may_begin_at_a_time_of_its_own() -> None:
    broker, late_ms = timed()
    times = {"startingOffsetsByTimestamp": json.dumps({"a": late_ms, "pt": {"1": late_ms}})}
    checkpoint = Checkpoint()
    Run(checkpoint, planner(broker, '{"pt": {"0": "latest"}}', **times), broker).trigger()
    assert checkpoint.rows == [b"a late", b"pt-partition-1 late"]
    unknown = {"startingOffsetsByTimestamp": json.dumps({"pt": {"2": late_ms}})}
    with pytest.raises(OptionError, match='"startingOffsetsByTimestamp": partition 2 of topic'):
        planner(broker, "earliest", **unknown).initial()


def test_a_stream_does_not_begin_in_the_future() -> None:
    """What comes before that time would be read all the same."""
    broker, late_ms = timed()
    for name in ("startingTime", "startingTimestamp"):
        with pytest.raises(
            OptionError, match='"startingTime": expected a time that is not in the future'
        ):
            planner(broker, "earliest", **{name: str(late_ms + 1)}).initial()
    assert planner(broker, "earliest", startingTime=str(late_ms)).initial()


def test_an_offset_of_a_recreated_topic_is_a_loss() -> None:
    broker = FakeBroker()
    for name in TOPICS:
        broker.create(name)
        broker.append(name, [b"old", b"older"])
    broker.delete("a")
    broker.create("a")
    broker.append("a", [b"new", b"newer"])
    with pytest.raises(DataLossError, match="that topic, with the id 1, is gone"):
        planner(broker, '{"a": "1:1@1"}').initial()
    found = entries_of_a_stream(broker, '{"a": "1:1@1", "pt": "latest"}', "false")
    assert found == [b"new", b"newer"]
