"""What Spark sees of Pulsar's transactions: what was committed, where it stands when it was, which
is what a subscription of Pulsar's receives."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from conformance.brokers.arneb import Arneb

from arneb_pulsar.client import Client, ConsumerOptions, InitialPosition, ProducerOptions, connect
from arneb_pulsar.client.errors import TimedOut
from pyspark_arneb import DefaultSource
from pyspark_arneb.batch import BatchReader
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.service.connection import close_connections
from pyspark_arneb.stream.reader import StreamReader

TOPIC = "results"
PRODUCER = ProducerOptions(transactions=True, send_timeout_s=0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Arneb]:
    broker = Arneb(tmp_path, listeners=("http", "pulsar")).start()
    yield broker
    close_environments()
    close_connections()
    broker.stop()


def bodies(found: BatchReader | StreamReader, partitions: Any) -> list[bytes]:
    rows: list[bytes] = []
    for partition in partitions:
        for batch in found.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            rows += batch.column("value").to_pylist()
    return rows


class Query:
    """A streaming query, batch after batch, from the earliest message on."""

    def __init__(self, way: dict[str, str]) -> None:
        source = DefaultSource({**way, "topic": TOPIC, "startingOffsets": "earliest"})
        self._reader = source.streamReader(source.schema())
        self._at = self._reader.initialOffset()
        self.rows: list[bytes] = []

    def go_on(self) -> None:
        end = self._reader.latestOffset(self._at, self._reader.getDefaultReadLimit())
        if end != self._at:
            self.rows += bodies(self._reader, self._reader.partitions(self._at, end))
            self._at = end


def table(way: dict[str, str]) -> list[bytes]:
    source = DefaultSource({**way, "topic": TOPIC})
    found = source.reader(source.schema())
    return bodies(found, found.partitions())


async def play(client: Client, ways: list[dict[str, str]]) -> None:
    producer = await client.create_producer(TOPIC, PRODUCER)
    options = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
    consumer = await client.subscribe(TOPIC, "s", options)
    received: list[bytes] = []
    await producer.send(b"before")
    queries = [await anyio.to_thread.run_sync(Query, way) for way in ways]

    async def all_see(*expected: bytes) -> None:
        while len(received) < len(expected):
            received.append((await consumer.receive(20)).data)
        with pytest.raises(TimedOut):
            await consumer.receive(0.2)
        assert received == list(expected)
        for way, query in zip(ways, queries, strict=True):
            assert await anyio.to_thread.run_sync(table, way) == received
            await anyio.to_thread.run_sync(query.go_on)
            assert query.rows == received

    first = await client.begin_transaction()
    second = await client.begin_transaction()
    lost = await client.begin_transaction()
    await first.send(producer, b"first")
    await producer.send(b"between")
    await lost.send(producer, b"aborted")
    await second.send(producer, b"second")
    await all_see(b"before", b"between")
    await second.commit()
    await all_see(b"before", b"between", b"second")
    await lost.abort()
    await all_see(b"before", b"between", b"second")
    await first.send(producer, b"first, too")
    await producer.send(b"behind")
    await first.commit()
    await all_see(b"before", b"between", b"second", b"behind", b"first", b"first, too")


def test_a_table_and_a_stream_show_what_a_subscription_receives(broker: Arneb) -> None:
    """By either way: nothing of a transaction that is open or aborted, and what is committed last
    is passed over by no query that was there meanwhile."""
    ways = [{"path": str(broker.data)}, {"service.url": f"http://{broker.http_address}"}]

    async def main() -> None:
        address = broker.pulsar_address
        async with connect(f"pulsar://{address}") as client:
            await play(client, ways)

    anyio.run(main, backend="trio")
