"""What Spark reads of Pulsar's own client: every codec, in batches, single and in chunks, and what
is encrypted; in a directory as through the broker."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pyarrow as pa
import pytest
from conformance.brokers.arneb import Arneb
from conformance.pulsar.test_encryption import COMPRESSIONS, made_keys

from pyspark_arneb import DefaultSource
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.schema import RowFlag
from pyspark_arneb.service.connection import close_connections

SEED = 20261129
BATCH = {
    "batching_enabled": True,
    "batching_max_publish_delay_ms": 60_000,
    "batching_max_allowed_size_in_bytes": 1 << 20,
}
"""All that is sent, in one batch."""
LARGE_BYTES = 6_000_000
"""More than a message may have, so that it is sent in chunks."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arneb]:
    broker = Arneb(tmp_path_factory.mktemp("broker"), listeners=("http", "pulsar")).start()
    yield broker
    close_environments()
    close_connections()
    broker.stop()


@pytest.fixture(scope="module")
def client(broker: Arneb) -> Iterator[pulsar.Client]:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(f"pulsar://{broker.pulsar_address}", logger=logger)
    yield client
    client.close()


def rows_of(broker: Arneb, topic: str) -> list[dict[str, Any]]:
    """The table, which has the same rows both ways; and as many if no value is asked for."""
    found: list[list[dict[str, Any]]] = []
    for way in ({"path": str(broker.data)}, {"service.url": f"http://{broker.http_address}"}):
        for columns in ("*,properties", "batch_index"):
            source = DefaultSource({**way, "topic": topic, "columns": columns})
            reader = source.reader(source.schema())
            rows: list[dict[str, Any]] = []
            for partition in reader.partitions():
                for batch in reader.read(partition):
                    assert isinstance(batch, pa.RecordBatch)
                    rows += batch.to_pylist()
            found.append(rows)
    (all_here, index_here, all_there, index_there) = found
    assert all_here == all_there
    assert index_here == index_there == [{"batch_index": row["batch_index"]} for row in all_here]
    return all_here


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_messages_of_every_codec_are_read(
    broker: Arneb, client: pulsar.Client, compression: pulsar.CompressionType
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(f"{SEED} {compression}")
    topic = f"codec-{compression.name}"
    client.subscribe(topic, "keeps").close()
    bodies = [dice.randbytes(dice.choice((0, 1, 300))) * dice.choice((1, 40)) for _ in range(90)]
    large = dice.randbytes(LARGE_BYTES)

    def send(more: dict[str, Any], sent: list[bytes]) -> None:
        producer = client.create_producer(topic, compression_type=compression, **more)
        for number, body in enumerate(sent):
            key, properties = f"k{number}", {"n": str(number)}
            producer.send_async(body, lambda *_: None, partition_key=key, properties=properties)
        producer.flush()
        producer.close()

    send(BATCH, bodies[:60])
    send({"chunking_enabled": True}, [*bodies[60:75], large])
    send({}, bodies[75:])
    rows = rows_of(broker, topic)
    assert [row["value"] for row in rows] == [*bodies[:75], large, *bodies[75:]]
    numbers = [*range(60), *range(16), *range(15)]
    assert [row["key"] for row in rows] == [b"k%d" % number for number in numbers]
    assert [dict(row["properties"]) for row in rows] == [{"n": str(each)} for each in numbers]
    assert [row["batch_index"] for row in rows[:60]] == list(range(60))
    assert {row["batch_index"] for row in rows[60:]} == {-1}
    assert {row["flags"] for row in rows} == {0}


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_encrypted_messages_are_raw_rows_among_the_others(
    broker: Arneb,
    client: pulsar.Client,
    compression: pulsar.CompressionType,
    tmp_path: Path,
) -> None:
    topic = f"encrypted-{compression.name}"
    client.subscribe(topic, "keeps").close()
    secret = {"encryption_key": "key", "crypto_key_reader": made_keys(tmp_path)}
    for more in ({}, secret, BATCH | secret, BATCH):
        producer = client.create_producer(topic, compression_type=compression, **more)
        for number in range(3):
            producer.send_async(b"body %d" % number * 20, lambda *_: None)
        producer.flush()
        producer.close()
    rows = rows_of(broker, topic)
    plain = [b"body %d" % number * 20 for number in range(3)]
    assert [row["value"] for row in rows[:3]] == [row["value"] for row in rows[9:]] == plain
    assert [row["flags"] for row in rows] == [0] * 3 + [RowFlag.RAW] * 6 + [0] * 3
    assert all(row["value"] and b"body" not in row["value"] for row in rows[3:7])
    assert [row["value"] for row in rows[7:9]] == [None, None], "one body for all of a batch"
