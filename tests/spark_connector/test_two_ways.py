"""The two ways to a log, its directory and its broker: the same rows, the same plans, the same
losses; and nothing of the directory is needed by who goes by the broker."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conformance.brokers.arneb import Arneb
from log_generator import START_MS, LogWriter, amqp_entry, pulsar_entry
from pamqp.commands import Basic
from pyspark import cloudpickle
from pyspark.sql.datasource import EqualTo, GreaterThan

from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.position import position_at
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, TopicId, entry_key
from arneb_pulsar.codec import encode_messages
from pyspark_arneb import DefaultSource
from pyspark_arneb.batch import BatchReader
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.service.connection import close_connections

ROWS = 3_000


def _amqp(number: int) -> bytes:
    headers = {"n": number % 7, "text": "x" * (number % 5)} if number % 3 else {}
    properties = Basic.Properties(delivery_mode=2, headers=headers, message_id=str(number))
    return amqp_entry(
        b"%d" % number * (1 + number % 40),
        routing_key=b"key-%d" % (number % 50),
        exchange=b"amq.topic" if number % 2 else b"",
        properties=properties,
        publish_time_ms=START_MS + number,
    )


def _pulsar(number: int, messages: int) -> bytes:
    batch = [
        Message(
            b"%d-%d" % (number, index),
            key=b"k%d" % (index % 3) if index % 4 else None,
            properties={"p": str(index)},
            publish_time_ms=START_MS + number,
            producer_name="them",
            sequence_id=number * 10 + index,
            batch_index=index if messages > 1 else -1,
            is_null=index == 5,
        )
        for index in range(messages)
    ]
    body = encode_messages(batch)
    return pulsar_entry(body, messages=messages, publish_time_ms=START_MS + number)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], ...]]:
    """The options of both ways to one log, which a broker has open."""
    directory = tmp_path_factory.mktemp("ways")
    with LogWriter(directory / "data") as writer:
        for name in ("orders", "events", "mixed", "empty", "damaged"):
            writer.create(name)
        for start in range(0, ROWS, 1_000):
            numbers = range(start, start + 1_000)
            writer.append("orders", [_amqp(number) for number in numbers])
            writer.append("events", [_pulsar(number, 8) for number in numbers[::4]])
            writer.append("mixed", [_amqp(start), _pulsar(start, 1), _amqp(start + 1)])
            writer.roll("orders")
            if start:
                writer.roll("events")
        for number in range(3):
            writer.append("damaged", [_amqp(number)])
    _damage(directory / "data")
    broker = Arneb(directory, listeners=("http",)).start()
    yield {"path": str(broker.data)}, {"service.url": f"http://{broker.http_address}"}
    close_environments()
    close_connections()
    broker.stop()


def _damage(path: Path) -> None:
    with Store.open(path) as store:
        with store.snapshot() as snapshot:
            rows = list(snapshot.scan(Table.CATALOG, b"topic/"))
            number = [key for key, _ in rows].index(b"topic/persistent://public/default/damaged")
            topic_id = int(rows[number][1].split(b'"id":')[1].split(b",")[0])
            key = entry_key(TopicId(topic_id), position_at(1, 1))
            value = snapshot.get(Table.ENTRIES, key)
        assert value is not None, "it was written a moment ago"
        store.commit(Changes(puts=[(Table.ENTRIES, key, value[:-3] + b"???")]))


def reader(way: dict[str, str], **options: object) -> BatchReader:
    source = DefaultSource(
        {**way, "minPartitions": "3", **{name: str(each) for name, each in options.items()}}
    )
    found = source.reader(source.schema())
    assert isinstance(found, BatchReader)
    return found


def read(found: BatchReader) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    partitions = found.partitions()
    found, partitions = cloudpickle.loads(cloudpickle.dumps((found, partitions)))
    for partition in partitions:
        for batch in found.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            rows += batch.to_pylist()
    return rows


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "orders", "includeProperties": True},
        {"topic": "events", "includeProperties": True},
        {"topics": "orders,events,mixed,empty", "columnStyle": "kafka"},
        {"topic": "events", "columnStyle": "pulsar"},
        {"topicsPattern": "(mixed|ord.*)", "columns": "topic,entry_id,value"},
        {"topic": "orders", "startingOffsets": '{"orders": "2:500"}'},
        {"topic": "orders", "endingOffsets": '{"orders": "2:7"}', "columns": "value,key"},
        {"topic": "orders", "startingTime": START_MS + 700, "endingTime": START_MS + 2_100},
        {"topic": "damaged", "onCorrupt": "skip"},
        {"topic": "damaged", "onCorrupt": "raw"},
    ],
    ids=str,
)
def test_both_ways_give_the_same_rows(
    ways: tuple[dict[str, str], ...], options: dict[str, object]
) -> None:
    by_directory, by_broker = (read(reader(way, **options)) for way in ways)
    assert by_directory == by_broker
    assert by_directory, "some rows are read"


def test_both_ways_plan_alike_with_filters_pushed(ways: tuple[dict[str, str], ...]) -> None:
    found = []
    for way in ways:
        pushing = reader(way, topics="orders,events", pushdown=True)
        filters = [EqualTo(("topic",), "persistent://public/default/orders"),
                   GreaterThan(("ledger_id",), 1)]  # fmt: skip
        list(pushing.pushFilters(filters))  # type: ignore[attr-defined]
        found.append(([repr(each) for each in pushing.partitions()], read(pushing)))
    assert found[0] == found[1]
    assert len(found[0][1]) == ROWS - 1_000


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "damaged"},
        {"topic": "order"},
        {"topic": "orders", "startingOffsets": '{"orders": "99:0"}'},
        {"topic": "orders", "startingOffsets": '{"events": "1:0"}'},
    ],
    ids=str,
)
def test_both_ways_say_the_same_of_what_is_wrong(
    ways: tuple[dict[str, str], ...], options: dict[str, object]
) -> None:
    refusals = []
    for way in ways:
        with pytest.raises(Exception, match=r"\S") as caught:
            read(reader(way, **options))
        refusals.append((type(caught.value), str(caught.value)))
    assert refusals[0] == refusals[1]


def test_a_read_through_the_broker_does_not_know_the_directory(
    ways: tuple[dict[str, str], ...],
) -> None:
    by_directory, by_broker = ways
    found = reader(by_broker, topic="orders")
    sent = pickle.dumps((found, found.partitions()))
    assert by_directory["path"].encode() not in sent
    assert str(Path(by_directory["path"]).parent).encode() not in sent


def test_a_broker_that_is_not_there_is_said_in_one_line(ways: tuple[dict[str, str], ...]) -> None:
    away = {"service.url": "http://127.0.0.1:9"}
    with pytest.raises(Exception, match=r"cannot reach the broker at http://127.0.0.1:9") as caught:
        reader(away, topic="orders").partitions()
    assert "\n" not in str(caught.value)
