"""Compression, encryption, chunks and schemas: between this client and the official one, both
ways."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pulsar
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.pulsar_client.conftest import Broker

from arneb_pulsar.client import (
    Batching,
    Compression,
    ConsumerOptions,
    CryptoFailureAction,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.codec.encryption import KeyFiles
from arneb_pulsar.client.codec.schemas.avro_schema import AvroSchema
from arneb_pulsar.client.codec.schemas.json_schema import JsonSchema
from arneb_pulsar.client.codec.schemas.schema import StringSchema
from arneb_pulsar.client.errors import IncompatibleSchema, MessageTooLarge, TimedOut

OPTIONS = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
SINGLE = ProducerOptions(batching=None)
OFFICIAL = {
    Compression.NONE: pulsar.CompressionType.NONE,
    Compression.LZ4: pulsar.CompressionType.LZ4,
    Compression.ZLIB: pulsar.CompressionType.ZLib,
    Compression.ZSTD: pulsar.CompressionType.ZSTD,
    Compression.SNAPPY: pulsar.CompressionType.SNAPPY,
}
BODY = bytes(range(256)) * 20


class Official:
    """The official client, whose calls wait in threads."""

    def __init__(self, url: str) -> None:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self.client = pulsar.Client(url, logger=quiet, operation_timeout_seconds=10)

    async def subscribe(self, topic: str, **options: Any) -> Any:
        make = partial(
            self.client.subscribe,
            topic,
            "official",
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            **options,
        )
        return await anyio.to_thread.run_sync(make)

    async def producer(self, topic: str, **options: Any) -> Any:
        make = partial(self.client.create_producer, topic, **options)
        return await anyio.to_thread.run_sync(make)


@pytest.fixture
def official(broker: Broker) -> Iterator[Official]:
    made = Official(broker.pulsar_url)
    yield made
    made.client.close()


async def received(consumer: Any) -> Any:
    """From the official client."""
    message = await anyio.to_thread.run_sync(consumer.receive, 10_000)
    consumer.acknowledge(message)
    return message


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.in_peace("the official client sees what comes again as well")
async def test_compressions_go_both_ways(
    broker: Broker, topic: str, official: Official, compression: Compression
) -> None:
    theirs = await official.subscribe(topic)
    async with connect(broker.pulsar_url) as client:
        ours = await client.subscribe(topic, "ours", OPTIONS)
        batch = await client.create_producer(topic, compression=compression)
        single = await client.create_producer(topic, SINGLE, compression=compression)
        await batch.send_batch([BODY, b"", b"x"])
        await single.send(BODY, key="k", properties={"a": "b"})
        for expected in (BODY, b"", b"x", BODY):
            assert (await received(theirs)).data() == expected
            assert (await ours.receive(10)).data == expected
        for batching in (True, False):
            producer = await official.producer(
                topic, compression_type=OFFICIAL[compression], batching_enabled=batching
            )
            send = partial(producer.send, BODY, partition_key="k", properties={"a": "b"})
            await anyio.to_thread.run_sync(send)
            got = await ours.receive(10)
            assert (got.data, got.key, got.properties) == (BODY, "k", {"a": "b"})


@pytest.mark.in_peace("the official client sees what comes again as well")
async def test_large_messages_travel_in_chunks(
    broker: Broker, topic: str, official: Official
) -> None:
    body = bytes(range(251)) * 25_000
    theirs = await official.subscribe(topic)
    async with connect(broker.pulsar_url) as client:
        ours = await client.subscribe(topic, "ours", OPTIONS)
        plain = await client.create_producer(topic)
        with pytest.raises(MessageTooLarge):
            await plain.send(body)
        options = ProducerOptions(batching=Batching(), chunking=True, chunk_bytes_max=700_000)
        producer = await client.create_producer(topic, options)
        sent = await producer.send(body, properties={"a": "b"})
        assert sent.first_chunk is not None
        assert (await received(theirs)).data() == body
        got = await ours.receive(20)
        assert (got.data, got.properties, got.id) == (body, {"a": "b"}, sent)
        await ours.acknowledge_stored(got)
        other = await official.producer(topic, chunking_enabled=True, batching_enabled=False)
        await anyio.to_thread.run_sync(other.send, body)
        assert (await ours.receive(20)).data == body


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The public and the private half of a key, as files."""
    directory = tmp_path_factory.mktemp("keys")
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    private, public = directory / "private.pem", directory / "public.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return public, private


@pytest.mark.in_peace("the official client sees what comes again as well")
async def test_encryption_goes_both_ways(
    broker: Broker, topic: str, official: Official, keys: tuple[Path, Path]
) -> None:
    reader = pulsar.CryptoKeyReader(*map(str, keys))
    files = KeyFiles({"k": str(keys[0])}, {"k": str(keys[1])})
    theirs = await official.subscribe(topic, crypto_key_reader=reader)
    async with connect(broker.pulsar_url) as client:
        ours = await client.subscribe(topic, "ours", OPTIONS, key_reader=files)
        for options in (ProducerOptions(), SINGLE):
            producer = await client.create_producer(
                topic,
                options,
                compression=Compression.LZ4,
                encryption_keys=["k"],
                key_reader=files,
            )
            await producer.send(BODY)
            assert (await received(theirs)).data() == BODY
            assert (await ours.receive(10)).data == BODY
        other = await official.producer(topic, encryption_key="k", crypto_key_reader=reader)
        await anyio.to_thread.run_sync(other.send, BODY)
        assert (await ours.receive(10)).data == BODY


@pytest.mark.in_peace("what nobody can read comes again")
async def test_without_the_key_the_action_says_what_becomes_of_a_message(
    broker: Broker, topic: str, keys: tuple[Path, Path]
) -> None:
    files = KeyFiles({"k": str(keys[0])}, {"k": str(keys[1])})
    async with connect(broker.pulsar_url) as client:
        consumers = {
            action: await client.subscribe(
                topic,
                action.value,
                ConsumerOptions(
                    type=SubscriptionType.SHARED,
                    initial_position=InitialPosition.EARLIEST,
                    crypto_failure=action,
                ),
            )
            for action in CryptoFailureAction
        }
        producer = await client.create_producer(
            topic, SINGLE, encryption_keys=["k"], key_reader=files
        )
        await producer.send(b"secret")
        clear = await client.create_producer(topic, SINGLE)
        await clear.send(b"clear")
        raw = await consumers[CryptoFailureAction.CONSUME].receive(10)
        assert raw.is_encrypted
        assert b"secret" not in raw.data
        assert raw.encryption.encryption_keys[0].key == "k"
        for action in (CryptoFailureAction.DISCARD, CryptoFailureAction.FAIL):
            assert (await consumers[action].receive(10)).data == b"clear"
            with pytest.raises(TimedOut):
                await consumers[action].receive(0.2)
            await consumers[action].close()
        # What was not to be decrypted is gone where it was discarded, and is still there if not.
        reading = {
            action: await client.subscribe(topic, action.value, OPTIONS, key_reader=files)
            for action in (CryptoFailureAction.DISCARD, CryptoFailureAction.FAIL)
        }
        found = [
            (await reading[CryptoFailureAction.FAIL].receive(10)).data,
            (await reading[CryptoFailureAction.DISCARD].receive(10)).data,
        ]
        assert found == [b"secret", b"clear"]


@dataclass
class Point:
    x: int
    y: int


@dataclass
class NewPoint:
    x: int
    y: int
    label: str | None = None


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
async def test_schemas_grow(broker: Broker, topic: str, kind: Any) -> None:
    async with connect(broker.pulsar_url) as client:
        old = await client.create_producer(topic, schema=kind(Point))
        await old.send(Point(1, 2))
        new = await client.create_producer(topic, schema=kind(NewPoint))
        await new.send(NewPoint(3, 4, "here"))
        consumer = await client.subscribe(topic, "s", OPTIONS, schema=kind(NewPoint))
        assert (await consumer.receive(10)).value == NewPoint(1, 2, None)
        assert (await consumer.receive(10)).value == NewPoint(3, 4, "here")
        with pytest.raises(IncompatibleSchema):
            await client.create_producer(topic, schema=StringSchema())
