"""What compaction and Spark, which are no consumers, see of a transaction: what was committed."""

from pathlib import Path
from typing import Any

import pytest
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, connected
from tests.pulsar_frontend.server.transacting import begin, end, send

from arneb_pulsar.services.transactions.held_records import NAME
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from pyspark_arneb import DefaultSource
from pyspark_arneb.batch import BatchReader
from pyspark_arneb.log.environment import close_environments

pytestmark = pytest.mark.real_time

TOPIC = "persistent://public/default/t"
KEY = {"partition_key": "k"}


async def superseding(client: RawClient) -> Any:
    """An open transaction with a later message of a key that there is."""
    await client.producer("t")
    await client.subscribe("t", 9)  # keeps what nobody has read
    old = await begin(client)
    await send(client, old, b"|old", **KEY)
    await end(client, old, commit=True)
    transaction = await begin(client)
    await send(client, transaction, b"|new", first=1, **KEY)
    return transaction


async def compacted(running: Running, client: RawClient, consumer_id: int) -> list[bytes]:
    """What a new reader gets once the topic is compacted."""
    await running.context.compactor.compact(running.core.topic(TOPIC))
    await client.subscribe(
        "t",
        consumer_id,
        subscription=f"reader {consumer_id}",
        subType=pb.CommandSubscribe.Exclusive,
        durable=False,
        read_compacted=True,
        initialPosition=pb.CommandSubscribe.Earliest,
    )
    await client.flow(10, consumer_id)
    found = [body[body.rindex(b"|") :] for _, body in await client.take(1)]
    assert await client.silent()
    await client.send(pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=9))
    await client.expect(pb.CommandSuccess)
    return found


@pytest.mark.parametrize("commit", [True, False])
async def test_compaction_knows_only_what_was_committed(
    open_broker: OpenBroker, commit: bool
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, reader):
        transaction = await superseding(client)
        assert await compacted(running, reader, 1) == [b"|old"]
        await end(client, transaction, commit=commit)
        assert await compacted(running, reader, 2) == [b"|new" if commit else b"|old"]


def rows(directory: Path) -> list[bytes]:
    """The values that Spark finds in all topics."""
    close_environments()
    source = DefaultSource({"path": str(directory), "topicsPattern": ".*"})
    reader = source.reader(source.schema())
    assert isinstance(reader, BatchReader)
    found = [
        row["value"]
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]
    close_environments()
    return found


@pytest.mark.parametrize("commit", [True, False])
async def test_spark_finds_only_what_was_committed(
    open_broker: OpenBroker, tmp_path: Path, commit: bool
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        transaction = await superseding(client)
        assert running.core.topic(NAME).messages
    assert rows(tmp_path / "data") == [b"|old"]
    async with open_broker() as running, connected(running.context) as (client,):
        await running.context.transactions.start()
        await end(client, transaction, commit=commit)
    assert rows(tmp_path / "data") == ([b"|old", b"|new"] if commit else [b"|old"])
