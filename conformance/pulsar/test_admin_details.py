"""What administration scripts lean on: what is deleted is gone, numbers may be text, and what is
given is kept."""

import json
from typing import Any

import pulsar
import pytest
from conformance.pulsar.admin import NAMESPACE, Admin, Refused, local
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import WITHIN_MS, send

SCHEMAS = "/admin/v2/schemas/public/default/"


def refused(call: Any, *arguments: Any, **query: str) -> int:
    """The status with which a call is refused."""
    with pytest.raises(Refused) as caught:
        call(*arguments, **query)
    return caught.value.status


def schema(*fields: str) -> dict[str, Any]:
    """A record of numbers that may be left out."""
    parts = [{"name": each, "type": "int", "default": 0} for each in fields]
    text = json.dumps({"type": "record", "name": "R", "fields": parts})
    return {"type": "AVRO", "schema": text, "properties": {}}


def test_what_was_deleted_is_not_found_by_its_number_either(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    path = f"{SCHEMAS}{topic}"
    admin.put(topic)
    for number, fields in enumerate((["a"], ["a", "b"])):
        made = admin.post(f"{path}/schema", schema(*fields))
        assert made == {"version": {"version": number}}
    assert admin.post(f"{path}/compatibility", schema("a", "b", "c")) == {
        "schemaCompatibilityStrategy": "FULL",
        "compatibility": True,
    }
    assert admin.delete(f"{path}/schema") == {"version": 2}
    for each in ("schema", "schema/0", "schema/1", "schema/2"):
        assert refused(admin.get, f"{path}/{each}") == 404
    assert admin.get(f"{path}/schemas") == {"getSchemaResponses": []}
    assert admin.post(f"{path}/version", schema("a")) == {"version": -1}
    assert admin.post(f"{path}/schema", schema("z")) == {"version": {"version": 3}}
    shown = admin.get(f"{path}/schemas")["getSchemaResponses"]
    assert [each["version"] for each in shown] == [3]
    assert admin.delete(f"{path}/schema", force="true") == {"version": -1}
    assert admin.get(f"{path}/schemas") == {"getSchemaResponses": []}


def test_the_schema_of_bytes_is_none(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    admin.put(topic)
    nothing = {"type": "BYTES", "schema": "", "properties": {}}
    made = admin.post(f"{SCHEMAS}{topic}/schema", nothing)
    assert made == {"version": {"version": 0}}
    assert admin.get(f"{SCHEMAS}{topic}/schema")["type"] == "NONE"


def test_properties_that_a_topic_is_made_with_are_kept(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    admin.put(topic, {"k": "v"})
    assert admin.get(f"{topic}/properties") == {"k": "v"}
    admin.put(f"{topic}/properties", {"more": "w"})
    assert admin.get(f"{topic}/properties") == {"k": "v", "more": "w"}
    admin.delete(f"{topic}/properties", key="k")
    assert admin.get(f"{topic}/properties") == {"more": "w"}


def test_a_partitioned_topic_without_properties_has_no_document(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    admin.put(f"{topic}/partitions", "2")
    assert admin.get(f"{topic}/partitions")["partitions"] == 2
    assert admin.get(f"{topic}/properties") is None


@pytest.mark.parametrize(
    ("path", "given", "shown"),
    [
        ("messageTTL", "30", 30),
        ("messageTTL", 30.0, 30),
        ("deduplication", "true", True),
        (
            "retention",
            {"retentionTimeInMinutes": "10", "retentionSizeInMB": "20"},
            {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20},
        ),
    ],
)
def test_numbers_and_truths_may_be_text(admin: Admin, path: str, given: Any, shown: Any) -> None:
    try:
        admin.post(f"{NAMESPACE}/{path}", given)
        assert admin.get(f"{NAMESPACE}/{path}") == shown
    finally:
        admin.delete(f"{NAMESPACE}/{path}")


def test_what_set_up_scripts_and_shells_ask_of_brokers(admin: Admin) -> None:
    there = {"serviceUrl": "http://127.0.0.1:1"}
    assert refused(admin.put, "/admin/v2/clusters/standalone", there) == 409
    assert isinstance(admin.get("/admin/v2/brokers/configuration"), list)
    assert admin.get("/admin/v2/brokers/configuration/values") == {}
    runtime = admin.get("/admin/v2/brokers/configuration/runtime")
    assert runtime["clusterName"] == "standalone"
    assert runtime["maxMessageSize"] == str(5 * 1024 * 1024)
    assert "metadataStoreUrl" in admin.get("/admin/v2/brokers/internal-configuration")


@pytest.mark.parametrize(
    ("kind", "unacked"), [(pulsar.ConsumerType.Exclusive, 0), (pulsar.ConsumerType.Shared, 3)]
)
def test_unacknowledged_messages_are_counted_where_several_share(
    client: pulsar.Client, admin: Admin, name: Named, kind: pulsar.ConsumerType, unacked: int
) -> None:
    topic = name("t")
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    send(producer, [b"1", b"2", b"3"])
    for _ in range(3):
        consumer.receive(WITHIN_MS)
    stats = admin.get(f"{local(topic)}/stats")
    found = stats["subscriptions"]["s"]
    assert found["unackedMessages"] == unacked
    assert [each["unackedMessages"] for each in found["consumers"]] == [unacked]
    assert len(stats["publishers"]) == 1
    assert stats["bytesInCounter"] > 0
    bare = admin.get(f"{local(topic)}/stats", excludePublishers="true", excludeConsumers="true")
    assert bare["publishers"] == []
    assert bare["subscriptions"]["s"]["consumers"] == []


def test_the_type_of_a_subscription_that_nobody_used(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = local(name("t"))
    admin.put(topic)
    admin.put(f"{topic}/subscription/s", "earliest")
    assert admin.get(f"{topic}/stats")["subscriptions"]["s"]["type"] == "None"
