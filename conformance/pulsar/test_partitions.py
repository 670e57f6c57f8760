"""Partitioned topics: created, enlarged, produced to, consumed from, and divided among
consumers."""

import time

import pulsar
import pytest
from conformance.pulsar.admin import Admin, Refused, local
from conformance.pulsar.conftest import Connect, Mortal, Named
from conformance.pulsar.helpers import (
    WITHIN_MS,
    assert_gets,
    assert_silent,
    numbers,
    send,
    take,
)

EARLIEST = pulsar.InitialPosition.Earliest
ROUND_ROBIN = pulsar.PartitionsRoutingMode.RoundRobinDistribution


def test_messages_reach_every_partition(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{local(topic)}/partitions", 3)
    names = [f"{topic}-partition-{index}" for index in range(3)]
    assert client.get_topic_partitions(topic) == names
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, batching_enabled=False, message_routing_mode=ROUND_ROBIN
    )
    send(producer, numbers(30))
    messages = take(consumer, 30)
    assert sorted(message.data() for message in messages) == sorted(numbers(30))
    assert {message.message_id().partition() for message in messages} == {0, 1, 2}
    assert {message.topic_name() for message in messages} == set(names)


def test_one_consumer_of_partitioned_topics_in_two_namespaces(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    other = f"public/{name('ns')}"
    admin.put(f"/admin/v2/namespaces/{other}")
    names = {f"{namespace}/{name('t')}" for namespace in ("public/default", other)}
    for each in names:
        admin.put(f"/admin/v2/persistent/{each}/partitions", 3)
    consumer = client.subscribe(sorted(names), "s", pulsar.ConsumerType.Shared)
    for each in names:
        send(client.create_producer(each), numbers(30))
    messages = take(consumer, 60)
    assert {each.topic_name().rpartition("-partition-")[0] for each in messages} == {
        f"persistent://{each}" for each in names
    }
    assert sorted(each.data() for each in messages) == sorted(2 * numbers(30))
    assert_silent(consumer)


def test_a_key_stays_in_its_partition_and_in_order(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{local(topic)}/partitions", 4)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(80):
        producer.send_async(b"%d" % number, None, partition_key=f"key {number % 8}")
    producer.flush()
    places: dict[str, set[int]] = {}
    order: dict[str, list[int]] = {}
    for message in take(consumer, 80):
        places.setdefault(message.partition_key(), set()).add(message.message_id().partition())
        order.setdefault(message.partition_key(), []).append(int(message.data()))
    assert all(len(found) == 1 for found in places.values())
    assert order == {f"key {key}": list(range(key, 80, 8)) for key in range(8)}


def test_more_partitions_can_be_had_but_not_fewer(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{local(topic)}/partitions", 2)
    client.subscribe(topic, "s").close()
    with pytest.raises(Refused) as caught:
        admin.post(f"{local(topic)}/partitions", 1)
    assert caught.value.status == 422
    admin.post(f"{local(topic)}/partitions", 4)
    assert len(client.get_topic_partitions(topic)) == 4
    assert admin.get(f"{local(topic)}/partitions")["partitions"] == 4
    # The subscription exists on the new partitions too, before anybody consumes there.
    producer = client.create_producer(f"{topic}-partition-3")
    send(producer, numbers(3))
    assert admin.get(f"{local(topic)}-partition-3/subscriptions") == ["s"]
    consumer = client.subscribe(topic, "s")
    assert_gets(consumer, numbers(3))


def test_a_partition_beyond_the_last_is_refused(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{local(topic)}/partitions", 2)
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(f"{topic}-partition-2")
    client.create_producer(f"{topic}-partition-1")


def test_what_there_is_cannot_be_made_again(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    client.create_producer(topic)
    for path, body in ((local(topic), None), (f"{local(topic)}/partitions", 2)):
        with pytest.raises(Refused) as caught:
            admin.put(path, body)
        assert (caught.value.status, caught.value.reason) == (409, "This topic already exists")
    for count in (0, -1):
        with pytest.raises(Refused) as caught:
            admin.put(f"{local(topic)}-other/partitions", count)
        assert caught.value.status == 406


def test_a_partitioned_topic_goes_with_its_partitions(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{local(topic)}/partitions", 2)
    producer = client.create_producer(topic)
    with pytest.raises(Refused) as caught:
        admin.delete(f"{local(topic)}/partitions")
    assert caught.value.status == 412
    producer.close()
    with pytest.raises(Refused) as caught:
        admin.delete(local(topic))
    assert caught.value.status == 409
    admin.delete(f"{local(topic)}/partitions")
    with pytest.raises(Refused) as caught:
        admin.get(f"{local(topic)}/partitions")
    assert caught.value.status == 404
    assert not [each for each in admin.get(PATH) if each.startswith(topic)]


PATH = "/admin/v2/persistent/public/default"


def test_topics_come_to_be_partitioned_where_the_namespace_says_so(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    namespace = name("namespace")
    path = f"/admin/v2/namespaces/public/{namespace}"
    admin.put(path)
    rule = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
    admin.post(f"{path}/autoTopicCreation", rule)
    topic = f"persistent://public/{namespace}/t"
    assert len(client.get_topic_partitions(topic)) == 3
    admin.post(f"{path}/autoTopicCreation", {"allowAutoTopicCreation": False})
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(f"persistent://public/{namespace}/other")
    client.create_producer(topic).close()
    admin.post(f"{path}/autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "s")
    admin.put(f"/admin/v2/persistent/public/{namespace}/t/subscription/s", "earliest")
    client.subscribe(topic, "s").close()


def shares(admin: Admin, topic: str, partitions: int) -> list[str]:
    """The active consumer of every partition, according to the broker's statistics."""
    found: list[str] = []
    for index in range(partitions):
        stats = admin.get(f"{local(topic)}-partition-{index}/stats")
        found.append(stats["subscriptions"]["s"]["activeConsumerName"])
    return found


@pytest.mark.parametrize(("consumers", "partitions"), [(2, 4), (9, 3)])
def test_failover_shares_partitions_out(
    connect: Connect, admin: Admin, topic: str, consumers: int, partitions: int
) -> None:
    admin.put(f"{local(topic)}/partitions", partitions)
    failover = pulsar.ConsumerType.Failover
    members = [
        connect().subscribe(topic, "s", failover, consumer_name=f"c{number}")
        for number in range(consumers)
    ]
    expected = [f"c{index % consumers}" for index in range(partitions)]
    assert shares(admin, topic, partitions) == expected
    producer = connect().create_producer(
        topic, batching_enabled=False, message_routing_mode=ROUND_ROBIN
    )
    send(producer, numbers(4 * partitions))
    for number, member in enumerate(members):
        for _ in range(4 * expected.count(f"c{number}")):
            message = member.receive(WITHIN_MS)
            assert expected[message.message_id().partition()] == f"c{number}"
    members[0].close()
    left = [f"c{number}" for number in range(1, consumers)]
    assert shares(admin, topic, partitions) == [
        left[index % len(left)] for index in range(partitions)
    ]


def test_what_was_made_outlives_a_kill(mortal: Mortal, name: Named) -> None:
    broker = mortal()
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    admin, topic = Admin(broker.admin_url), f"persistent://public/default/{name('topic')}"
    namespace = f"/admin/v2/namespaces/public/{name('namespace')}"
    admin.put(f"{local(topic)}/partitions", 3)
    admin.put(f"{local(topic)}/subscription/s")
    admin.put(namespace)
    admin.post(f"{namespace}/messageTTL", 77)
    client = pulsar.Client(broker.pulsar_url, logger=quiet)
    keyed = client.create_producer(f"{topic}-keyed", batching_enabled=False)
    for number in range(20):
        keyed.send(b"%d" % number, partition_key=f"k{number % 2}")
    admin.put(f"{local(topic)}-keyed/compaction")
    while admin.get(f"{local(topic)}-keyed/compaction")["status"] == "RUNNING":
        time.sleep(0.02)
    admin.post(f"{local(topic)}-partition-2/terminate")
    broker.kill()
    broker.start()
    admin = Admin(broker.admin_url)
    client.close()
    client = pulsar.Client(broker.pulsar_url, logger=quiet)
    assert len(client.get_topic_partitions(topic)) == 3
    assert admin.get(f"{local(topic)}-partition-1/subscriptions") == ["s"]
    assert admin.get(f"{namespace}/messageTTL") == 77
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(f"{topic}-partition-2")
    compacted = client.subscribe(
        f"{topic}-keyed", "s", initial_position=EARLIEST, is_read_compacted=True
    )
    assert_gets(compacted, numbers(2, first=18))
    client.close()


@pytest.mark.parametrize(
    ("method", "ending"),
    [
        ("PUT", "0/partitions"),
        ("PUT", "x/partitions"),
        ("POST", "0/partitions"),
        ("DELETE", "0/partitions"),
        ("POST", "0/createMissedPartitions"),
        ("POST", "x/createMissedPartitions"),
        ("GET", "0/partitioned-stats"),
    ],
)
def test_calls_for_a_partitioned_topic_are_refused_of_a_partition(
    admin: Admin, topic: str, method: str, ending: str
) -> None:
    admin.put(f"{local(topic)}/partitions", 2)
    body = None if method in ("GET", "DELETE") else 3
    with pytest.raises(Refused) as caught:
        admin.call(method, f"{local(topic)}-partition-{ending}", body)
    reason = "Partitioned Topic Name should not contain '-partition-'"
    assert (caught.value.status, caught.value.reason) == (412, reason)
