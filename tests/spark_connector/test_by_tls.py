"""By ``service.url`` over TLS, inside Spark: only the driver has the file of ``service.caFile``."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.certificates import make_certificate
from pyspark.sql.types import StructType

from pyspark_arneb import DefaultSource
from pyspark_arneb.option_table import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The options that lead to a broker with some orders."""
    place = tmp_path_factory.mktemp("tls")
    make_certificate(place, "broker", make_certificate(place, "root"))
    tls = f'certificate = "{place / "broker.crt"}"\nkey = "{place / "broker.key"}"\n'
    settings = f'[http.tls]\nlisten = "127.0.0.1:0"\n{tls}'
    broker = Arneb(place / "here", listeners=("amqp", "http-tls"), settings=settings).start()
    with pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.address.port)
    ) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("orders", "copy"):
            channel.queue_declare(queue, durable=True)
        for number in range(ROWS):
            channel.basic_publish("", "orders", b"%d" % number)
    url = f"https://{broker.https_address}"
    yield {"service.url": url, "service.caFile": str(place / "root.crt")}
    broker.stop()


def test_reads_streams_and_writes_go_by_tls(
    spark: "SparkSession", secured: dict[str, str], tmp_path: Path
) -> None:
    read = spark.read.format("arneb").options(**secured)
    assert read.option("topic", "orders").load().count() == ROWS
    stream = spark.readStream.format("arneb").options(**secured).option("topic", "orders")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("arneb")
        .options(**secured, queue="copy")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = read.option("topic", "copy").load().collect()
    assert sorted(int(row["value"]) for row in copied) == list(range(ROWS))


def test_executors_need_no_file(secured: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(Path(secured["service.caFile"]).read_bytes())
    given = {**secured, "service.caFile": str(file), "topic": "orders", "columns": "value"}
    reader = DefaultSource(given).reader(StructType().add("value", "binary"))
    parts = reader.partitions()
    file.unlink()
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == ROWS


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_bytes(content)
    given = {"service.url": "https://localhost:1", "service.caFile": str(file), "topic": "t"}
    with pytest.raises(OptionError, match='option "service.caFile": expected a file of cert') as no:
        DefaultSource(given).reader(StructType().add("value", "binary"))
    assert "\n" not in str(no.value)
