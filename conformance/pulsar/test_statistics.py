"""Statistics: what dashboards read about topics, subscriptions and clients."""

import time
from typing import Any

import pulsar
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import ACKS_SENT_S, WITHIN_MS, numbers, send

RATES_WITHIN_S = 20.0

OF_TOPICS = (
    "msgInCounter msgOutCounter bytesInCounter bytesOutCounter storageSize backlogSize "
    "msgChunkPublished offloadedStorageSize waitingPublishers deduplicationStatus"
)
OF_SUBSCRIPTIONS = (
    "msgOutCounter bytesOutCounter msgBacklog backlogSize msgBacklogNoDelayed msgDelayed "
    "unackedMessages type totalMsgExpired blockedSubscriptionOnUnackedMsgs "
    "nonContiguousDeletedMessagesRanges durable isDurable replicated allowOutOfOrderDelivery"
)
OF_CONSUMERS = (
    "msgOutCounter bytesOutCounter consumerName availablePermits unackedMessages "
    "blockedConsumerOnUnackedMsgs metadata clientVersion"
)


def picked(document: dict[str, Any], fields: str) -> dict[str, Any]:
    """The named fields of a document, which must exist."""
    return {field: document[field] for field in fields.split()}


def test_what_a_reader_has_before_it_is_no_backlog_of_its_topic(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = name("t")
    client.create_reader(topic, pulsar.MessageId.earliest, receiver_queue_size=1)
    send(client.create_producer(topic), [b"x" * 100] * 10)
    stats = admin.get(f"{local(topic)}/stats")
    (reader,) = stats["subscriptions"].values()
    assert (stats["backlogSize"], reader["msgBacklog"]) == (0, 10)
    admin.put(f"{local(topic)}/subscription/s")
    assert admin.get(f"{local(topic)}/stats")["backlogSize"] == 0
    send(client.create_producer(topic), [b"x" * 100])
    assert admin.get(f"{local(topic)}/stats")["backlogSize"] > 0


def test_counters_of_topics_subscriptions_and_consumers(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = name("t")
    shared = client.subscribe(topic, "shared", pulsar.ConsumerType.Shared, consumer_name="one")
    alone = client.subscribe(topic, "alone", consumer_name="two")
    client.subscribe(topic, "keys", pulsar.ConsumerType.KeyShared, consumer_name="three")
    before_ms = round(time.time() * 1000) - 1000
    producer = client.create_producer(topic, producer_name="p")
    payloads = [b"x" * 100] * 10
    send(producer, payloads)
    for _ in payloads:
        alone.receive(WITHIN_MS)
        message = shared.receive(WITHIN_MS)
    shared.acknowledge(message)
    time.sleep(ACKS_SENT_S)
    stats = admin.get(f"{local(topic)}/stats", getEarliestTimeInBacklog="true")
    size = stats["bytesInCounter"]
    assert 1_200 <= size <= 1_400, "metadata and payloads, without our own headers"
    assert picked(stats, OF_TOPICS) == {
        "msgInCounter": 10,
        "msgOutCounter": 30,
        "bytesInCounter": size,
        "bytesOutCounter": 3 * size,
        "storageSize": size,
        "backlogSize": size,
        "msgChunkPublished": False,
        "offloadedStorageSize": 0,
        "waitingPublishers": 0,
        "deduplicationStatus": "Disabled",
    }
    found = stats["subscriptions"]
    assert {key: each["type"] for key, each in found.items()} == {
        "shared": "Shared",
        "alone": "Exclusive",
        "keys": "Key_Shared",
    }
    assert found["keys"]["keySharedMode"] == "AUTO_SPLIT"
    assert found["alone"]["activeConsumerName"] == "two"
    assert "activeConsumerName" not in found["shared"]
    assert picked(found["shared"], OF_SUBSCRIPTIONS) == {
        "msgOutCounter": 10,
        "bytesOutCounter": size,
        "msgBacklog": 9,
        "backlogSize": found["shared"]["backlogSize"],
        "msgBacklogNoDelayed": 9,
        "msgDelayed": 0,
        "unackedMessages": 9,
        "type": "Shared",
        "totalMsgExpired": 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "nonContiguousDeletedMessagesRanges": 1,
        "durable": True,
        "isDurable": True,
        "replicated": False,
        "allowOutOfOrderDelivery": False,
    }
    (consumer,) = found["shared"]["consumers"]
    assert picked(consumer, OF_CONSUMERS) == {
        "msgOutCounter": 10,
        "bytesOutCounter": size,
        "consumerName": "one",
        "availablePermits": 990,
        "unackedMessages": 9,
        "blockedConsumerOnUnackedMsgs": False,
        "metadata": {},
        "clientVersion": consumer["clientVersion"],
    }
    assert consumer["address"].startswith("/127.0.0.1:")
    for each in (consumer, found["shared"]):
        times = [each[f"last{what}Timestamp"] for what in ("ConsumedFlow", "Consumed", "Acked")]
        assert all(ms > before_ms for ms in times), "what happened has a time"
    (other,) = found["alone"]["consumers"]
    assert (other["lastAckedTimestamp"], other["lastAckedTime"]) == (0, "1970-01-01T00:00:00Z")
    earliest = {key: each["earliestMsgPublishTimeInBacklog"] for key, each in found.items()}
    assert all(ms > before_ms for ms in earliest.values())
    assert stats["earliestMsgPublishTimeInBacklogs"] == min(earliest.values())
    bare = admin.get(f"{local(topic)}/stats", subscriptionBacklogSize="false")
    assert bare["subscriptions"]["alone"]["backlogSize"] == -1
    assert bare["subscriptions"]["alone"]["earliestMsgPublishTimeInBacklog"] == 0


def test_where_nothing_waits_no_message_is_the_oldest(admin: Admin, name: Named) -> None:
    topic = name("topic")
    admin.put(f"{topic}/partitions", 2)
    admin.put(f"{topic}/subscription/s", "earliest")
    asked = {"getEarliestTimeInBacklog": "true"}
    found = admin.get(f"{topic}/partitioned-stats", **asked)
    parts = [*found["partitions"].values(), admin.get(f"{topic}-partition-0/stats", **asked)]
    for stats in (found, *parts):
        assert stats["earliestMsgPublishTimeInBacklogs"] == 0
    shown = [each["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] for each in parts]
    assert shown == [-1] * 3
    assert found["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] == 0


def test_rates_are_those_of_the_last_interval(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = name("t")
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    end = time.monotonic() + RATES_WITHIN_S
    busy: dict[str, Any] = {}
    while time.monotonic() < end:
        send(producer, numbers(5))
        stats = admin.get(f"{local(topic)}/stats")
        subscription = stats["subscriptions"]["s"]
        busy = {
            "in": stats["msgRateIn"],
            "bytes in": stats["msgThroughputIn"],
            "size": stats["averageMsgSize"],
            "producer": stats["publishers"][0]["msgRateIn"],
            "out": stats["msgRateOut"],
            "bytes out": subscription["msgThroughputOut"],
            "consumer": subscription["consumers"][0]["msgRateOut"],
        }
        if all(each > 0 for each in busy.values()):
            break
        time.sleep(0.1)
    assert all(each > 0 for each in busy.values()), busy
    while (still := admin.get(f"{local(topic)}/stats")["msgRateIn"]) and time.monotonic() < end:
        time.sleep(0.2)
    assert still == 0.0


def test_what_consumers_got_that_have_left_is_counted(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    topic = name("t")
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    send(producer, numbers(3))
    for _ in range(3):
        consumer.receive(WITHIN_MS)
    size = admin.get(f"{local(topic)}/stats")["bytesInCounter"]
    consumer.close()
    found = admin.get(f"{local(topic)}/stats")["subscriptions"]["s"]
    assert (found["msgOutCounter"], found["bytesOutCounter"], found["consumers"]) == (3, size, [])


def test_what_is_inside_of_a_topic(client: pulsar.Client, admin: Admin, name: Named) -> None:
    topic = name("t")
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    send(producer, [b"x" * 100] * 5)
    first = consumer.receive(WITHIN_MS)
    consumer.acknowledge(first)
    for _ in range(4):
        consumer.receive(WITHIN_MS)
    time.sleep(ACKS_SENT_S)
    size = admin.get(f"{local(topic)}/stats")["bytesInCounter"]
    found = admin.get(f"{local(topic)}/internalStats")
    ledger = found["ledgers"][-1]["ledgerId"]
    cursor = found["cursors"]["s"]
    assert found["entriesAddedCounter"] == found["numberOfEntries"] == 5
    assert found["totalSize"] == found["currentLedgerSize"] == size
    assert (found["state"], found["lastConfirmedEntry"]) == ("LedgerOpened", f"{ledger}:4")
    assert cursor["markDeletePosition"] == f"{ledger}:0"
    assert cursor["readPosition"] == f"{ledger}:5"
    assert (cursor["active"], cursor["individuallyDeletedMessages"]) == (True, "[]")
    assert (cursor["messagesConsumedCounter"], cursor["properties"]) == (1, {})
    info = admin.get(f"{local(topic)}/internal-info")
    assert [each["ledgerId"] for each in info["ledgers"]] == [ledger]
    assert info["ledgers"][0]["isOffloaded"] is False
    assert info["cursors"].keys() == {"s"}


def test_a_non_persistent_topic_has_no_quota_of_its_backlog(admin: Admin, name: Named) -> None:
    path = f"/admin/v2/non-persistent/public/default/{name('t')}"
    admin.put(path)
    shown = admin.get(f"{path}/stats")
    assert (shown["backlogQuotaLimitSize"], shown["backlogQuotaLimitTime"]) == (0, 0)
    assert shown["oldestBacklogMessageAgeSeconds"] == 0
