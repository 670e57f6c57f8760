"""Bad input: each is a typed error that says what was expected, what came and where, and what
was accepted before is not lost."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from tests.pulsar_client.conftest import Broker

from arneb_pulsar.client import (
    EARLIEST,
    Batching,
    Client,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    TlsOptions,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.codec.schemas.json_schema import JsonSchema
from arneb_pulsar.client.codec.schemas.schema import BytesSchema, StringSchema
from arneb_pulsar.client.errors import (
    ClientClosed,
    ConfigurationError,
    ConnectError,
    IncompatibleSchema,
    InvalidTopic,
    InvalidUrl,
    MessageTooLarge,
    NotPulsar,
    SchemaError,
    TlsFailed,
    TopicNotFound,
    TopicTerminated,
    UnknownAddress,
)

EARLY = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
HELD = ProducerOptions(batching=Batching(delay_s=3_600))
"""Its batch is closed by nothing that is tested here."""

pytestmark = pytest.mark.in_peace("says what an error is at once")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("127.0.0.1:6650", "begins with one of pulsar.*got '127.0.0.1:6650'"),
        ("amqp://127.0.0.1:6650", "got 'amqp://"),
        ("pulsar://", "expected host:port"),
        ("pulsar://a:b", "expected host:port in 'pulsar://a:b', got 'a:b'"),
        ("pulsar://a:1,b:99999", "got 'b:99999'"),
    ],
)
async def test_a_url_that_is_none(url: str, reason: str) -> None:
    with pytest.raises(InvalidUrl, match=reason):
        async with connect(url):
            pass


async def test_a_host_that_is_not_known(topic: str) -> None:
    async with connect("pulsar://nowhere.invalid:6650") as client:
        with anyio.fail_after(20), pytest.raises(UnknownAddress, match="nowhere.invalid:6650"):
            await client.create_producer(topic)
    async with connect("http://nowhere.invalid:8080") as client:
        with anyio.fail_after(20), pytest.raises(UnknownAddress, match="nowhere.invalid:8080"):
            await client.subscribe(topic, "s")


async def test_a_port_where_somebody_else_listens(broker: Broker, topic: str) -> None:
    http = broker.http_url.partition("://")[2]
    pulsar, *_ = broker.pulsar_url.partition("://")[2].split(",")
    async with connect(f"pulsar://{http}") as client:
        with anyio.fail_after(10), pytest.raises(NotPulsar, match=f"{http}, which speaks HTTP"):
            await client.create_producer(topic)
    soon = ClientOptions(operation_timeout_s=1.0)
    for url, kind, reason in (
        (f"pulsar+ssl://{pulsar}", ConnectError, pulsar),
        (f"pulsar+ssl://{http}", TlsFailed, f"expected TLS with pulsar.ssl://{http}"),
        (f"http://{pulsar}", ConnectError, f"expected an answer of {pulsar}"),
    ):
        async with connect(url, soon) as client:
            with pytest.raises(kind, match=reason):
                await client.create_producer(topic)


async def test_one_of_several_brokers_is_enough(broker: Broker, topic: str) -> None:
    for url in (broker.pulsar_url, broker.http_url):
        scheme, _, address = url.partition("://")
        several = f"{scheme}://127.0.0.1:1,nowhere.invalid:6650,{address}"
        async with connect(several) as client:
            with anyio.fail_after(20):
                producer = await client.create_producer(topic)
            assert (await producer.send(b"x")).topic == topic
    alone = ClientOptions(operation_timeout_s=0.5)
    async with connect("pulsar://127.0.0.1:1,127.0.0.1:2", alone) as client:
        with pytest.raises(ConnectError, match="127.0.0.1:2"):
            await client.create_producer(topic)


async def test_files_of_certificates_that_are_none(tmp_path: Any) -> None:
    (tmp_path / "text").write_text("no certificate")
    for tls, reason in (
        (TlsOptions(str(tmp_path / "none")), "expected certificates in .*none"),
        (TlsOptions(str(tmp_path / "text")), "expected certificates in .*text"),
        (TlsOptions(certificate=str(tmp_path / "text")), "expected a certificate in .*text"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            async with connect("pulsar+ssl://127.0.0.1:1", ClientOptions(tls=tls)):
                pass


async def test_names_that_no_topic_can_have(broker: Broker) -> None:
    async with connect(broker.pulsar_url) as client:
        wrong: Any
        for wrong in ("", "a/b", "persistent://x", "queue://public/default/t", 7, None):
            with pytest.raises(InvalidTopic, match="expected"):
                await client.create_producer(wrong)
        with pytest.raises(ConfigurationError, match="subscription"):
            await client.subscribe("t", "")
        with pytest.raises(ConfigurationError, match="expected a pattern"):
            await client.subscribe_pattern("public/default/(", "s")
        with pytest.raises(ConfigurationError, match="topic to subscribe to"):
            await client.subscribe([], "s")


async def test_a_message_over_the_bound(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        producer = await client.create_producer(topic, HELD)
        calls: list[MessageId | None] = []
        producer.send_nowait(b"before", callback=lambda found, _error: calls.append(found))
        large = bytes(6 << 20)
        with pytest.raises(MessageTooLarge, match=r"expected .*5242880.*got 6291"):
            producer.send_nowait(large)
        with pytest.raises(MessageTooLarge, match="5242880"):
            await producer.send(large)
        with pytest.raises(MessageTooLarge, match="5242880"):
            await producer.send_batch([large])
        await producer.send(b"after")
        assert [type(each) for each in calls] == [MessageId]
        assert [(await consumer.receive(10)).data for _ in range(2)] == [b"before", b"after"]


async def test_values_and_keywords_that_cannot_be_meant(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        producer = await client.create_producer(topic, HELD)
        producer.send_nowait(b"before")
        wrong: list[dict[str, Any]] = [
            {"key": 7},
            {"properties": {"a": 1}},
            {"event_time_ms": -1},
            {"sequence_id": -2},
            {"deliver_at_ms": 1, "deliver_after_s": 1.0},
        ]
        for keywords in wrong:
            with pytest.raises(ConfigurationError, match="expected .*got"):
                producer.send_nowait(b"x", **keywords)
        with pytest.raises(SchemaError, match="expected bytes.*got str"):
            producer.send_nowait("text")  # type: ignore[arg-type]
        await producer.flush()
        message = await consumer.receive(10)
        assert message.data == b"before"
        not_one: Any = "1:2:3"
        with pytest.raises(ConfigurationError, match="expected a message or its id, got str"):
            consumer.acknowledge(not_one)
        with pytest.raises(ValueError, match="expected a message id, got 3 other bytes"):
            MessageId.deserialize(b"\xff\xff\xff")


class Utf8(StringSchema):
    """Text of a topic whose broker knows no schema."""

    info = BytesSchema.info


async def test_a_schema_that_does_not_match(broker: Broker, topic: str) -> None:
    old = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    new = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, HELD, schema=JsonSchema(old))
        producer.send_nowait({"id": 1})
        with pytest.raises(IncompatibleSchema, match=topic):
            await client.create_producer(topic, schema=JsonSchema(new))
        with pytest.raises(IncompatibleSchema, match=topic):
            await client.subscribe(topic, "s", EARLY, schema=StringSchema())
        with pytest.raises(SchemaError, match="expected a value that JSON can say.*set"):
            producer.send_nowait({"id": {1}})
        await producer.flush()
        consumer = await client.subscribe(topic, "s", EARLY, schema=JsonSchema(old))
        assert (await consumer.receive(10)).value == {"id": 1}
        plain = await client.create_producer(f"{topic}-text")
        await plain.send(b"\xff")
        reader = await client.create_reader(f"{topic}-text", EARLIEST, schema=Utf8())
        message = await reader.read(10)
        with pytest.raises(SchemaError, match="expected"):
            _ = message.value
        assert message.data == b"\xff"


async def test_a_topic_that_is_not_there_or_gone(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        absent = ConsumerOptions(create_topic=False)
        with pytest.raises(TopicNotFound, match=topic):
            await client.subscribe(topic, "s", absent)
        consumer = await client.subscribe(topic, "s", EARLY)
        producer = await client.create_producer(topic)
        ends: list[Any] = []
        last = await client.subscribe(
            topic,
            "end",
            ConsumerOptions(initial_position=InitialPosition.EARLIEST, on_end_of_topic=ends.append),
        )
        await producer.send(b"last")
        await admin.terminate(topic)
        with pytest.raises(TopicTerminated, match=topic):
            await producer.send(b"more")
        with pytest.raises(TopicTerminated, match=topic):
            producer.send_nowait(b"more")
        assert producer.is_closed
        assert (await consumer.receive(10)).data == b"last"
        await last.acknowledge_stored(await last.receive(10))


def uses_of(client: Client, topic: str) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: client.create_producer(topic),
        lambda: client.subscribe(topic, "s"),
        lambda: client.subscribe_pattern("public/default/.*", "s"),
        lambda: client.create_reader(topic, EARLIEST),
        lambda: client.create_table_view(topic),
        lambda: client.partitions_of(topic),
        client.begin_transaction,
    ]


async def test_a_client_that_was_closed(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        producer = await client.create_producer(topic, HELD)
        producer.send_nowait(b"accepted before")
        message = None
        await client.close()
        for use in uses_of(client, topic):
            with pytest.raises(ClientClosed, match="closed"):
                await use()
        with pytest.raises(ClientClosed, match=topic):
            producer.send_nowait(b"x")
        with pytest.raises(ClientClosed, match=topic):
            await producer.send(b"x")
        while message is None:
            try:
                message = consumer.receive_nowait()
            except ClientClosed as error:
                assert topic in str(error)
                break
        with pytest.raises(ClientClosed, match=topic):
            await consumer.receive()
        await producer.close()
        await client.close()
    for use in uses_of(client, topic):
        with pytest.raises(ClientClosed, match="closed"):
            await use()
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        assert (await consumer.receive(10)).data == b"accepted before"
