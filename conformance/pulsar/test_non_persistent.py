"""Non-persistent topics: consumers that are connected when a message arrives may get it, and nobody
else."""

import time

import anyio
import pulsar
import pytest
from conformance.pulsar.admin import Admin, Refused
from conformance.pulsar.conftest import BrokerUrls, Connect, Named
from conformance.pulsar.helpers import (
    WITHIN_MS,
    assert_silent,
    drain,
    gather,
    numbers,
    payloads,
    send,
    take,
)

from arneb_pulsar.client import ProducerOptions
from arneb_pulsar.client import connect as connect_ours

EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture
def topic(name: Named) -> str:
    """The name of a topic that does not exist yet."""
    return f"non-persistent://public/default/{name('topic')}"


def path_of(topic: str) -> str:
    """The path of a topic in the admin API."""
    return f"/admin/v2/non-persistent/public/default/{topic.rpartition('/')[2]}"


def test_nothing_is_kept_for_later_consumers(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    assert len(send(producer, numbers(5))) == 5
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert_silent(consumer)
    send(producer, numbers(5, first=5))
    assert payloads(take(consumer, 5)) == numbers(5, first=5)
    consumer.close()
    send(producer, numbers(5))
    assert_silent(client.subscribe(topic, "s", initial_position=EARLIEST))


def test_every_subscription_gets_everything(connect: Connect, topic: str) -> None:
    one, two = (connect().subscribe(topic, name) for name in ("one", "two"))
    send(connect().create_producer(topic), numbers(20))
    assert payloads(take(one, 20)) == payloads(take(two, 20)) == numbers(20)


def test_a_shared_subscription_shares(connect: Connect, topic: str) -> None:
    shared = pulsar.ConsumerType.Shared
    one, two = (connect().subscribe(topic, "s", shared) for _ in range(2))
    send(connect().create_producer(topic, batching_enabled=False), numbers(20))
    first, second = map(payloads, gather([one, two], 20))
    assert sorted(first + second) == sorted(numbers(20))
    assert first
    assert second


def test_a_consumer_without_permits_loses_messages(connect: Connect, topic: str) -> None:
    consumer = connect().subscribe(topic, "s", receiver_queue_size=2)
    producer = connect().create_producer(topic, batching_enabled=False)
    send(producer, numbers(50))
    # While receiving, the client grants more permits and so gets messages that are sent from then
    # on.
    got = drain(consumer)
    assert 2 <= len(got) < 50
    assert got == numbers(len(got))
    time.sleep(0.1)
    send(producer, [b"later"])
    assert payloads(take(consumer, 1)) == [b"later"]


def test_nothing_is_delivered_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    send(client.create_producer(topic), numbers(3))
    take(consumer, 3)
    consumer.redeliver_unacknowledged_messages()
    assert_silent(consumer)


def test_partitions_may_be_non_persistent_too(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{path_of(topic)}/partitions", 2)
    assert len(client.get_topic_partitions(topic)) == 2
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(10))
    assert sorted(payloads(take(consumer, 10))) == sorted(numbers(10))


def test_a_subscription_goes_with_its_last_consumer(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    local = path_of(topic)
    producer = client.create_producer(topic)
    one, two = (client.subscribe(topic, "s", pulsar.ConsumerType.Shared) for _ in range(2))
    one.close()
    assert admin.get(f"{local}/subscriptions") == ["s"]
    two.close()
    assert admin.get(f"{local}/subscriptions") == []
    send(producer, numbers(3))
    assert admin.get(f"{local}/stats")["storageSize"] == 0


def test_a_producer_makes_no_initial_subscription(
    broker_urls: BrokerUrls, admin: Admin, topic: str
) -> None:
    async def come() -> None:
        async with connect_ours(broker_urls.pulsar) as client:
            await client.create_producer(topic, ProducerOptions(initial_subscription="keep"))

    anyio.run(come)
    local = path_of(topic)
    assert admin.get(f"{local}/subscriptions") == []


@pytest.mark.parametrize("kind", ["plain", "partitioned", "missing"])
def test_calls_for_persistent_topics_accept_no_other(
    client: pulsar.Client, admin: Admin, topic: str, kind: str
) -> None:
    local = path_of(topic)
    if kind == "plain":
        client.create_producer(topic)
    elif kind == "partitioned":
        admin.put(f"{local}/partitions", 2)
    refused = "406: .*Need to provide a persistent topic name"
    with pytest.raises(Refused, match=refused):
        admin.get(f"{local}/properties")
    with pytest.raises(Refused, match=refused):
        admin.put(f"{local}/properties", {"k": "v"})
    with pytest.raises(Refused, match=refused):
        admin.delete(f"{local}/properties")
    with pytest.raises(Refused, match=refused):
        admin.post(f"{local}/terminate")


def test_a_topic_has_policies_while_it_is_used(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    policy = f"{path_of(topic)}/maxProducers"
    admin.put(path_of(topic))
    for call in (lambda: admin.get(policy), lambda: admin.post(policy, 3)):
        with pytest.raises(Refused, match=f"404: Topic {topic} not found"):
            call()
    consumer = client.subscribe(topic, "s")
    admin.post(policy, 3)
    assert admin.get(policy) == 3
    consumer.close()
    with pytest.raises(Refused, match=f"404: Topic {topic} not found"):
        admin.get(policy)
    client.create_producer(topic)
    assert admin.get(policy) == 3


@pytest.mark.parametrize("parted", [False, True], ids=["plain", "partitioned"])
def test_messages_that_no_consumer_could_take_are_counted_as_dropped(
    connect: Connect, admin: Admin, topic: str, parted: bool
) -> None:
    statistics = f"{path_of(topic)}/{'partitioned-stats' if parted else 'stats'}"
    if parted:
        admin.put(f"{path_of(topic)}/partitions", 2)
    connect().subscribe(topic, "s", receiver_queue_size=1)
    producer = connect().create_producer(topic, batching_enabled=False)
    end, found = time.monotonic() + WITHIN_MS / 1000, admin.get(statistics)
    while not found["subscriptions"]["s"]["msgDropRate"]:
        assert time.monotonic() < end
        send(producer, numbers(100))
        found = admin.get(statistics)
    shown = found["subscriptions"]["s"]
    assert (shown["msgRateExpired"], shown["totalMsgExpired"]) == (0, 0)
    assert shown["lastExpireTimestamp"] == 0
    # A producer loses messages only where it sends more at once than the broker takes.
    assert found["msgDropRate"] == 0
    assert [each["msgDropRate"] for each in found["publishers"]] == [0]


def test_nothing_is_replicated(client: pulsar.Client, admin: Admin, topic: str) -> None:
    client.subscribe(topic, "s")
    with pytest.raises(Refused, match="405: Cannot get replicated subscriptions"):
        admin.get(f"{path_of(topic)}/subscription/s/replicatedSubscriptionStatus")
    with pytest.raises(Refused, match="405: Expire messages for all subscriptions on a non-pers"):
        admin.post(f"{path_of(topic)}/all_subscription/expireMessages/1")
