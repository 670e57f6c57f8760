"""Reading a data directory without Spark: planning, chunks, trimming and the open directories."""

import json
import logging
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_generator import START_MS, LogWriter, amqp_entry, pulsar_entry
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, Not, StringContains

from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.position import position_at, render
from arneb_core.api.errors import StoreUnusable
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.snapshot_environment import SnapshotEnvironment
from arneb_pulsar.codec import encode_messages
from pyspark_arneb import DefaultSource
from pyspark_arneb.batch import BatchReader, LogPartition, PushdownReader
from pyspark_arneb.decode import chunks
from pyspark_arneb.errors import DataLossError
from pyspark_arneb.log.environment import close_environments, environment
from pyspark_arneb.option_table import OptionError


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A directory for a log; its store is checked in the end."""
    path = tmp_path / "log"
    yield path
    close_environments()
    if path.exists():
        assert check(path) == []


def entries(count: int, *, start: int = 0, value_bytes: int = 0) -> list[bytes]:
    """Entries whose bodies are numbers that count up, published a ms apart."""
    return [
        amqp_entry(b"%d" % n + bytes(value_bytes), publish_time_ms=START_MS + n)
        for n in range(start, start + count)
    ]


def reader(log: Path, **options: object) -> BatchReader:
    close_environments()
    given_options = {"path": str(log), **{name: str(value) for name, value in options.items()}}
    source = DefaultSource(given_options)
    found = source.reader(source.schema())
    assert isinstance(found, BatchReader)
    return found


def read(found: BatchReader) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    # What Spark does on the way to the executors.
    found, partitions = pickle.loads(pickle.dumps((found, found.partitions())))
    for partition in partitions:
        for batch in found.read(partition):
            rows += batch.to_pylist()
    return rows


def values(log: Path, topic: str = "t", **options: object) -> list[bytes]:
    return [row["value"] for row in read(reader(log, topic=topic, **options))]


def numbers(*ranges: tuple[int, int]) -> list[bytes]:
    return [b"%d" % n for start, stop in ranges for n in range(start, stop)]


@settings(max_examples=25)
@given(
    runs=st.lists(st.integers(1, 60), max_size=8),
    rolls=st.sets(st.integers(0, 7)),
    options=st.fixed_dictionaries(
        {},
        optional={
            "minPartitions": st.integers(1, 9),
            "maxRecordsPerPartition": st.integers(1, 50),
            "columns": st.just("value"),
        },
    ),
)
def test_every_entry_is_read_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[int],
    rolls: set[int],
    options: dict[str, object],
) -> None:
    log = tmp_path_factory.mktemp("log")
    with LogWriter(log) as writer:
        writer.create("t")
        written = 0
        for number, count in enumerate(runs):
            writer.append("t", entries(count, start=written))
            written += count
            if number in rolls:
                writer.roll("t")
    assert values(log, **options) == numbers((0, written))
    close_environments()


@pytest.mark.parametrize("value_bytes", [0, 100, 5_000, 400_000])
def test_chunks_are_neither_tiny_nor_large(log: Path, value_bytes: int) -> None:
    count = 5 if value_bytes > 100_000 else 6_000 if value_bytes < 1_000 else 600
    with LogWriter(log) as writer:
        writer.create("t")
        for start in range(0, count, 50):
            run = entries(min(50, count - start), start=start, value_bytes=value_bytes)
            writer.append("t", run)
    found = reader(log, topic="t", minPartitions=1)
    (partition,) = found.partitions()
    sizes = [(b.num_rows, b.get_total_buffer_size()) for b in found.read(partition)]
    assert sum(rows for rows, _ in sizes) == count
    for rows, size in sizes[:-1]:
        assert rows == chunks.ROWS_MAX or size >= chunks.CHUNK_BYTES
        assert rows <= chunks.ROWS_MAX
    assert max(size for _, size in sizes) < 2 * chunks.CHUNK_BYTES + (1 << 20)


def three_ledgers(log: Path) -> None:
    """Ledgers 1, 2 and 3 with 100 entries each; the last one is open."""
    with LogWriter(log) as writer:
        writer.create("t")
        for ledger in range(3):
            if ledger:
                writer.roll("t", now_ms=START_MS + 100 * ledger)
            writer.append("t", entries(50, start=100 * ledger))
            writer.append("t", entries(50, start=100 * ledger + 50))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(0, 300)]),
        ({"startingOffsets": '{"t": "2:70"}'}, [(170, 300)]),
        ({"startingOffsets": '{"t": "2:100"}'}, [(200, 300)]),
        ({"startingOffsets": '{"t": "3:100"}'}, []),
        ({"endingOffsets": '{"t": "2:70"}'}, [(0, 170)]),
        ({"endingOffsets": '{"t": "4:0"}'}, [(0, 300)]),
        ({"endingOffsets": '{"t": "9:0"}', "failOnDataLoss": False}, [(0, 300)]),
        ({"startingOffsets": '{"t": "1:99"}', "endingOffsets": '{"t": "2:1"}'}, [(99, 101)]),
        ({"startingTime": START_MS + 120, "endingTime": START_MS + 220}, [(120, 220)]),
        ({"startingOffsetsByTimestamp": json.dumps({"t": {"0": START_MS + 120}})}, [(120, 300)]),
        ({"endingOffsetsByTimestamp": json.dumps({"t": START_MS + 220})}, [(0, 220)]),
        (
            {
                "startingTime": START_MS + 250,
                "startingOffsetsByTimestamp": json.dumps({"t": {"0": START_MS}}),
            },
            [(250, 300)],
        ),
        ({"startingTime": START_MS + 299}, [(299, 300)]),
        ({"endingTime": START_MS}, []),
        ({"startingTime": START_MS + 10**9}, []),
        ({"startingTime": START_MS + 250, "startingOffsets": '{"t": "9:0"}'}, [(250, 300)]),
    ],
)
def test_bounds_choose_the_rows(
    log: Path, options: dict[str, object], expected: list[tuple[int, int]]
) -> None:
    three_ledgers(log)
    assert values(log, **options) == numbers(*expected)


def test_a_read_covers_exactly_what_was_there_when_it_was_planned(log: Path) -> None:
    three_ledgers(log)
    found = reader(log, topic="t")
    partitions = found.partitions()
    close_environments()
    with Store.open(log):
        pass  # a broker's restart changes nothing either
    with _reopened(log) as writer:
        writer.append("t", entries(10, start=300))
    rows = [row["value"] for p in partitions for b in found.read(p) for row in b.to_pylist()]
    assert rows == numbers((0, 300))
    assert len(values(log)) == 310


def _reopened(log: Path) -> LogWriter:
    """A writer that goes on where the three ledgers end."""
    writer = LogWriter(log)
    writer.adopt("t", ledger=3, entries=100)
    return writer


@pytest.mark.parametrize("keep_record", [False, True])
def test_trimmed_before_planning_the_log_just_starts_later(log: Path, keep_record: bool) -> None:
    three_ledgers(log)
    trim(log, 1, keep_record=keep_record)
    assert values(log) == numbers((100, 300))
    if keep_record:
        trim(log, 1)


def test_a_start_that_was_trimmed_is_data_loss(log: Path) -> None:
    three_ledgers(log)
    trim(log, 1)
    offsets = '{"t": "1:30"}'
    with pytest.raises(DataLossError, match="/t from 1:30 to before 2:0"):
        values(log, startingOffsets=offsets)
    assert values(log, startingOffsets=offsets, failOnDataLoss=False) == numbers((100, 300))


@pytest.mark.parametrize("trimmed", [1, 2])
@pytest.mark.parametrize("partitions_min", [1, 3, 7])
def test_what_is_trimmed_between_planning_and_reading_is_noticed(
    log: Path, trimmed: int, partitions_min: int, caplog: pytest.LogCaptureFixture
) -> None:
    three_ledgers(log)
    strict = reader(log, topic="t", minPartitions=partitions_min)
    lenient = reader(log, topic="t", minPartitions=partitions_min, failOnDataLoss=False)
    planned = [(found, found.partitions()) for found in (strict, lenient)]
    trim(log, trimmed)
    found, partitions = planned[0]
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        for partition in partitions:
            list(found.read(partition))
    found, partitions = planned[1]
    rows = [row["value"] for p in partitions for b in found.read(p) for row in b.to_pylist()]
    lost = numbers((100 * (trimmed - 1), 100 * trimmed))
    assert rows == [value for value in numbers((0, 300)) if value not in lost]
    assert f"from {trimmed}:0 to " in caplog.text
    trim(log, 1)  # a log has no gaps between its ledgers


def test_a_deleted_topic_is_noticed_too(log: Path) -> None:
    three_ledgers(log)
    found = reader(log, topic="t")
    partitions = found.partitions()
    for ledger in (1, 2, 3):
        trim(log, ledger, keep_record=True)
    with pytest.raises(DataLossError):
        list(found.read(partitions[0]))
    trim(log, 1)
    trim(log, 2)
    trim(log, 3)


def trim(log: Path, ledger: int, *, keep_record: bool = False) -> None:
    close_environments()
    with _reopened(log) as writer:
        writer.trim("t", ledger, keep_record=keep_record)


def test_several_topics_are_one_table(log: Path) -> None:
    with LogWriter(log) as writer:
        for name in ("a", "b", "acme/eu/a", "empty", "p-partition-0", "p-partition-1"):
            writer.create(f"persistent://{name}" if "/" in name else name)
        writer.append_all({"a": entries(2), "b": entries(3), "persistent://acme/eu/a": entries(1)})
        writer.append_all({"p-partition-0": entries(2), "p-partition-1": entries(2)})
    names = "persistent://public/default/"
    counts: dict[str, int] = {}
    for row in read(reader(log, topicsPattern=".*", minPartitions=3)):
        counts[row["topic"]] = counts.get(row["topic"], 0) + 1
    assert counts == {
        "persistent://acme/eu/a": 1,
        f"{names}a": 2,
        f"{names}b": 3,
        f"{names}p-partition-0": 2,
        f"{names}p-partition-1": 2,
    }
    assert len(read(reader(log, subscribe="a, acme/eu/a"))) == 3
    assert len(read(reader(log, topic="empty"))) == 0
    assert [row["partition"] for row in read(reader(log, topic="p"))] == [0, 0, 1, 1]
    with pytest.raises(
        OptionError, match=r"no topic .*default/c; there are acme/eu/a, a, b, empty"
    ):
        read(reader(log, topics="a,c"))


def test_messages_of_batches_are_counted_for_the_partitions(log: Path) -> None:
    batch = pulsar_entry(encode_messages([Message(b"x")] * 50), messages=50)
    with LogWriter(log) as writer:
        writer.create("t")
        writer.append("t", [batch] * 10)
        writer.roll("t")
        writer.append("t", [batch] * 10)
    found = reader(log, topic="t", maxRecordsPerPartition=100)
    partitions = found.partitions()
    assert [sum(b.num_rows for b in found.read(p)) for p in partitions] == [100] * 10


def spans(partitions: Any) -> list[str]:
    return [
        f"{span.topic[-1]} {render(span.first)}-{render(span.last)}"
        for partition in partitions
        for span in partition.spans
    ]


@pytest.mark.parametrize(
    ("filters", "taken", "expected"),
    [
        ([EqualTo(("ledger_id",), 2)], 1, ["t 2:0-2:99"]),
        ([GreaterThan(("ledger_id",), 1), Not(In(("ledger_id",), (3,)))], 2, ["t 2:0-2:99"]),
        ([EqualTo(("topic",), "persistent://public/default/x")], 1, []),
        ([StringContains(("topic",), "default"), EqualTo(("ledger_id",), 3)], 2, ["t 3:0-3:99"]),
        ([EqualTo(("partition",), -1), EqualTo(("sequence_id",), 5)], 1, None),
        ([EqualTo(("entry_id",), 5)], 0, [f"t {n}:5-{n}:5" for n in (1, 2, 3)]),
        (
            [GreaterThan(("entry_id",), 97), In(("entry_id",), (3, 98))],
            0,
            [f"t {n}:98-{n}:98" for n in (1, 2, 3)],
        ),
        ([EqualTo(("entry_id",), 1 << 40)], 0, []),
        ([Not(EqualTo(("value",), b"x"))], 0, None),
        ([EqualTo(("ledger_id", "x"), 2)], 0, None),
        # NOT IN a list with null is true of nothing; Spark is left to say so.
        ([Not(In(("ledger_id",), (2, None)))], 0, None),
    ],
)
def test_pushed_filters_choose_spans(
    log: Path, filters: list[Filter], taken: int, expected: list[str] | None
) -> None:
    three_ledgers(log)
    found = reader(log, topic="t", pushdown=True, minPartitions=1)
    assert isinstance(found, PushdownReader)
    left = list(found.pushFilters(filters))
    assert all(any(one is other for other in filters) for one in left), "returned by reference"
    assert len(filters) - len(left) == taken
    everything = ["t 1:0-1:99", "t 2:0-2:99", "t 3:0-3:99"]
    assert spans(found.partitions()) == (everything if expected is None else expected)


def test_a_loss_that_filters_exclude_does_not_matter(log: Path) -> None:
    three_ledgers(log)
    trim(log, 1)
    found = reader(log, topic="t", pushdown=True, startingOffsets='{"t": "1:0"}')
    assert isinstance(found, PushdownReader)
    assert list(found.pushFilters([EqualTo(("ledger_id",), 3)])) == []
    assert spans(found.partitions()) == ["t 3:0-3:99"]


def test_without_the_option_the_reader_has_no_push_filters(log: Path) -> None:
    """Spark refuses a reader that has them while its own setting is off."""
    assert "pushFilters" not in vars(type(reader(log, topic="t")))


def test_an_empty_read_is_one_partition_without_rows(log: Path) -> None:
    three_ledgers(log)
    found = reader(log, topic="t", startingOffsets='{"t": "3:100"}')
    (partition,) = found.partitions()
    assert isinstance(partition, LogPartition)
    assert partition.spans == ()
    assert list(found.read(partition)) == []


def test_a_directory_without_a_store_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="no Arneb store"):
        read(reader(tmp_path, topic="t"))


def test_a_directory_is_opened_once_and_again_when_it_was_replaced(log: Path) -> None:
    three_ledgers(log)
    opened = environment(str(log))
    assert environment(os.path.join(str(log), ".")) is opened
    os.rename(log, log.with_name("old"))
    three_ledgers(log)
    assert environment(str(log)) is not opened


def test_a_forked_process_opens_the_directory_itself(log: Path) -> None:
    """As Spark's workers do: the process from which they are forked has nothing open."""
    three_ledgers(log)
    close_environments()
    assert in_child(lambda: last_place(log) == position_at(3, 99))
    assert last_place(log) == position_at(3, 99)


def test_what_was_opened_before_a_fork_is_left_alone_in_the_child(log: Path) -> None:
    three_ledgers(log)
    with environment(str(log)).snapshot() as snapshot:
        assert in_child(lambda: refused(log))
        assert len(snapshot.read_blocks(TopicId(1), position_at(1, 0), bytes_max=1)) == 1
    assert last_place(log) == position_at(3, 99)


def refused(log: Path) -> bool:
    with pytest.raises(StoreUnusable, match="forked"):
        environment(str(log))
    return True


def last_place(log: Path) -> int | None:
    with environment(str(log)).snapshot() as snapshot:
        return snapshot.last_position(TopicId(1))


def in_child(work: Callable[[], bool]) -> bool:
    """What ``work`` says in a forked process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("opened", [False, True])
def test_a_data_file_that_is_cut_off_is_an_error_with_the_place(
    log: Path, opened: bool, tmp_path: Path
) -> None:
    """Not a worker that ends with SIGBUS and without a word, be it open there already."""
    with LogWriter(log) as writer:
        writer.create("t")
        writer.append("t", entries(50, value_bytes=5000))
    copy = tmp_path / "copy"
    shutil.copytree(log, copy, ignore=shutil.ignore_patterns("*.sock"))
    found = reader(copy, topic="t")
    if opened:
        assert len(read(found)) == 50
    with open(copy / "data.mdb", "r+b") as file:
        file.truncate(8192)
    with pytest.raises(StoreUnusable, match=r"data\.mdb is cut off: expected at least"):
        if not opened:
            close_environments()
        read(found)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"topic": "ordr"}, 'option "topic": no topic persistent://public/default/ordr; did you'),
        ({"topics": "orders,ordr"}, 'option "topics": no topic persistent://public/default/ordr; '),
        ({"queue": "ordr"}, 'option "queue": no queue ordr in the vhost /; did you mean orders?'),
        ({"queue": "a/b%"}, 'option "queue": no queue a/b% in the vhost /; did you mean a/b%c?'),
        ({"queue": "zzz"}, 'option "queue": no queue zzz in the vhost /; there are a/b%c, orders'),
        (
            {"queue": "orders", "vhost": "v"},
            'option "queue": no queue orders in the vhost v; the log has nothing of this vhost',
        ),
    ],
)
def test_what_is_not_there_is_said_in_the_words_of_the_option(
    log: Path, asked: dict[str, str], expected: str
) -> None:
    with LogWriter(log) as writer:
        for name in ("orders", "a%2Fb%25c", "persistent://acme/eu/others", "__own"):
            writer.create(name)
    with pytest.raises(OptionError) as refused:
        reader(log, **asked).partitions()
    assert str(refused.value).startswith(expected)


def test_no_transaction_is_open_while_somebody_takes_the_rows(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow a query is, the broker uses its pages again."""
    with LogWriter(log) as writer:
        writer.create("t")
        for start in range(0, 3000, 500):
            writer.append("t", entries(500, start=start, value_bytes=1000))
    found = reader(log, topic="t", minPartitions=1)
    partitions = found.partitions()
    opened, most = 0, 0
    begin = SnapshotEnvironment.snapshot

    @contextmanager
    def counted(self: SnapshotEnvironment, **options: bool) -> Iterator[Snapshot]:
        nonlocal opened, most
        opened += 1
        most = max(most, opened)
        try:
            with begin(self, **options) as snapshot:
                yield snapshot
        finally:
            opened -= 1

    monkeypatch.setattr(SnapshotEnvironment, "snapshot", counted)
    seen = 0
    for partition in partitions:
        for batch in found.read(partition):
            assert opened == 0
            seen += batch.num_rows
    assert (seen, most) == (3000, 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTime": "2026-01-01T00:00:00"}, "times without a zone are taken as UTC"),
        ({"startingTime": "2026-01-01T00:00:00", "timeZone": "Europe/Berlin"}, ""),
        ({"startingTime": "2026-01-01T00:00:00Z"}, ""),
    ],
)
def test_a_plan_says_which_zone_it_takes_for_a_time_that_says_none(
    log: Path, caplog: pytest.LogCaptureFixture, options: dict[str, str], expected: str
) -> None:
    with LogWriter(log) as writer:
        writer.create("t")
        writer.append("t", entries(3))
    caplog.set_level(logging.INFO, "pyspark_arneb")
    reader(log, topic="t", **options).partitions()
    (line,) = [each for each in caplog.messages if each.startswith("reading about")]
    assert expected in line
    assert ("times without" in line) is bool(expected)
