"""Policies of topics: backlog quotas, retention, expiry, and termination."""

import time
from typing import Any

import pulsar
import pytest
from conformance.pulsar.admin import Admin, Refused, local
from conformance.pulsar.conftest import Connect, Named
from conformance.pulsar.helpers import (
    assert_gets,
    assert_silent,
    drain,
    numbers,
    payloads,
    send,
    take,
)

EARLIEST = pulsar.InitialPosition.Earliest
WITHIN_S = 60.0
EXPIRES_WITHIN_S = 180.0


def wait_for(condition: object, what: str) -> None:
    """Wait for something that the broker does in its own time."""
    assert callable(condition)
    end = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end, f"expected {what}"
        time.sleep(0.1)


def backlog(admin: Admin, topic: str, subscription: str = "s") -> int:
    stats = admin.get(f"{local(topic)}/stats")
    found: int = stats["subscriptions"][subscription]["msgBacklog"]
    return found


@pytest.fixture
def namespace(admin: Admin, name: Named) -> str:
    """A namespace for this scenario, as a path of the admin API."""
    made = f"/admin/v2/namespaces/public/{name('namespace')}"
    admin.put(made)
    return made


@pytest.mark.parametrize(
    ("action", "refusal"),
    [
        ("producer_request_hold", pulsar.ProducerBlockedQuotaExceededError),
        ("producer_exception", pulsar.ProducerBlockedQuotaExceededException),
    ],
)
def test_a_full_backlog_keeps_producers_out(
    connect: Connect, admin: Admin, namespace: str, action: str, refusal: type[Exception]
) -> None:
    quota = {"limitSize": 2_000, "limitTime": -1, "policy": action}
    admin.post(f"{namespace}/backlogQuota", quota)
    topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    client = connect()
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), [b"x" * 500] * 6)
    # The broker checks periodically; then producers are disconnected and cannot reconnect.
    end = time.monotonic() + WITHIN_S
    with pytest.raises(refusal):
        while time.monotonic() < end:
            connect().create_producer(topic).close()
            time.sleep(0.2)
    for message in take(consumer, 6):
        consumer.acknowledge(message)
    stats = f"/admin/v2/persistent/public/{namespace.rpartition('/')[2]}/t/stats"
    wait_for(lambda: not admin.get(stats)["subscriptions"]["s"]["msgBacklog"], "an empty backlog")
    admin.delete(f"{namespace}/backlogQuota")
    connect().create_producer(topic).close()


def test_what_is_too_much_is_evicted(connect: Connect, admin: Admin, namespace: str) -> None:
    short = namespace.rpartition("/")[2]
    quota = {"limitSize": 5_000, "limitTime": -1, "policy": "consumer_backlog_eviction"}
    admin.post(f"{namespace}/backlogQuota", quota)
    topic = f"persistent://public/{short}/t"
    client = connect()
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic, batching_enabled=False)
    send(producer, [b"%03d" % number + b"x" * 500 for number in range(40)])
    path = f"/admin/v2/persistent/public/{short}/t/stats"
    wait_for(lambda: admin.get(path)["subscriptions"]["s"]["msgBacklog"] <= 10, "an eviction")
    left = drain(client.subscribe(topic, "s"))
    assert 3 <= len(left) <= 10
    assert [int(payload[:3]) for payload in left] == list(range(40 - len(left), 40))


def test_policies_say_what_was_set(admin: Admin, topic: str, namespace: str) -> None:
    admin.put(local(topic))
    retention = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5}
    quota = {"limit": 7, "limitSize": 7, "limitTime": -1, "policy": "producer_exception"}
    for place in (namespace, local(topic)):
        assert admin.get(f"{place}/retention") is None
        admin.post(f"{place}/retention", retention)
        wait_for(lambda at=place: admin.get(f"{at}/retention") == retention, "retention")
        admin.delete(f"{place}/retention")
        wait_for(lambda at=place: admin.get(f"{at}/retention") is None, "none")
        admin.post(f"{place}/backlogQuota", quota)
        wait_for(
            lambda at=place: admin.get(f"{at}/backlogQuotaMap") == {"destination_storage": quota},
            "a quota",
        )
        admin.delete(f"{place}/backlogQuota")
        wait_for(lambda at=place: admin.get(f"{at}/backlogQuotaMap") == {}, "no quota")
        with pytest.raises(Refused) as caught:
            admin.post(f"{place}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5})
        assert caught.value.status == 400
    admin.post(f"{namespace}/messageTTL", 30)
    assert admin.get(f"{namespace}/messageTTL") == 30
    with pytest.raises(Refused) as caught:
        admin.post(f"{namespace}/messageTTL", -1)
    assert caught.value.status == 412
    admin.put(f"{namespace}/schemaCompatibilityStrategy", "FORWARD")
    assert admin.get(f"{namespace}/schemaCompatibilityStrategy") == "FORWARD"


def test_what_everybody_has_acknowledged_is_retained(
    connect: Connect, admin: Admin, namespace: str
) -> None:
    admin.post(f"{namespace}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5})
    topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    consumer = connect().subscribe(topic, "s")
    send(connect().create_producer(topic), numbers(10))
    for message in take(consumer, 10):
        consumer.acknowledge(message)
    consumer.unsubscribe()
    again = connect().subscribe(topic, "s", initial_position=EARLIEST)
    assert_gets(again, numbers(10))
    again.seek(pulsar.MessageId.earliest)
    assert_gets(again, numbers(10))


def test_producers_keep_to_a_rate(client: pulsar.Client, admin: Admin, namespace: str) -> None:
    rate = {"publishThrottlingRateInMsg": 20, "publishThrottlingRateInByte": -1}
    admin.post(f"{namespace}/publishRate", rate)
    assert admin.get(f"{namespace}/publishRate") == rate
    producer = client.create_producer(f"public/{namespace.rpartition('/')[2]}/t")
    began = time.monotonic()
    send(producer, numbers(100))
    took_s = time.monotonic() - began
    assert 2.5 < took_s < 30, f"expected about 4 s, got {took_s:.1f}"
    admin.delete(f"{namespace}/publishRate")


def test_permissions_are_kept(admin: Admin, namespace: str) -> None:
    assert admin.get(f"{namespace}/permissions") == {}
    admin.post(f"{namespace}/permissions/anonymous", ["produce", "consume"])
    assert set(admin.get(f"{namespace}/permissions")["anonymous"]) == {"produce", "consume"}
    admin.delete(f"{namespace}/permissions/anonymous")
    assert admin.get(f"{namespace}/permissions") == {}


def test_the_end_of_a_topic_makes_no_client_reconnect(
    client: pulsar.Client, admin: Admin, broker_urls: Any, topic: str
) -> None:
    """A client that receives a command it does not know closes its connection and reconnects."""
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(1))
    consumer.acknowledge(take(consumer, 1)[0])
    wait_for(lambda: backlog(admin, topic) == 0, "an empty backlog")

    def seen() -> Any:
        found = admin.get(f"{local(topic)}/stats")["subscriptions"]["s"]["consumers"]
        return [(each["address"], each["connectedSince"]) for each in found]

    (before,) = seen()
    admin.post(f"{local(topic)}/terminate")
    time.sleep(1)
    if broker_urls.is_pulsar:
        assert seen() != [before]  # known difference: Apache Pulsar notifies every consumer
    else:
        assert seen() == [before]


@pytest.mark.arneb_only
def test_messages_live_as_long_as_they_should(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    """Apache Pulsar checks only every five minutes."""
    consumer = client.subscribe(topic, "s")
    admin.post(f"{local(topic)}/messageTTL", messageTTL="1")
    send(client.create_producer(topic), numbers(3))
    assert payloads(take(consumer, 3)) == numbers(3)
    consumer.close()
    wait_for(lambda: backlog(admin, topic) == 0, "an empty backlog")
    assert_silent(client.subscribe(topic, "s"))


def test_an_unused_subscription_is_removed(
    client: pulsar.Client, admin: Admin, namespace: str
) -> None:
    """The limit is in minutes, and Apache Pulsar checks once per minute."""
    topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    path = f"/admin/v2/{topic.replace('://', '/')}"
    used = client.subscribe(topic, "used")
    client.subscribe(topic, "left").close()
    admin.put(f"{path}/subscription/never", "latest")
    admin.post(f"{namespace}/subscriptionExpirationTime", 1)
    end = time.monotonic() + EXPIRES_WITHIN_S
    while len(found := admin.get(f"{path}/subscriptions")) > 1 and time.monotonic() < end:
        time.sleep(1)
    assert found == ["used"]
    send(client.create_producer(topic), numbers(1))
    assert_gets(used, numbers(1))


def test_unused_topics_are_removed(client: pulsar.Client, admin: Admin, namespace: str) -> None:
    short = namespace.rpartition("/")[2]
    rule = {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 1,
        "deleteWhileInactive": True,
    }
    admin.post(f"{namespace}/inactiveTopicPolicies", rule)
    assert admin.get(f"{namespace}/inactiveTopicPolicies") == rule
    idle, read, written = (f"persistent://public/{short}/{kind}" for kind in ("i", "r", "w"))
    client.subscribe(read, "s").close()
    producer = client.create_producer(written)
    gone = client.create_producer(idle)
    send(gone, numbers(3))
    path = f"/admin/v2/persistent/public/{short}"
    assert sorted(admin.get(path)) == sorted([idle, read, written])
    gone.close()
    wait_for(lambda: idle not in admin.get(path), "an idle topic to go")
    assert sorted(admin.get(path)) == sorted([read, written])
    producer.close()


def test_a_terminated_topic_is_read_to_its_end(connect: Connect, admin: Admin, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    ids = send(producer, numbers(3))
    last = admin.post(f"{local(topic)}/terminate")
    assert (last["ledgerId"], last["entryId"]) == (ids[-1].ledger_id(), ids[-1].entry_id())
    with pytest.raises(pulsar.TopicTerminated):
        connect().create_producer(topic)
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"more")
    assert payloads(take(consumer, 3)) == numbers(3)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found: list[bytes] = []
    while reader.has_message_available():
        found.append(reader.read_next(5_000).data())
    assert found == numbers(3)
    assert admin.post(f"{local(topic)}/terminate")["entryId"] == ids[-1].entry_id()


def test_partitions_end_together(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{local(topic)}/partitions", 2)
    send(client.create_producer(topic), numbers(4))
    with pytest.raises(Refused) as caught:
        admin.post(f"{local(topic)}/terminate")
    assert caught.value.status == 405
    assert set(admin.post(f"{local(topic)}/terminate/partitions")) == {"0", "1"}
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
