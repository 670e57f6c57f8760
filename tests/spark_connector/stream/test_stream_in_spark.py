"""Streaming reads inside Spark, by ``path``: limits, restarts, new topics, losses, bad options."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from log_writer import WriterProcess

from arneb_core.store.checking.check import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[..., WriterProcess]]:
    """Starts a process that writes topics; the store is checked when it has ended."""
    log = tmp_path / "log"

    def start(*topics: str) -> WriterProcess:
        return WriterProcess(log, topics)

    yield start
    assert check(log) == []


def run_to_the_end(
    spark: "SparkSession", where: Path, query: str = "q", **options: object
) -> list[dict[str, Any]]:
    """Run a query with ``availableNow``: its progress. What it read is in the directory ``query``,
    one file of Parquet a task of each micro-batch."""
    reader = spark.readStream.format("arneb").option("path", str(where / "log"))
    for name, value in {"topicsPattern": ".*", "columns": "topic,value", **options}.items():
        reader = reader.option(name, str(value))
    running = (
        reader.load()
        .writeStream.format("parquet")
        .option("path", str(where / query))
        .option("checkpointLocation", str(where / f"{query}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        running.awaitTermination()
    finally:
        running.stop()
    return [json.loads(each.json) for each in running.recentProgress]


def read_so_far(spark: "SparkSession", where: Path, query: str = "q") -> dict[str, list[int]]:
    """The bodies by topic, in order."""
    rows = spark.read.parquet(str(where / query)).collect()
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row.topic.rpartition("/")[2], []).append(int(row["value"]))
    return {topic: sorted(bodies) for topic, bodies in found.items()}


def test_a_query_reads_in_limited_batches_and_goes_on_where_it_stopped(
    spark: "SparkSession", tmp_path: Path, writing: Callable[..., WriterProcess]
) -> None:
    with writing("a", "b") as writer:
        writer.tell("append", "a", 900)
        writer.tell("append", "b", 300)
        first = run_to_the_end(
            spark, tmp_path, maxOffsetsPerTrigger=400, startingOffsets="earliest"
        )
        assert [each["numInputRows"] for each in first if each["numInputRows"]] == [400] * 3
        shares = Counter(
            {name.rpartition("/")[2]: place["messages"] for name, place in _end(first[0]).items()}
        )
        assert shares == {"a": 300, "b": 100}, "shared out by backlog"
        backlogs = [each["sources"][0]["latestOffset"]["backlog"]["messages"] for each in first]
        assert backlogs[:3] == [1200, 800, 400]

        writer.tell("append", "b", 5)
        writer.tell("create", "c")
        writer.tell("append", "c", 7)
        again = run_to_the_end(spark, tmp_path, maxBytesPerTrigger="400b")
        assert 3 <= len([each for each in again if each["numInputRows"]]) <= 12
        run_to_the_end(spark, tmp_path)
        assert read_so_far(spark, tmp_path) == {
            "a": list(range(900)),
            "b": list(range(305)),
            "c": list(range(7)),
        }


def _end(progress: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = progress["sources"][0]["endOffset"]["topics"]
    return found


def test_a_stream_that_is_trimmed_says_so_or_goes_on(
    spark: "SparkSession", tmp_path: Path, writing: Callable[..., WriterProcess]
) -> None:
    """By ``path`` nothing holds the log back."""
    with writing("a") as writer:
        writer.tell("append", "a", 10)
        run_to_the_end(spark, tmp_path, startingOffsets="earliest")
        writer.tell("append", "a", 10)
        writer.tell("roll", "a")
        writer.tell("append", "a", 10)
        writer.tell("trim", "a", 1)
        with pytest.raises(
            Exception, match=r"data loss: about 10 messages of topic a from 1:10 to before 2:0"
        ):
            run_to_the_end(spark, tmp_path)
        run_to_the_end(spark, tmp_path, failOnDataLoss=False)
        assert read_so_far(spark, tmp_path) == {"a": [*range(10), *range(20, 30)]}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"subscription": "s"}, r'option "subscription": a cursor needs "service.url"'),
        ({"cursorLease": "7 days"}, r'option "cursorLease": a cursor needs "service.url"'),
        ({"maxBytesPerTrigger": "many"}, 'option "maxBytesPerTrigger": expected bytes such as'),
        ({"maxOffsetsPerTrigger": "0"}, 'option "maxOffsetsPerTrigger": expected a whole number'),
        ({"maxTriggerDelay": "15"}, 'option "maxTriggerDelay": expected a time with its unit'),
        (
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            'option "minOffsetsPerTrigger": expected no more than maxOffsetsPerTrigger, 5, got 6',
        ),
        ({"maxOffsetPerTrigger": "9"}, 'did you mean "maxOffsetsPerTrigger"'),
    ],
)
def test_bad_options_of_a_stream_are_refused_in_one_line_when_it_is_loaded(
    given: dict[str, str], reason: str
) -> None:
    from pyspark_arneb import DefaultSource
    from pyspark_arneb.option_table import OptionError

    source = DefaultSource({"path": "/nowhere", "topic": "a", **given})
    with pytest.raises(OptionError, match=reason) as caught:
        source.schema()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [("endingOffsets", "latest"), ("endingTime", "5"), ("endingOffsetsByTimestamp", '{"a": 5}')],
)
def test_options_of_batch_reads_are_refused_by_a_stream(option: str, value: str) -> None:
    from pyspark_arneb import DefaultSource
    from pyspark_arneb.option_table import OptionError

    source = DefaultSource({"path": "/nowhere", "topic": "a", option: value})
    with pytest.raises(OptionError, match=f'"{option}": is for batch reads'):
        source.streamReader(source.schema())


def test_options_of_streams_are_refused_by_a_batch_read() -> None:
    from pyspark_arneb import DefaultSource
    from pyspark_arneb.option_table import OptionError

    source = DefaultSource({"path": "/nowhere", "topic": "a", "maxoffsetspertrigger": "9"})
    with pytest.raises(OptionError, match='"maxOffsetsPerTrigger": is for streaming reads'):
        source.reader(source.schema())
