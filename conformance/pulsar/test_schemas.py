"""Schemas: attached, checked, kept."""

import anyio
import pulsar
import pytest
from conformance.pulsar.admin import Admin, Refused
from conformance.pulsar.conftest import BrokerUrls, Connect, Mortal
from conformance.pulsar.helpers import WITHIN_MS, assert_gets, played
from conformance.wire.protobuf import Fields
from conformance.wire.pulsar import PulsarClient, PulsarClosed
from pulsar.schema import (
    AvroSchema,
    Bytes,
    BytesSchema,
    Integer,
    JsonSchema,
    Record,
    String,
    StringSchema,
)

from arneb_pulsar.client import ProducerOptions
from arneb_pulsar.client import connect as connect_ours
from arneb_pulsar.client.codec.schemas import schema as ours
from arneb_pulsar.client.errors import IncompatibleSchema

AVRO = 4
AUTO_CONSUME = 21
EARLIEST = pulsar.InitialPosition.Earliest


class Order(Record):  # type: ignore[misc]
    """The first version of an order."""

    item = String()
    count = Integer()


class LaterOrder(Record):  # type: ignore[misc]
    """A compatible version, with an additional optional field."""

    _avro_namespace = None
    item = String()
    count = Integer()
    gift = String(default=None, required_default=True)


class OtherOrder(Record):  # type: ignore[misc]
    """An incompatible version: a required field has another type."""

    item = Bytes(required=True)
    count = String(required=True)


SCHEMAS = [JsonSchema, AvroSchema]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_records_go_through(connect: Connect, topic: str, schema: type) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s", schema=schema(Order))
    producer = client.create_producer(topic, schema=schema(Order))
    producer.send(Order(item="pen", count=3))
    order = consumer.receive(WITHIN_MS).value()
    assert (order.item, order.count) == ("pen", 3)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_may_grow_by_what_may_be_left_out(
    connect: Connect, topic: str, schema: type
) -> None:
    client = connect()
    client.subscribe(topic, "s").close()
    client.create_producer(topic, schema=schema(Order)).send(Order(item="pen", count=1))
    producer = connect().create_producer(topic, schema=schema(LaterOrder))
    producer.send(LaterOrder(item="ink", count=2, gift="bow"))
    consumer = connect().subscribe(topic, "s", schema=schema(LaterOrder))
    found = [consumer.receive(WITHIN_MS).value() for _ in range(2)]
    assert [(each.item, each.gift) for each in found] == [("pen", None), ("ink", "bow")]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_an_incompatible_schema_is_refused(connect: Connect, topic: str, schema: type) -> None:
    connect().create_producer(topic, schema=schema(Order))
    for wrong in (schema(OtherOrder), StringSchema()):
        with pytest.raises(pulsar.IncompatibleSchema):
            connect().create_producer(topic, schema=wrong)
        with pytest.raises(pulsar.IncompatibleSchema):
            connect().subscribe(topic, "s", schema=wrong)
    connect().create_producer(topic, schema=BytesSchema())
    connect().subscribe(topic, "s", schema=BytesSchema())


def test_a_refused_producer_hears_the_exceptions_name_and_a_consumer_the_reason(
    broker_urls: BrokerUrls, connect: Connect, topic: str
) -> None:
    connect().create_producer(topic, schema=StringSchema())
    wrong: Fields = [(1, "s"), (3, b'{"type": "record", "name": "R", "fields": []}'), (4, AVRO)]

    reason = "Incompatible schema: exists schema type STRING, new schema type AVRO"
    name = "org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException"

    async def play(client: PulsarClient) -> None:
        with pytest.raises(PulsarClosed, match=f"^error 18: {name}: {reason}"):
            await client.create_producer(topic, more=[(7, wrong)])
        with pytest.raises(PulsarClosed, match=f"^error 18: {reason}$"):
            await client.subscribe(topic, "s", more=[(12, wrong)])

    played(broker_urls.pulsar, topic, play)


def test_no_topic_has_the_schema_of_those_who_take_anything(
    broker_urls: BrokerUrls, topic: str
) -> None:
    reason = "Schema AUTO_CONSUME is a client-side schema type"

    async def play(client: PulsarClient) -> None:
        with pytest.raises(PulsarClosed, match=f"^error 18: {reason}"):
            await client.create_producer(topic, more=[(7, [(1, "s"), (3, b""), (4, AUTO_CONSUME)])])

    played(broker_urls.pulsar, topic, play)
    admin = Admin(broker_urls.admin)
    path = f"/admin/v2/schemas/{topic.removeprefix('persistent://')}/schema"
    with pytest.raises(Refused) as caught:
        admin.post(path, {"type": "AUTO_CONSUME", "schema": "", "properties": {}})
    assert caught.value.status == 422
    assert admin.get_if_there(path) is None


def test_a_used_topic_without_a_schema_takes_no_consumer_with_one(
    connect: Connect, topic: str
) -> None:
    connect().subscribe(topic, "s")
    with pytest.raises(pulsar.IncompatibleSchema):
        connect().subscribe(topic, "t", schema=StringSchema())
    connect().create_producer(topic, schema=StringSchema()).send("x")
    connect().subscribe(topic, "t", schema=StringSchema())


def test_a_producer_whose_schema_is_refused_makes_no_initial_subscription(
    broker_urls: BrokerUrls, connect: Connect, topic: str
) -> None:
    connect().create_producer(topic, schema=JsonSchema(Order)).send(Order(item="pen", count=3))

    async def come() -> None:
        async with connect_ours(broker_urls.pulsar) as client:
            options = ProducerOptions(initial_subscription="keep")
            with pytest.raises(IncompatibleSchema):
                await client.create_producer(topic, options, schema=ours.StringSchema())

    anyio.run(come)
    found = Admin(broker_urls.admin).get(f"/admin/v2/{topic.replace('://', '/')}/subscriptions")
    assert found == []


def test_a_consumer_without_a_schema_reads_a_schemas_messages(connect: Connect, topic: str) -> None:
    client = connect()
    producer = client.create_producer(topic, schema=StringSchema())
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer.send("hello")
    assert_gets(consumer, [b"hello"])


def test_schemas_survive_a_kill(mortal: Mortal) -> None:
    broker = mortal()
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.pulsar_url, logger=quiet)
    client.create_producer("t", schema=JsonSchema(Order)).close()
    broker.kill()
    broker.start()
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer("t", schema=JsonSchema(OtherOrder))
    client.create_producer("t", schema=JsonSchema(Order))
    client.close()
