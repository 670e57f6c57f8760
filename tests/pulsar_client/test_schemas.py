"""Protocol Buffers with their evolution, and readers who take whatever schema a topic has."""

from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as ProtocolMessage
from google.protobuf.message_factory import GetMessageClass
from tests.pulsar_client.conftest import Broker

from arneb_pulsar.client import (
    EARLIEST,
    ConsumerOptions,
    InitialPosition,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.codec.schemas.auto import AutoConsumeSchema
from arneb_pulsar.client.codec.schemas.avro_schema import AvroSchema
from arneb_pulsar.client.codec.schemas.json_schema import JsonSchema
from arneb_pulsar.client.codec.schemas.protobuf_schema import ProtobufNativeSchema
from arneb_pulsar.client.codec.schemas.schema import StringSchema
from arneb_pulsar.client.errors import IncompatibleSchema, SchemaError

OPTIONS = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
TEXT, NUMBER = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_INT64


def message_class(name: str, **fields: "FieldDescriptorProto.Type") -> Any:
    """A message class as ``protoc`` would make it of fields numbered in their order."""
    file = FileDescriptorProto(name=f"{name.lower()}.proto", package="shop", syntax="proto3")
    made = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        made.field.add(
            name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL
        )
    pool = DescriptorPool()
    pool.Add(file)
    found: type[ProtocolMessage] = GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
    return found


Order = message_class("Order", item=TEXT, count=NUMBER)
NewOrder = message_class("Order", item=TEXT, count=NUMBER, gift=TEXT)
Invoice = message_class("Invoice", total=NUMBER)


async def test_messages_of_protocol_buffers_grow(broker: Broker, topic: str) -> None:
    """By field numbers: older readers pass over what is new, newer ones see it empty."""
    old, new = ProtobufNativeSchema(Order), ProtobufNativeSchema(NewOrder)
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        for schema, value in (
            (old, Order(item="hat", count=1 << 40)),
            (new, NewOrder(item="coat", count=2, gift="pin")),
            (old, Order(item="shoe")),
        ):
            producer = await client.create_producer(topic, schema=schema)
            await producer.send(value)
            await producer.send_batch([value, value])
        assert (await admin.schema(topic)).type == old.info.type
        for name, schema, gifts in (("old", old, None), ("new", new, ["", "pin", ""])):
            consumer = await client.subscribe(topic, name, OPTIONS, schema=schema)
            found: Any = [(await consumer.receive(10)).value for _ in range(9)]
            assert [each.item for each in found] == ["hat"] * 3 + ["coat"] * 3 + ["shoe"] * 3
            assert [each.count for each in found[::3]] == [1 << 40, 2, 0]
            if gifts is not None:
                assert [each.gift for each in found[::3]] == gifts


async def test_another_message_of_protocol_buffers_is_refused(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        await client.create_producer(topic, schema=ProtobufNativeSchema(Order))
        for other in (ProtobufNativeSchema(Invoice), StringSchema()):
            with pytest.raises(IncompatibleSchema, match=topic):
                await client.create_producer(topic, schema=other)
        with pytest.raises(IncompatibleSchema, match=topic):
            await client.subscribe(topic, "s", OPTIONS, schema=ProtobufNativeSchema(Invoice))


@dataclass
class Point:
    x: int
    label: str | None = None


async def test_an_automatic_consumer_reads_what_each_producer_meant(
    broker: Broker, topic: str
) -> None:
    """With the schemas that the broker has of each version."""
    kinds: list[tuple[str, Any, Any, Any]] = [
        ("text", StringSchema(), "a\N{SNOWMAN}", "a\N{SNOWMAN}"),
        ("json", JsonSchema(Point), Point(1, "b"), {"x": 1, "label": "b"}),
        ("avro", AvroSchema(Point), Point(1, "b"), {"x": 1, "label": "b"}),
        ("protobuf", ProtobufNativeSchema(Order), Order(item="hat", count=3), None),
    ]
    async with connect(broker.pulsar_url) as client:
        for name, schema, value, read in kinds:
            one = f"{topic}-{name}"
            producer = await client.create_producer(one, schema=schema)
            await producer.send(value)
            await producer.send(None, key="gone")
            auto = AutoConsumeSchema()
            consumer = await client.subscribe(one, "s", OPTIONS, schema=auto)
            found, gone = [await consumer.receive(10) for _ in range(2)]
            assert gone.value is None
            if read is None:
                assert (found.value.item, found.value.count) == ("hat", 3)
            else:
                assert found.value == read
            reader = await client.create_reader(one, EARLIEST, schema=auto)
            assert (await reader.read(10)).data == found.data
        plain = await client.create_producer(f"{topic}-plain")
        await plain.send(b"\xff")
        consumer = await client.subscribe(f"{topic}-plain", "s", OPTIONS, schema=auto)
        assert (await consumer.receive(10)).value == b"\xff"
        with pytest.raises(SchemaError, match="expected a schema to write with"):
            auto.encode("x")


async def test_an_automatic_consumer_reads_each_version_as_it_was_written(
    broker: Broker, topic: str
) -> None:
    async with connect(broker.pulsar_url) as client:
        for schema, value in (
            (ProtobufNativeSchema(Order), Order(item="hat")),
            (ProtobufNativeSchema(NewOrder), NewOrder(item="coat", gift="pin")),
        ):
            producer = await client.create_producer(topic, schema=schema)
            await producer.send(value)
        consumer = await client.subscribe(topic, "s", OPTIONS, schema=AutoConsumeSchema())
        old, new = [(await consumer.receive(10)).value for _ in range(2)]
        assert [each.name for each in old.DESCRIPTOR.fields] == ["item", "count"]
        assert [each.name for each in new.DESCRIPTOR.fields] == ["item", "count", "gift"]
        assert (old.item, new.item, new.gift) == ("hat", "coat", "pin")
