"""What administration scripts rely on: deleted objects are gone, numbers may be text, and given
values are kept."""

import json
import time
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
    """A record of optional numbers."""
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


def test_a_schema_of_keys_and_values_is_shown_with_their_definitions(
    admin: Admin, name: Named
) -> None:
    path = f"{SCHEMAS}{local(name('t'))}"
    value = json.loads(schema("a")["schema"])
    given = {
        "type": "KEY_VALUE",
        "schema": json.dumps({"key": "", "value": value}, indent=1),
        "properties": {"key.schema.type": "STRING", "value.schema.type": "AVRO"},
    }
    assert admin.post(f"{path}/schema", given) == {"version": {"version": 0}}
    compact = json.dumps({"key": "", "value": value}, separators=(",", ":"))
    assert admin.get(f"{path}/schema")["data"] == compact
    text = given | {"schema": json.dumps({"key": "", "value": json.dumps(value)})}
    assert refused(admin.post, f"{path}/schema", text) == 422


def test_each_version_of_a_schema_has_a_place(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    path = f"{SCHEMAS}{topic}"
    admin.put(topic)
    assert admin.get(f"{path}/metadata") is None
    for fields in (["a"], ["a", "b"]):
        admin.post(f"{path}/schema", schema(*fields))
    found = admin.get(f"{path}/metadata")
    assert [each["version"] for each in found["index"]] == [0, 1]
    assert found["info"]["version"] == 1
    assert {"ledgerId", "entryId"} <= found["info"].keys()


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


def test_the_type_of_a_subscription_that_was_never_used(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = local(name("t"))
    admin.put(topic)
    admin.put(f"{topic}/subscription/s", "earliest")
    assert admin.get(f"{topic}/stats")["subscriptions"]["s"]["type"] == "None"


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("messageTTL", {}, 400),
        ("messageTTL", "x", 400),
        ("messageTTL", -2, 412),
        ("deduplication", [], 400),
        ("maxProducersPerTopic", True, 400),
        ("maxProducersPerTopic", -1, 412),
        ("inactiveTopicPolicies", 1, 400),
        ("autoTopicCreation", {"allowAutoTopicCreation": True}, 412),
        ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "partitioned"}, 412),
        ("messageTTL", None, 400),
        ("encryptionRequired", None, 400),
    ],
)
def test_another_kind_is_malformed_and_another_value_invalid(
    admin: Admin, path: str, given: Any, status: int
) -> None:
    assert refused(admin.post, f"{NAMESPACE}/{path}", given) == status


@pytest.mark.parametrize(
    ("path", "given", "shown"),
    [
        (
            "inactiveTopicPolicies",
            {
                "maxInactiveDurationSeconds": 60,
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            },
            {"deleteWhileInactive": False},
        ),
        ("autoTopicCreation", {}, {"allowAutoTopicCreation": False}),
        ("autoSubscriptionCreation", {}, {"allowAutoSubscriptionCreation": False}),
        (
            "delayedDelivery",
            {"active": True},
            {"active": True, "tickTime": 0, "maxDeliveryDelayInMillis": 0},
        ),
    ],
)
def test_what_is_left_out_is_false_or_nothing_and_no_document_takes_it_back(
    admin: Admin, path: str, given: Any, shown: dict[str, Any]
) -> None:
    try:
        admin.post(f"{NAMESPACE}/{path}", given)
        found = admin.get(f"{NAMESPACE}/{path}")
        assert {key: found[key] for key in shown} == shown
        admin.post(f"{NAMESPACE}/{path}")
        assert admin.get(f"{NAMESPACE}/{path}") is None
    finally:
        admin.delete(f"{NAMESPACE}/{path}")


def test_a_partition_has_no_policies_and_one_that_is_not_there_is_said_to_be_missing(
    admin: Admin, name: Named
) -> None:
    topic = local(name("t"))
    admin.put(f"{topic}/partitions", 2)
    for part in (0, 9):
        assert refused(admin.get, f"{topic}-partition-{part}/retention") == 412
    with pytest.raises(Refused, match="404: Topic partitions were not yet created"):
        admin.get(f"{topic}-partition-9/stats")
    with pytest.raises(Refused, match="404: Partitioned Topic .* not found"):
        admin.get(f"{local(name('t'))}/partitioned-stats")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("replicatorDispatchRate", None),
        ("antiAffinity", None),
        ("persistence/bookieAffinity", None),
        ("offloadPolicies", None),
        ("offloadThreshold", -1),
        ("offloadThresholdInSeconds", -1),
        ("offloadDeletionLagMs", None),
        ("entryFilters", None),
        ("property/k", None),
    ],
)
def test_settings_that_were_never_set_can_be_read(admin: Admin, path: str, found: Any) -> None:
    assert admin.get(f"{NAMESPACE}/{path}") == found


def test_the_policies_of_a_namespace_have_the_same_fields(admin: Admin, name: Named) -> None:
    namespace = f"/admin/v2/namespaces/public/{name('ns')}"
    admin.put(namespace)
    found = admin.get(namespace)
    assert "message_ttl_in_seconds" not in found
    assert "retention_policies" not in found
    assert (found["deleted"], found["migrated"], found["allowed_clusters"]) == (False, False, [])
    assert (found["offload_threshold"], found["offload_threshold_in_seconds"]) == (-1, -1)
    rates = ("topic", "cluster", "subscription", "replicator")
    assert [found[f"{each}DispatchRate"] for each in rates] == [{}, {}, {}, {}]
    admin.post(f"{namespace}/dispatchRate", {"dispatchThrottlingRateInMsg": 10})
    found = admin.get(namespace)
    assert found["topicDispatchRate"] == found["clusterDispatchRate"] != {}


def test_the_type_of_a_subscription_is_shown_when_its_consumers_have_left(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    client.subscribe(topic, "s", pulsar.ConsumerType.Failover).close()
    shown = admin.get(f"{local(topic)}/stats")["subscriptions"]["s"]
    assert (shown["type"], shown["consumers"]) == ("Failover", [])


def test_the_last_message_id_names_the_place_in_a_batch(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=1_000
    )
    for _ in range(4):
        producer.send_async(b"x", lambda result, place: None)
    producer.flush()
    found = admin.get(f"{local(topic)}/lastMessageId")
    assert (found["batchIndex"], found["partitionIndex"]) == (3, -1)
    producer.close()
    client.create_producer(topic, batching_enabled=False).send(b"x")
    assert admin.get(f"{local(topic)}/lastMessageId")["batchIndex"] == -1


def test_statistics_of_all_topics_have_names_of_their_own(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    send(client.create_producer(topic), [b"1", b"2"])

    def shown() -> dict[str, Any]:
        of_all = admin.get("/admin/v2/broker-stats/topics")
        domains = of_all.get("public/default", {}).values()
        found = (each.get("persistent", {}).get(topic) for each in domains)
        return next((each for each in found if each), {})

    ends = time.monotonic() + 30  # Apache Pulsar updates these figures from time to time
    while (found := shown()).get("msgInCount") != 2:
        assert time.monotonic() < ends, f"expected two messages, got {found}"
        time.sleep(0.2)
    assert found["bytesInCount"] > 0
    assert found["producerCount"] == 1
    assert found["pendingAddEntriesCount"] == 0
    each = found["subscriptions"]["s"]
    assert each["msgBacklog"] == 2
    assert each["totalNonContiguousDeletedMessagesRange"] == 0
    assert each["numberOfEntriesSinceFirstNotAckedMessage"] > 0
