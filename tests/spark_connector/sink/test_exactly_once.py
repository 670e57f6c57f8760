"""Exactly once: whatever Spark does with tasks and batches, each row is published one time."""

import pickle
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from tests.spark_connector.sink.fake_staging import FakeStaging, in_task, of_batch

from pyspark_arneb.option_table import OptionError
from pyspark_arneb.service.errors import ServiceError
from pyspark_arneb.sink import writers
from pyspark_arneb.sink.columns import RowEncoder
from pyspark_arneb.sink.options import SinkOptions, sink_options
from pyspark_arneb.sink.writers import BatchWriter, Publish, StagedRows, StreamWriter

SCHEMA = StructType().add("value", "binary").add("key", "binary")
URL = {"service.url": "http://127.0.0.1:1", "topic": "a"}
ROWS_A_BATCH = 3


def options(*, is_stream: bool = False, **more: str) -> SinkOptions:
    return sink_options({**URL, **more}, overwrite=False, is_stream=is_stream)


def stream_writer(staging: FakeStaging, **more: str) -> StreamWriter:
    """As a task, or the driver, gets it: pickled."""
    given = options(is_stream=True, **more)
    writer = StreamWriter(given, RowEncoder(SCHEMA, given.target), lambda address: staging)
    pickle.loads(pickle.dumps(writer._options)), pickle.loads(pickle.dumps(writer._encoder))
    return writer


Rows = Sequence[tuple[bytes, bytes]]


def arrow(rows: Rows) -> list[pa.RecordBatch]:
    return [
        pa.record_batch(
            {
                "value": pa.array(
                    [value for value, _ in rows[at : at + ROWS_A_BATCH]], pa.binary()
                ),
                "key": pa.array([key for _, key in rows[at : at + ROWS_A_BATCH]], pa.binary()),
            }
        )
        for at in range(0, len(rows), ROWS_A_BATCH)
    ]


def write(writer: StreamWriter, rows: Rows, batch: int, partition: int = 0) -> StagedRows:
    with in_task(partition, **of_batch("q", batch)):
        return writer.write(iter(arrow(rows)))


class TaskDied(Exception):
    pass


def die_while_writing(writer: StreamWriter, rows: Rows, batch: int) -> None:
    def dying() -> Any:
        yield from arrow(rows)
        raise TaskDied

    with in_task(**of_batch("q", batch)), pytest.raises(TaskDied):
        writer.write(dying())


def values(staging: FakeStaging) -> list[bytes]:
    return [row["value"] for row in staging.published]


KEYS = st.sampled_from([b"x", b"y", b"z"])


@st.composite
def divided(draw: st.DrawFn, rows: Rows) -> list[Rows]:
    """The rows in partitions, as any of Spark's plans may have them: each key in one partition and
    in order, everything else by chance."""
    partitions = draw(st.integers(1, 4))
    home = {key: draw(st.integers(0, partitions - 1)) for key in (b"x", b"y", b"z")}
    found: list[list[tuple[bytes, bytes]]] = [[] for _ in range(partitions)]
    left = {key: [row for row in rows if row[1] == key] for key in home}
    while any(left.values()):
        key = draw(st.sampled_from([key for key, waiting in left.items() if waiting]))
        found[home[key]].append(left[key].pop(0))
    return list(found)


@given(st.data())
def test_attempts_replays_other_partitions_and_crashes_change_nothing(data: st.DataObject) -> None:
    """Three batches, each tried until Spark's commit log has it: whatever happens before."""
    staging = FakeStaging()
    number = 0
    every: list[tuple[bytes, bytes]] = []
    for batch in range(3):
        rows = []
        for key in data.draw(st.lists(KEYS, max_size=7)):
            rows.append((b"%d" % number, key))
            number += 1
        every += rows
        in_the_commit_log = False
        tries = 0
        while not in_the_commit_log:
            tries += 1
            writer = stream_writer(staging)
            messages = []
            for partition, part in enumerate(data.draw(divided(rows))):
                if data.draw(st.booleans()):
                    cut = data.draw(st.integers(0, len(part)))
                    die_while_writing(writer, part[:cut], batch)
                attempts = [
                    write(writer, part, batch, partition)
                    for _ in range(data.draw(st.integers(1, 2)))
                ]
                messages.append(data.draw(st.sampled_from(attempts)))
            fate = data.draw(st.sampled_from(["done", "before", "aborted", "after"]))
            if tries == 4:
                fate = "done"
            if fate == "aborted":
                writer.abort([*messages, None], batch)
            if fate in ("done", "after"):
                # The driver's commit runs in a process of its own, with a writer of its own.
                stream_writer(staging).commit(messages, batch)
            in_the_commit_log = fate == "done"
    found = [(row["value"], row["key"]) for row in staging.published]
    assert Counter(found) == Counter(every)
    for key in (b"x", b"y", b"z"):
        assert [row for row in found if row[1] == key] == [row for row in every if row[1] == key]
    assert not any(staging.stages.values()), "the losing attempt's stages must be removed"


def test_a_batch_that_was_committed_before_stages_nothing_again() -> None:
    """A crash between our commit and Spark's: the batch is run again."""
    staging = FakeStaging()
    writer = stream_writer(staging)
    writer.commit([write(writer, [(b"1", b"k")] * 9, 0)], 0)
    again = write(writer, [(b"1", b"k")] * 9, 0)
    assert not staging.stages
    writer.commit([again], 0)
    assert values(staging) == [b"1"] * 9


def test_an_empty_batch_needs_no_commit_and_no_batch_before_it() -> None:
    staging = FakeStaging()
    writer = stream_writer(staging)
    writer.commit([write(writer, [], 0), None], 0)
    assert staging.commits == 0
    writer.commit([write(writer, [(b"1", b"k")], 1)], 1)
    assert values(staging) == [b"1"]


def test_partitions_are_published_in_their_order() -> None:
    staging = FakeStaging()
    writer = stream_writer(staging)
    messages = [write(writer, [(b"%d" % part, b"k")], 0, part) for part in (2, 0, 1)]
    writer.commit([messages[1], messages[2], messages[0]], 0)
    assert values(staging) == [b"0", b"1", b"2"]


def test_a_stage_of_another_batch_is_never_committed() -> None:
    staging = FakeStaging()
    writer = stream_writer(staging)
    message = write(writer, [(b"1", b"k")], 4)
    with pytest.raises(AssertionError, match="expected stages of batch 5 of q"):
        writer.commit([message], 5)


def test_without_a_query_id_an_option_must_say_it() -> None:
    staging = FakeStaging()
    with in_task(), pytest.raises(OptionError, match='option "idempotenceId": is required here'):
        stream_writer(staging).write(iter(arrow([(b"1", b"k")])))
    writer = stream_writer(staging, idempotenceId="mine")
    with in_task(**of_batch("spark's", 3)):
        message = writer.write(iter(arrow([(b"1", b"k")])))
    writer.commit([message], 3)
    assert staging.marks == {"mine": 3}


def test_a_null_value_stays_null() -> None:
    staging = FakeStaging()
    writer = stream_writer(staging)
    writer.commit([write(writer, [(None, b"k"), (b"", b"k")], 0)], 0)  # type: ignore[list-item]
    assert values(staging) == [None, b""]


def batch_writer(staging: FakeStaging, **more: str) -> BatchWriter:
    given = options(**more)
    return BatchWriter(given, RowEncoder(SCHEMA, given.target), lambda address: staging)


def test_a_small_dataframe_is_published_by_one_commit() -> None:
    staging = FakeStaging()
    writer = batch_writer(staging)
    messages = []
    for partition in range(3):
        with in_task(partition):
            writer.write(iter(arrow([(b"lost", b"k")])))  # a speculative attempt
            messages.append(writer.write(iter(arrow([(b"%d" % partition, b"k")] * 4))))
    writer.commit(messages)
    assert staging.commits == 1
    assert values(staging) == [b"0"] * 4 + [b"1"] * 4 + [b"2"] * 4
    assert not any(staging.stages.values())


def test_a_large_dataframe_is_published_in_parts_and_each_partition_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers, "CHUNK_BYTES", 400)
    staging = FakeStaging()
    writer = batch_writer(staging)
    parts = {
        partition: [(b"%d:%d" % (partition, number), b"k") for number in range(20)]
        for partition in range(10)
    }
    messages = []
    for partition, rows in parts.items():
        with in_task(partition):
            messages.append(writer.write(iter(arrow(rows))))
    writer.commit(messages)
    assert staging.commits > 2
    found = values(staging)
    assert Counter(found) == Counter(value for rows in parts.values() for value, _ in rows)
    for partition, rows in parts.items():
        mine = [value for value in found if value.startswith(b"%d:" % partition)]
        assert mine == [value for value, _ in rows]
    assert len(found) == 200


def test_a_write_with_a_version_is_one_commit_and_comes_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Delta's ``txnAppId`` and ``txnVersion``: who was killed writes it again."""
    monkeypatch.setattr(writers, "CHUNK_BYTES", 100)
    staging = FakeStaging()

    def write_version(version: int, value: bytes) -> None:
        writer = batch_writer(staging, idempotenceId="job", idempotenceVersion=str(version))
        messages = []
        for partition in range(10):
            with in_task(partition):
                messages.append(writer.write(iter(arrow([(value, b"k")] * 20))))
        writer.commit(messages)

    for version in (0, 0, 3, 1, 3):
        write_version(version, b"%d" % version)
    assert Counter(values(staging)) == {b"0": 200, b"3": 200}
    assert staging.commits == 2 and not any(staging.stages.values())
    assert not any(staging.last.values()), "the name comes again"


def test_a_write_without_a_name_says_that_it_never_comes_again() -> None:
    staging = FakeStaging()
    writer = batch_writer(staging)
    with in_task():
        writer.commit([writer.write(iter(arrow([(b"1", b"k")])))])
    assert list(staging.last.values()) == [True]


def test_a_dataframe_that_failed_is_forgotten() -> None:
    staging = FakeStaging()
    writer = batch_writer(staging)
    with in_task():
        message = writer.write(iter(arrow([(b"1", b"k")])))
    writer.abort([message, None])
    assert not staging.stages
    assert not staging.published


def test_at_least_once_publishes_as_it_goes() -> None:
    staging = FakeStaging()
    given = options(delivery="at-least-once")
    publish = Publish(given, RowEncoder(SCHEMA, given.target), lambda address: staging)
    assert publish.rows(iter(arrow([(b"1", b"k")] * 4))).stages == ()
    assert values(staging) == [b"1"] * 4


@pytest.mark.parametrize(
    ("code", "option"),
    [
        ("queue_not_found", "queue"),
        ("unreachable", "service.url"),
        ("unauthorized", "service.user"),
    ],
)
def test_what_the_broker_refuses_names_the_option(code: str, option: str) -> None:
    staging = FakeStaging(fails_with=ServiceError(code, "the reason", 404))
    writer = stream_writer(staging)
    with pytest.raises(OptionError, match=f'option "{option}": the reason'):
        write(writer, [(b"1", b"k")], 0)


def test_an_abort_that_fails_hides_no_other_error() -> None:
    staging = FakeStaging()
    writer = stream_writer(staging)
    message = write(writer, [(b"1", b"k")], 0)
    staging.fails_with = ServiceError("unreachable", "gone")
    writer.abort([message], 0)
