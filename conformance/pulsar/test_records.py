"""Values with a schema: every type that the wheel writes, versions, partitions."""

from enum import Enum
from typing import Any

import pulsar
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Connect, Named
from conformance.pulsar.helpers import WITHIN_MS
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from pulsar.schema import (
    Array,
    AvroSchema,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Float,
    Integer,
    JsonSchema,
    Long,
    Map,
    ProtobufNativeSchema,
    Record,
    String,
)

EARLIEST = pulsar.InitialPosition.Earliest


class Colour(Enum):
    RED = 1
    GREEN = 2


class Place(Record):  # type: ignore[misc]
    """A record nested in others."""

    city = String(required=True)
    number = Integer()


class Everything(Record):  # type: ignore[misc]
    """A field of every type that both encodings support."""

    _avro_namespace = "arneb.test"

    yes = Boolean(default=True)
    small = Integer(required=True)
    large = Long(default=1 << 40)
    short = Float()
    long = Double(default=2.5)
    text = String(default="hello")
    colour = CustomEnum(Colour)
    list = Array(String())
    table = Map(Integer())
    place = Place()
    places = Array(Place())


class Binary(Record):  # type: ignore[misc]
    """A type that JSON cannot represent."""

    data = Bytes(required=True)


class Order(Record):  # type: ignore[misc]
    """The first version of an order."""

    item = String(required=True)


class LaterOrder(Record):  # type: ignore[misc]
    """A later version, with more fields."""

    item = String(required=True)
    gift = String(default=None, required_default=True)


class Person(Record):  # type: ignore[misc]
    """The first version of a person, whose fields come as they are declared."""

    name = String()
    age = Integer()


class LaterPerson(Record):  # type: ignore[misc]
    """A later version, with its fields in another order."""

    _sorted_fields = True
    name = String()
    age = Integer(required=True)


FORMS = pytest.mark.parametrize("form", [JsonSchema, AvroSchema])


def there_and_back(client: pulsar.Client, topic: str, schema: Any, *values: Any) -> list[Any]:
    consumer = client.subscribe(topic, "s", schema=schema, initial_position=EARLIEST)
    producer = client.create_producer(topic, schema=schema)
    for value in values:
        producer.send(value)
    return [consumer.receive(WITHIN_MS).value() for _ in values]


@FORMS
def test_every_field_comes_as_it_was(client: pulsar.Client, topic: str, form: Any) -> None:
    full = Everything(
        yes=False,
        small=-7,
        large=1 << 62,
        short=0.5,
        long=1e300,
        text="Ærø \N{SNOWMAN}",
        colour=Colour.GREEN,
        list=["a", "b"],
        table={"a": 1, "b": -2},
        place=Place(city="Oslo", number=3),
        places=[Place(city="Rome", number=1), Place(city="Bern", number=2)],
    )
    (found,) = there_and_back(client, topic, form(Everything), full)
    for field in ("yes", "small", "large", "short", "long", "text", "colour", "list", "table"):
        assert getattr(found, field) == getattr(full, field), field
    assert (found.place.city, found.place.number) == ("Oslo", 3)
    assert [(each.city, each.number) for each in found.places] == [("Rome", 1), ("Bern", 2)]


@FORMS
def test_what_is_left_out_has_its_default(client: pulsar.Client, topic: str, form: Any) -> None:
    sparse = Everything(small=1, place=Place(city="x"))
    (found,) = there_and_back(client, topic, form(Everything), sparse)
    assert (found.yes, found.large, found.long, found.text) == (True, 1 << 40, 2.5, "hello")
    assert (found.short, found.colour, found.list, found.table) == (None, None, None, None)


def test_bytes_of_any_value(client: pulsar.Client, topic: str) -> None:
    (found,) = there_and_back(client, topic, AvroSchema(Binary), Binary(data=bytes(range(256))))
    assert found.data == bytes(range(256))


def test_a_definition_does_without_a_class(client: pulsar.Client, topic: str) -> None:
    fields = [
        {"name": "item", "type": "string"},
        {"name": "count", "type": ["null", "int"], "default": None},
    ]
    schema = AvroSchema(None, {"type": "record", "name": "Order", "fields": fields})
    values = [{"item": "pen", "count": 3}, {"item": "ink", "count": None}]
    assert there_and_back(client, topic, schema, *values) == values


@FORMS
def test_a_message_says_its_version(connect: Connect, topic: str, form: Any) -> None:
    consumer = connect().subscribe(topic, "s")
    for _ in range(2):
        connect().create_producer(topic, schema=form(Order)).send(Order(item="pen"))
        later = LaterOrder(item="ink", gift="bow")
        connect().create_producer(topic, schema=form(LaterOrder)).send(later)
    versions = [consumer.receive(WITHIN_MS).schema_version() for _ in range(4)]
    assert versions[0] == versions[2] != versions[1] == versions[3]


def test_a_reader_of_the_first_version_reads_the_later_one(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    namespace = f"public/{name('ns')}"
    admin.put(f"/admin/v2/namespaces/{namespace}")
    admin.put(f"/admin/v2/namespaces/{namespace}/schemaCompatibilityStrategy", "FORWARD")
    topic, first = f"{namespace}/t", AvroSchema(Person)
    before = client.create_producer(topic, schema=first)
    consumer = client.subscribe(topic, "s", schema=first)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, schema=first)
    after = client.create_producer(topic, schema=AvroSchema(LaterPerson))
    for age in range(10):
        before.send(Person(name=f"first {age}", age=age))
        after.send(LaterPerson(name=f"later {age}", age=age))
    expected = [(f"{each} {age}", age) for age in range(10) for each in ("first", "later")]
    for receive in (consumer.receive, reader.read_next):
        found = [receive(WITHIN_MS).value() for _ in expected]
        assert [(each.name, each.age) for each in found] == expected


@FORMS
def test_a_reader_reads_values_too(client: pulsar.Client, topic: str, form: Any) -> None:
    producer = client.create_producer(topic, schema=form(Order))
    ids = [producer.send(Order(item=f"item {number}")) for number in range(3)]
    reader = client.create_reader(topic, ids[0], schema=form(Order))
    assert [reader.read_next(WITHIN_MS).value().item for _ in range(2)] == ["item 1", "item 2"]


@FORMS
def test_partitions_have_one_schema(
    client: pulsar.Client, admin: Admin, topic: str, form: Any
) -> None:
    admin.put(f"{local(topic)}/partitions", 3)
    orders = [Order(item=f"item {number}") for number in range(9)]
    found = there_and_back(client, topic, form(Order), *orders)
    assert sorted(each.item for each in found) == [each.item for each in orders]
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=form(Binary))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(f"{topic}-partition-1", schema=form(Binary))
    schema = admin.get(f"/admin/v2/schemas/public/default/{local(topic)}/schema")
    assert (schema["version"], schema["type"]) == (0, "JSON" if form is JsonSchema else "AVRO")


def test_a_batch_has_values_too(client: pulsar.Client, topic: str) -> None:
    schema = AvroSchema(Order)
    consumer = client.subscribe(topic, "s", schema=schema)
    producer = client.create_producer(topic, schema=schema, batching_enabled=True)
    for number in range(20):
        producer.send_async(Order(item=f"item {number}"), None)
    producer.flush()
    found = [consumer.receive(WITHIN_MS).value().item for _ in range(20)]
    assert found == [f"item {number}" for number in range(20)]


def test_protocol_buffers_go_through(client: pulsar.Client, topic: str) -> None:
    value = Struct()
    value.update({"city": "Oslo", "numbers": [1, 2, {"three": None}]})
    assert there_and_back(client, topic, ProtobufNativeSchema(Struct), value) == [value]


def test_protocol_buffers_keep_their_message(connect: Connect, topic: str) -> None:
    """The two messages have the same fields; only their names differ."""
    client = connect()
    moment = Timestamp(seconds=7, nanos=5)
    assert there_and_back(client, topic, ProtobufNativeSchema(Timestamp), moment) == [moment]
    connect().create_producer(topic, schema=ProtobufNativeSchema(Timestamp))
    for wrong in (ProtobufNativeSchema(Duration), AvroSchema(Order)):
        with pytest.raises(pulsar.IncompatibleSchema):
            connect().create_producer(topic, schema=wrong)
        with pytest.raises(pulsar.IncompatibleSchema):
            connect().subscribe(topic, "t", schema=wrong)
