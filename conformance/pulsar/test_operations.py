"""Less common tasks of operators: bundles, backlogs, properties, clusters, brokers."""

import time
import urllib.request
from typing import Any
from urllib.parse import quote

import pulsar
import pytest
from conformance.pulsar.admin import PERSISTENT, Admin, Refused, local
from conformance.pulsar.conftest import BrokerUrls, Named
from conformance.pulsar.helpers import WITHIN_MS, send

ROUND_ROBIN = pulsar.PartitionsRoutingMode.RoundRobinDistribution
PARTITIONS_SEEN_WITHIN_S = 90.0
"""The C++ client checks for new partitions every minute."""

BROKERS = "/admin/v2/brokers"
CLUSTERS = "/admin/v2/clusters"


def status(call: Any, *arguments: Any, **query: str) -> int:
    """The status of the answer to a call."""
    try:
        call(*arguments, **query)
    except Refused as refused:
        return refused.status
    return 200


def test_bundles_are_named_and_split(client: pulsar.Client, admin: Admin, name: Named) -> None:
    namespace = name("ns")
    path = f"/admin/v2/namespaces/public/{namespace}"
    admin.put(path, {"bundles": {"numBundles": 2}})
    assert admin.get(f"{path}/bundles") == {
        "boundaries": ["0x00000000", "0x80000000", "0xffffffff"],
        "numBundles": 2,
    }
    topic = f"persistent://public/{namespace}/t"
    client.subscribe(topic, "s").close()
    send(client.create_producer(topic), [b"x"])
    mine = admin.read(f"/lookup/v2/topic/{topic.replace('://', '/')}/bundle").decode()
    positions = admin.get(f"{path}/{mine}/topicHashPositions")["topicHashPositions"]
    assert int(mine[:10], 16) <= positions[topic] <= int(mine[11:], 16)
    assert status(admin.put, f"{path}/{mine}/unload") == 200
    assert status(admin.put, f"{path}/0x00000000_0xffffffff/unload") == 412
    stats = f"/admin/v2/persistent/public/{namespace}/t/stats"
    assert admin.get(stats)["subscriptions"]["s"]["msgBacklog"] == 1
    admin.post(f"{path}/{mine}/clearBacklog/s")
    assert admin.get(stats)["subscriptions"]["s"]["msgBacklog"] == 0
    assert status(admin.delete, f"{path}/{mine}") == 409
    assert status(admin.delete, f"{path}/nope") == 412
    assert status(admin.put, f"{path}/{mine}/split", splitAlgorithmName="nope") == 412
    admin.put(f"{path}/{mine}/split")
    assert admin.get(f"{path}/bundles")["numBundles"] == 3
    admin.delete(path, force="true")


def test_hash_positions_are_of_the_topics_that_are_listed(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    """A partitioned topic stands for its partitions."""
    namespace = name("ns")
    path = f"/admin/v2/namespaces/public/{namespace}"
    admin.put(path, {"bundles": {"numBundles": 1}})
    topics = f"/admin/v2/persistent/public/{namespace}"
    admin.put(f"{topics}/t/partitions", 2)
    below = f"persistent://public/{namespace}"
    plain = [f"{below}/{each}" for each in "uv"]
    parts = [f"{below}/t-partition-{index}" for index in (0, 1)]
    for each in (*plain, *parts):
        client.create_producer(each).close()  # Apache Pulsar looks at what is in memory

    def listed(*wanted: str) -> list[str]:
        asked = "&".join(f"topics={quote(each, safe='')}" for each in wanted)
        found = admin.get(f"{path}/0x00000000_0xffffffff/topicHashPositions?{asked}")
        return sorted(each for each in found["topicHashPositions"] if "/__" not in each)

    assert listed() == sorted(plain + parts)
    assert listed(f"{below}/t") == parts
    assert listed(parts[1], plain[0]) == [parts[1], plain[0]]
    assert listed(f"{below}/none") == []
    admin.delete(path, force="true")


def test_a_namespace_is_unsubscribed_cleared_and_unloaded(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    namespace = name("ns")
    path = f"/admin/v2/namespaces/public/{namespace}"
    admin.put(path, {})
    topics = [f"persistent://public/{namespace}/{each}" for each in ("one", "two")]
    for topic in topics:
        for subscription in ("s", "t", "u"):
            client.subscribe(topic, subscription).close()
        send(client.create_producer(topic), [b"x"])

    def backlogs() -> list[dict[str, int]]:
        documents = [
            admin.get(f"/admin/v2/persistent/public/{namespace}/{local(topic)}/stats")
            for topic in topics
        ]
        return [
            {key: found["msgBacklog"] for key, found in each["subscriptions"].items()}
            for each in documents
        ]

    assert backlogs() == [{"s": 1, "t": 1, "u": 1}] * 2
    assert status(admin.post, f"{path}/unsubscribe/u") == 200
    assert backlogs() == [{"s": 1, "t": 1}] * 2
    assert status(admin.post, f"{path}/clearBacklog/s") == 200
    assert backlogs() == [{"s": 0, "t": 1}] * 2
    assert status(admin.put, f"{path}/unload") == 200
    assert status(admin.post, f"{path}/clearBacklog") == 200
    used = client.subscribe(topics[0], "t")
    assert status(admin.post, f"{path}/unsubscribe/t") == 412
    used.close()
    admin.delete(path, force="true")


def test_a_backlog_is_analysed(client: pulsar.Client, admin: Admin, name: Named) -> None:
    topic = name("t")
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    send(client.create_producer(topic, batching_enabled=False), [b"x"] * 7)
    for _ in range(2):
        consumer.acknowledge(consumer.receive(WITHIN_MS))
    consumer.close()
    found = admin.post(f"{local(topic)}/subscription/s/analyzeBacklog")
    ends = [found.pop(each).partition(":")[2] for each in ("firstMessageId", "lastMessageId")]
    assert ends == ["2", "6"]
    assert found == {
        "entries": 5,
        "messages": 5,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": 5,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": 5,
        "filterRescheduledMessages": 0,
        "aborted": False,
    }
    assert status(admin.post, f"{local(topic)}/subscription/none/analyzeBacklog") == 404


def test_subscriptions_have_properties(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    path = f"{topic}/subscription/s/properties"
    admin.put(topic)
    admin.put(f"{topic}/subscription/s", "earliest")
    assert admin.get(path) == {}
    for properties in ({"a": "b"}, {"c": "d"}, {}):
        admin.put(path, properties)
        assert admin.get(path) == properties
    assert status(admin.get, f"{topic}/subscription/none/properties") == 404
    assert status(admin.put, f"{topic}/subscription/none/properties", {}) == 404


def test_a_topic_is_trimmed(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    admin.put(topic)
    assert status(admin.post, f"{topic}/trim") == 200
    assert status(admin.post, f"{local(name('none'))}/trim") == 404


def test_clusters_are_written_down(admin: Admin, name: Named) -> None:
    path = f"{CLUSTERS}/{name('c')}"
    urls = {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:2"}
    assert status(admin.get, path) == 404
    admin.put(path, urls)
    assert status(admin.put, path, urls) == 409
    assert path.rpartition("/")[2] in admin.get(CLUSTERS)
    found = admin.get(path)
    assert {key: found[key] for key in urls} == urls
    admin.post(path, {"serviceUrl": "http://127.0.0.1:3"})
    assert admin.get(path)["serviceUrl"] == "http://127.0.0.1:3"
    admin.delete(path)
    assert status(admin.delete, path) == 404


@pytest.mark.parametrize("given", [["standalone"], ["nope"]])
def test_where_a_namespace_is(admin: Admin, name: Named, given: list[str]) -> None:
    path = f"/admin/v2/namespaces/public/{name('ns')}"
    admin.put(path, {})
    assert admin.get(f"{path}/replication") == ["standalone"]
    assert status(admin.post, f"{path}/replication", given) == (
        200 if given == ["standalone"] else 403
    )
    assert admin.get(f"{path}/replication") == ["standalone"]
    admin.delete(path, force="true")


@pytest.mark.arneb_only
@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "/admin/v3/functions/public/default", "jobs of Spark, see docs/guide/spark.md"),
        ("GET", "/admin/v3/sinks/public/default", "jobs of Spark, see docs/guide/spark.md"),
        ("GET", "/admin/v3/sources/public/default", "jobs of Spark, see docs/guide/spark.md"),
        ("GET", "/admin/v3/packages/function/public/default", "see docs/guide/spark.md"),
        ("PUT", "t/offload", "arneb offload"),
        ("POST", "/admin/v2/namespaces/public/default/offloadPolicies", "arneb offload"),
        ("POST", "/admin/v2/namespaces/public/default/replicatorDispatchRate", "Geo-replication"),
        ("PUT", "t/shadowTopics", "Geo-replication"),
        ("GET", "/admin/v2/resource-quotas", "one broker"),
    ],
)
def test_what_is_not_done_here_is_refused_with_one_sentence(
    admin: Admin, broker_urls: BrokerUrls, method: str, path: str, words: str
) -> None:
    assert not broker_urls.is_pulsar
    with pytest.raises(Refused) as refused:
        admin.call(method, path, {})
    assert refused.value.status == 501
    assert words in refused.value.reason


def test_geo_replication_is_refused(admin: Admin, broker_urls: BrokerUrls, name: Named) -> None:
    """With an unregistered cluster, as in Apache Pulsar; with a registered one, because Arneb does
    not replicate."""
    namespace, cluster = f"/admin/v2/namespaces/public/{name('ns')}", name("c")
    admin.put(namespace, {})
    assert status(admin.post, f"{namespace}/replication", ["standalone", cluster]) == 403
    admin.put(f"{CLUSTERS}/{cluster}", {"serviceUrl": "http://127.0.0.1:1"})
    found = status(admin.post, f"{namespace}/replication", ["standalone", cluster])
    assert found == (403 if broker_urls.is_pulsar else 501)
    admin.delete(namespace)
    admin.delete(f"{CLUSTERS}/{cluster}")


def test_settings_are_changed_while_the_broker_runs(admin: Admin) -> None:
    path = f"{BROKERS}/configuration"
    setting = "subscribeThrottlingRatePerConsumer"
    assert setting in admin.get(path)
    admin.post(f"{path}/{setting}/1000")
    assert admin.get(f"{path}/values") == {setting: "1000"}
    admin.delete(f"{path}/{setting}")
    assert admin.get(f"{path}/values") == {}
    assert status(admin.post, f"{path}/maxProducersPerTopic/7") == 412
    assert status(admin.delete, f"{path}/nope") == 412


def test_a_broker_tells_of_itself(admin: Admin) -> None:
    leader = admin.get(f"{BROKERS}/leaderBroker")
    owned = admin.get(f"{BROKERS}/standalone/{leader['brokerId']}/ownedNamespaces")
    assert all(each["is_active"] for each in owned.values())
    assert status(admin.get, f"{BROKERS}/standalone/nope/ownedNamespaces") == 404
    assert status(admin.get, f"{BROKERS}/backlog-quota-check") == 200
    report = admin.get("/admin/v2/broker-stats/load-report")
    assert report["persistentTopicsEnabled"] is True
    assert all("metrics" in each for each in admin.get("/admin/v2/broker-stats/metrics"))
    assert isinstance(admin.get("/admin/v2/broker-stats/topics"), dict)


def test_peeking_by_an_unknown_subscription_shows_the_beginning(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = name("t")
    send(client.create_producer(topic, batching_enabled=False), [b"first", b"second"])
    assert admin.read(f"{local(topic)}/subscription/none/position/1").endswith(b"first")
    assert status(admin.read, f"{local(topic)}/subscription/none/position/3") == 404


def test_topics_that_pulsar_keeps_for_itself_are_in_no_listing(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    """A client that knows the name can read such a topic, but nobody may use those of
    transactions."""
    namespace = name("ns")
    admin.put(f"/admin/v2/namespaces/public/{namespace}", {})
    prefix = f"persistent://public/{namespace}"
    reader = client.create_reader(f"{prefix}/__change_events", pulsar.MessageId.earliest)
    assert not reader.has_message_available()
    client.create_producer(f"{prefix}/t")
    listing = f"/admin/v2/persistent/public/{namespace}"
    assert admin.get(listing) == [f"{prefix}/t"]
    everything = admin.get(listing, includeSystemTopic="true")
    assert sorted(everything) == [f"{prefix}/__change_events", f"{prefix}/t"]
    internal = f"{prefix}/t-s__transaction_pending_ack"
    with pytest.raises(pulsar.NotAllowedError):
        client.create_producer(internal)
    assert status(admin.put, f"{listing}/t-s__transaction_pending_ack") == 400
    reader.close()
    admin.delete(f"/admin/v2/namespaces/public/{namespace}", force="true")


def test_a_missing_partition_is_made_again(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = local(name("t"))
    admin.put(f"{topic}/partitions", 2)
    admin.delete(f"{topic}-partition-1")
    assert status(admin.get, f"{topic}-partition-1/stats") == 404
    admin.post(f"{topic}/createMissedPartitions")
    assert admin.get(f"{topic}-partition-1/stats")["msgInCounter"] == 0


def test_whether_a_subscription_is_replicated_is_asked_of_one_that_exists(
    admin: Admin, name: Named
) -> None:
    topic = local(name("t"))
    admin.put(topic)
    asked = f"{topic}/subscription/s/replicatedSubscriptionStatus"
    assert status(admin.get, asked) == 404
    admin.put(f"{topic}/subscription/s", "latest")
    assert list(admin.get(asked).values()) == [False]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_topic_without_partitions_lacks_none(admin: Admin, name: Named, is_there: bool) -> None:
    topic = local(name("t"))
    if is_there:
        admin.put(topic)
    with pytest.raises(Refused) as caught:
        admin.post(f"{topic}/createMissedPartitions")
    assert caught.value.status == 404
    assert caught.value.reason.endswith("does not exist")


def test_partitions_are_added_under_live_producers_and_consumers(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    """Clients check for new partitions from time to time, and use them without being told to."""
    topic = name("t")
    admin.put(f"{local(topic)}/partitions", 2)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, message_routing_mode=ROUND_ROBIN, batching_enabled=False
    )
    send(producer, [b"before"] * 4)
    admin.post(f"{local(topic)}/partitions", 4)
    end = time.monotonic() + PARTITIONS_SEEN_WITHIN_S
    sent, parts = 4, set()
    while len(parts) < 4 and time.monotonic() < end:
        send(producer, [b"after"] * 4)
        sent += 4
        stats = [admin.get(f"{local(topic)}-partition-{each}/stats") for each in range(4)]
        parts = {each for each in range(4) if stats[each]["msgInCounter"]}
        time.sleep(1)
    assert parts == {0, 1, 2, 3}
    for _ in range(sent):
        consumer.acknowledge(consumer.receive(WITHIN_MS))


def test_a_cursor_has_the_name_of_its_subscription_encoded(admin: Admin, name: Named) -> None:
    topic = local(name("t"))
    admin.put(topic)
    admin.put(f"{topic}/subscription/a%20b%2Fc*~", "earliest")
    assert list(admin.get(f"{topic}/internalStats")["cursors"]) == ["a+b%2Fc*%7E"]


def test_a_message_that_is_shown_has_all_that_is_known_of_it(
    client: pulsar.Client, broker_urls: BrokerUrls, name: Named
) -> None:
    topic = name("t")
    producer = client.create_producer(
        topic, batching_enabled=False, compression_type=pulsar.CompressionType.LZ4
    )
    producer.send(
        b"x" * 100, {"colour": "red"}, partition_key="k", ordering_key="o", event_timestamp=1_001
    )
    url = f"{broker_urls.admin}{PERSISTENT}{local(topic)}/examinemessage"
    with urllib.request.urlopen(url, timeout=30) as answer:
        headers = {
            key.lower().removeprefix("x-pulsar-"): value for key, value in answer.headers.items()
        }
        assert answer.read() == b"x" * 100
    for known in ("date", "server", "content-type", "content-length", "connection", "vary"):
        headers.pop(known, None)
    changing = {"message-id", "publish-time", "producer-name"}
    assert {key: value for key, value in headers.items() if key not in changing} == {
        "property": '{"colour":"red"}',
        "event-time": "1970-01-01T00:00:01.001Z",
        "sequence-id": "0",
        "partition-key": "k",
        "base64-ordering-key": "bw==",
        "compression": "LZ4",
        "uncompressed-size": "100",
        "is-encrypted": "false",
        "txn-uncommitted": "false",
    }
    assert changing <= headers.keys()
