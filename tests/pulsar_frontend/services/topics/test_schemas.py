"""Schemas attached to topics, over a real core."""

import json
from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import RawClient, connected

from arneb_pulsar.names import parse_topic
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.services.operations.topic_lifecycle import drop
from arneb_pulsar.session.errors import JAVA_NAME
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

TOPIC = parse_topic("t")
STRING = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
ANY = pb.Schema(name="s", schema_data=b"", type=pb.Schema.AutoConsume)


def record(*fields: str) -> pb.Schema:
    found = [{"name": name, "type": "int"} for name in fields]
    data = json.dumps({"type": "record", "name": "R", "fields": found}).encode()
    return pb.Schema(name="r", schema_data=data, type=pb.Schema.Avro)


def version(number: int) -> bytes:
    return number.to_bytes(8, "big")


async def get(client: RawClient, number: int | None = None, topic: str = "t") -> Any:
    asked = None if number is None else version(number)
    await client.send(pb.CommandGetSchema(request_id=9, topic=topic, schema_version=asked))
    return await client.expect(pb.CommandGetSchemaResponse)


async def create(client: RawClient, schema: pb.Schema, topic: str = "t") -> Any:
    await client.send(pb.CommandGetOrCreateSchema(request_id=9, topic=topic, schema=schema))
    return await client.expect(pb.CommandGetOrCreateSchemaResponse)


async def test_versions_are_durable(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        assert (await get(client)).error_code == pb.TopicNotFound
        assert (await create(client, record("a"))).error_code == pb.TopicNotFound
        assert (await client.producer(schema=record("a"))).schema_version == version(0)
        assert (await client.producer(producer_id=2)).schema_version == b""
        assert (await create(client, record("a"))).schema_version == version(0)
        refused = await create(client, record("b"))
        assert refused.error_code == pb.IncompatibleSchema
        assert "Unable to read schema" in refused.error_message
        compatible = Policies(schema_compatibility="ALWAYS_COMPATIBLE")
        await running.context.namespaces.change_namespace("public/default", lambda _: compatible)
        assert (await create(client, record("b"))).schema_version == version(1)
    async with open_broker() as running, connected(running.context) as (client,):
        assert (await get(client)).schema.schema_data == record("b").schema_data
        assert (await get(client, 0)).schema.schema_data == record("a").schema_data
        assert (await get(client, 2)).error_code == pb.TopicNotFound
        await drop(running.context, TOPIC)
        assert (await get(client, 0)).error_code == pb.TopicNotFound
        assert not running.core.metadata("pulsar/schema/")


async def test_partitions_share_the_schemas_of_the_whole(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        opened = await client.producer("t-partition-0", schema=record("a"))
        again = await client.producer("t-partition-1", producer_id=2, schema=record("a"))
        assert opened.schema_version == again.schema_version == version(0)
        assert (await get(client, topic="t")).schema.name == "public/default/t"
        await drop(running.context, parse_topic("t-partition-0"))
        await client.expect(pb.CommandCloseProducer)
        assert (await get(client, topic="t")).schema.name == "public/default/t"


async def test_a_producer_with_another_schema_is_refused(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer(schema=STRING)
        assert JAVA_NAME.endswith(".IncompatibleSchemaException")
        reason = "Incompatible schema: exists schema type STRING, new schema type AVRO"
        refused = await client.producer(producer_id=2, schema=record("a"))
        assert refused.error == pb.IncompatibleSchema
        assert refused.message == f"{JAVA_NAME}: {reason}"
        assert (await create(client, record("a"))).error_message == f"{JAVA_NAME}: {reason}"
        assert (await client.subscribe(schema=record("a"))).message == reason
        text = pb.Schema(name="s", schema_data=b"x", type=pb.Schema.String)
        refused = await client.producer(producer_id=2, schema=text)
        assert refused.message == "Invalid schema definition data for STRING schema"
        await client.producer(producer_id=2, schema=STRING)


async def test_the_first_consumer_of_an_idle_topic_brings_its_schema(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        assert isinstance(await client.subscribe(schema=ANY), pb.CommandSuccess)
        easy = await client.subscribe(consumer_id=2, schema=STRING)
        assert isinstance(easy, pb.CommandSuccess), (
            "a consumer of any schema does not count as use of the topic"
        )
        assert (await get(client)).schema.type == pb.Schema.String
        refused = await client.subscribe(consumer_id=3, schema=record("a"))
        assert refused.error == pb.IncompatibleSchema


async def test_a_consumer_brings_none_where_none_may_be_added(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        policies = Policies(may_update_schema=False)
        await running.context.namespaces.change_namespace("public/default", lambda _: policies)
        refused = await client.subscribe(schema=STRING)
        assert refused.error == pb.IncompatibleSchema
        assert "auto updating is disabled" in refused.message
        assert running.context.schemas.find(TOPIC) is None


async def test_a_used_topic_without_schema_has_none(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe("plain")
        refused = await client.subscribe("plain", consumer_id=2, schema=STRING)
        assert refused.error == pb.IncompatibleSchema
        assert refused.message == (
            "Failed to add schema to an active topic with empty(BYTES) schema:"
            " new schema type STRING"
        )
        await client.producer("sent")
        await client.publish(b"x")
        await client.reply()
        refused = await client.subscribe("sent", consumer_id=3, schema=STRING)
        assert refused.error == pb.IncompatibleSchema


async def test_plain_bytes_become_no_version(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer(schema=STRING)
        plain = pb.Schema(name="BYTES", schema_data=b"", type=getattr(pb.Schema, "None"))
        await client.send(pb.CommandGetOrCreateSchema(request_id=9, topic="t", schema=plain))
        answer = await client.expect(pb.CommandGetOrCreateSchemaResponse)
        assert answer.HasField("schema_version")
        assert (answer.schema_version, answer.HasField("error_code")) == (b"", False)
        assert [each.number for each in running.context.schemas.versions(TOPIC)] == [0]


async def test_a_producer_whose_schema_is_refused_makes_no_initial_subscription(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer(schema=STRING)
        refused = await client.producer(
            producer_id=2, schema=record("a"), initial_subscription_name="keep"
        )
        assert refused.error == pb.IncompatibleSchema
        assert not running.core.topic(TOPIC.core_name).subscriptions


async def test_a_version_is_on_disk_before_anybody_hears_of_it(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        running.store.hold()
        await client.send(pb.CommandGetOrCreateSchema(request_id=9, topic="t", schema=STRING))
        assert await client.silent()
        assert running.context.schemas.find(TOPIC) is None
        running.store.release()
        await client.expect(pb.CommandGetOrCreateSchemaResponse)
        running.store.fail_until_healed()
        policies = Policies(schema_compatibility="ALWAYS_COMPATIBLE")
        running.store.heal()
        await running.context.namespaces.change_namespace("public/default", lambda _: policies)
        running.store.fail_until_healed()
        assert (await create(client, record("a"))).error_code == pb.PersistenceError
        running.store.heal()
        assert (await create(client, record("a"))).schema_version == version(1)


async def test_large_schemas_do_not_hold_others_up(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        large = record(*(f"field{number}" for number in range(1000)))
        assert (await client.producer(schema=large)).schema_version == version(0)
        assert (await create(client, large)).schema_version == version(0)


SCHEMAS = "/admin/v2/schemas/public/default/t"


def payload(*fields: str) -> dict[str, Any]:
    return {
        "type": "AVRO",
        "schema": record(*fields).schema_data.decode(),
        "properties": {"k": "v"},
    }


async def test_administrators_see_and_change_schemas(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        assert await admin("GET", f"{SCHEMAS}/schema") == (404, {"reason": "Schema not found"})
        none = payload("a") | {"schema": "nonsense"}
        for body in (payload("a"), none):
            assert await admin("POST", f"{SCHEMAS}/version", body) == (200, {"version": -1})
        made = await admin("POST", f"{SCHEMAS}/schema", payload("a"))
        assert made == (200, {"version": {"version": 0}})
        assert await admin("POST", f"{SCHEMAS}/version", none) == (200, {"version": -1})
        assert (await client.producer(schema=record("a"))).schema_version == version(0)
        status, found = await admin("GET", f"{SCHEMAS}/schema/0")
        assert (status, found["type"], found["properties"]) == (200, "AVRO", {"k": "v"})
        assert found["data"] == payload("a")["schema"]
        assert await admin("POST", f"{SCHEMAS}/version", payload("a")) == (200, {"version": 0})
        status, reply = await admin("POST", f"{SCHEMAS}/schema", payload("b"))
        assert status == 409 and "Unable to read schema" in reply["reason"]
        expected = {"compatibility": False, "schemaCompatibilityStrategy": "FULL"}
        assert await admin("POST", f"{SCHEMAS}/compatibility", payload("b")) == (202, expected)
        assert await admin("DELETE", f"{SCHEMAS}/schema") == (200, {"version": 1})
        for path in ("schema", "schema/0", "schema/1"):
            assert (await admin("GET", f"{SCHEMAS}/{path}"))[0] == 404
        assert await admin("GET", f"{SCHEMAS}/schemas") == (200, {"getSchemaResponses": []})
        assert await admin("POST", f"{SCHEMAS}/version", payload("a")) == (200, {"version": -1})
        made = await admin("POST", f"{SCHEMAS}/schema", payload("b"))
        assert made == (200, {"version": {"version": 2}})
        _, listed = await admin("GET", f"{SCHEMAS}/schemas")
        assert [each["version"] for each in listed["getSchemaResponses"]] == [2]
        forced = await admin("DELETE", f"{SCHEMAS}/schema", force="true")
        assert forced == (200, {"version": -1})
        assert await admin("GET", f"{SCHEMAS}/schemas") == (200, {"getSchemaResponses": []})
        made = await admin(
            "POST", f"{SCHEMAS}/schema", payload("b") | {"type": "BYTES", "schema": ""}
        )
        assert made == (200, {"version": {"version": 0}})
        assert (await admin("GET", f"{SCHEMAS}/schema"))[1]["type"] == "NONE"


async def test_pairs_are_given_and_shown_as_documents(open_broker: OpenBroker) -> None:
    """As Java's clients give and read them, whose producers bring the same bytes without spaces."""
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        definition = {"type": "record", "name": "Å", "fields": [{"name": "a", "type": "int"}]}
        properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
        for spaced in (False, True):
            data = json.dumps({"key": "", "value": definition}, indent=2 if spaced else None)
            body = {"type": "KEY_VALUE", "schema": data, "properties": properties}
            made = await admin("POST", f"{SCHEMAS}/schema", body)
            assert made == (200, {"version": {"version": 0}})
        shown = (await admin("GET", f"{SCHEMAS}/schema"))[1]["data"]
        compact = json.dumps(definition, separators=(",", ":"), ensure_ascii=False)
        assert shown == f'{{"key":"","value":{compact}}}'
        brought = b"".join(len(part).to_bytes(4, "big") + part for part in (b"", compact.encode()))
        schema = pb.Schema(
            name="t",
            type=pb.Schema.KeyValue,
            schema_data=brought,
            properties=[pb.KeyValue(key=key, value=value) for key, value in properties.items()],
        )
        assert (await client.producer(schema=schema)).schema_version == version(0)


async def test_the_definition_of_a_pair_is_no_text(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        data = json.dumps({"key": "", "value": record("a").schema_data.decode()})
        properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
        body = {"type": "KEY_VALUE", "schema": data, "properties": properties}
        assert (await Admin(running)("POST", f"{SCHEMAS}/schema", body))[0] == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (3, 400),
        ([], 400),
        ({"type": [], "schema": ""}, 400),
        ({"type": "STRING", "schema": {}}, 400),
        ({"type": "STRING", "schema": "", "properties": 3}, 400),
        ({"type": "STRING", "schema": "", "properties": {"k": []}}, 400),
        ({}, 422),
        ({"type": 7, "schema": ""}, 422),
        ({"type": "AVRO", "schema": "nonsense"}, 422),
        ({"type": "UNHEARD", "schema": ""}, 422),
        ({"type": "KEY_VALUE", "schema": "{}"}, 422),
    ],
)
async def test_what_is_no_schema_is_refused_over_http_too(
    open_broker: OpenBroker, body: Any, status: int
) -> None:
    async with open_broker() as running:
        assert (await Admin(running)("POST", f"{SCHEMAS}/schema", body))[0] == status


async def test_where_no_namespace_is_no_schema_is_found_and_none_is_made(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        path = SCHEMAS.replace("default", "none")
        for which in ("schema", "schema/0"):
            assert await admin("GET", f"{path}/{which}") == (404, {"reason": "Schema not found"})
        assert await admin("GET", f"{path}/schemas") == (200, {"getSchemaResponses": []})
        assert await admin("GET", f"{path}/metadata") == (200, b"")
        assert await admin("POST", f"{path}/version", payload("a")) == (200, {"version": -1})
        absent = (404, {"reason": "Namespace does not exist"})
        for which in ("schema", "compatibility"):
            assert await admin("POST", f"{path}/{which}", payload("a")) == absent
        assert await admin("DELETE", f"{path}/schema") == absent
        await admin("PUT", "/admin/v2/namespaces/public/none")
        assert await admin("GET", f"{path}/schemas") == (200, {"getSchemaResponses": []})
