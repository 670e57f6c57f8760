"""Policies of namespaces and topics take effect: who may connect, what may be sent, and at what
rate."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pytest
from conformance.pulsar.admin import Admin, Refused
from conformance.pulsar.conftest import BrokerUrls, Connect, Named
from conformance.pulsar.helpers import SILENCE_MS, WITHIN_MS, numbers, played, send
from conformance.wire.protobuf import data_of, integer
from conformance.wire.pulsar import PulsarClient, PulsarClosed

PUBLISHED_AT, DELIVER_AT = 3, 19
"""Fields of a message's metadata: publish time and deliver-at time."""

SHARED = pulsar.ConsumerType.Shared
HOLDS_WITHIN_S = 30.0
"""How long a policy may take to take effect; Apache Pulsar informs its topics gradually."""

SETTLES_S = 1.0
"""How long most policies take there."""


STAYS = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 600,
    "deleteWhileInactive": False,
}
"""Keeps topics that nobody uses, for which the brokers check every second."""


class Order(pulsar.schema.Record):
    """The type that a schema describes."""

    number = pulsar.schema.Integer()


class Place:
    """A namespace for one scenario, with a topic in it."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self.admin = admin
        self.namespace = f"/admin/v2/namespaces/public/{namespace}"
        self.topics = f"/admin/v2/persistent/public/{namespace}"
        self.topic = f"persistent://public/{namespace}/t"
        self.path = f"{self.topics}/t"

    def set(self, level: str, path: str, value: Any) -> None:
        """Set a policy of the namespace or of the topic; ``path`` has one name, or one for each."""
        of_namespace, _, of_topic = path.partition(" ")
        if level == "namespace":
            self.admin.post(f"{self.namespace}/{of_namespace}", value)
        else:
            self.admin.post(f"{self.path}/{of_topic or of_namespace}", value)
            self._wait_until_seen(f"{self.path}/{of_topic or of_namespace}", value)
        time.sleep(SETTLES_S)

    def _wait_until_seen(self, path: str, value: Any) -> None:
        """Wait until the topic shows the value: Apache Pulsar publishes policies through another
        topic."""
        end = time.monotonic() + HOLDS_WITHIN_S
        while self.admin.get(path, applied="true") != value and time.monotonic() < end:
            time.sleep(0.1)


@pytest.fixture
def place(admin: Admin, name: Named) -> Iterator[Place]:
    made = Place(admin, name("ns"))
    admin.put(made.namespace, {})
    admin.post(f"{made.namespace}/inactiveTopicPolicies", STAYS)
    admin.put(made.path)
    yield made
    admin.delete(made.namespace, force="true")


levels = pytest.mark.parametrize("level", ["namespace", "topic"])


def comes_to_hold(attempt: Callable[[], Any]) -> str:
    """The error with which an attempt is refused in the end."""
    end = time.monotonic() + HOLDS_WITHIN_S
    while time.monotonic() < end:
        try:
            attempt().close()
        except pulsar.PulsarException as refused:
            return type(refused).__name__
        time.sleep(0.2)
    return "nothing"


@levels
def test_so_many_producers_and_no_more(place: Place, connect: Connect, level: str) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set(level, "maxProducersPerTopic maxProducers", 1)
    first = client.create_producer(place.topic)
    assert comes_to_hold(lambda: client.create_producer(place.topic)) == "ProducerBusy"
    first.close()
    client.create_producer(place.topic).send(b"x")


@levels
@pytest.mark.parametrize(
    "policy", ["maxConsumersPerTopic maxConsumers", "maxConsumersPerSubscription"]
)
def test_so_many_consumers_and_no_more(
    place: Place, connect: Connect, level: str, policy: str
) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set(level, policy, 1)
    first = client.subscribe(place.topic, "s", SHARED)
    assert comes_to_hold(lambda: client.subscribe(place.topic, "s", SHARED)) == "ConsumerBusy"
    if policy == "maxConsumersPerSubscription":
        client.subscribe(place.topic, "other", SHARED)
    first.close()
    client.subscribe(place.topic, "s", SHARED)


@levels
def test_so_many_subscriptions_and_no_more(place: Place, connect: Connect, level: str) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set(level, "maxSubscriptionsPerTopic", 1)
    client.subscribe(place.topic, "one", SHARED)
    refused = comes_to_hold(lambda: client.subscribe(place.topic, "two", SHARED))
    assert refused == "NotAllowedError"
    with pytest.raises(Refused) as caught:
        place.admin.put(f"{place.path}/subscription/three", "earliest")
    assert caught.value.status == 409


def test_a_system_topic_has_no_such_limits(place: Place, connect: Connect) -> None:
    for limit in ("maxProducersPerTopic", "maxConsumersPerTopic", "maxSubscriptionsPerTopic"):
        place.set("namespace", limit, 1)
    client = connect(operation_timeout_seconds=3)
    client.create_producer(place.topic)
    assert comes_to_hold(lambda: client.create_producer(place.topic)) == "ProducerBusy"
    # Apache Pulsar's own producers and consumers use this topic, too.
    topic = place.topic.removesuffix("t") + "__change_events"
    for number in range(2):
        client.create_reader(topic, pulsar.MessageId.latest)
        client.subscribe(topic, f"s{number}", SHARED)


def test_so_many_topics_and_no_more(place: Place, connect: Connect) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set("namespace", "maxTopicsPerNamespace", 3)
    place.admin.put(f"{place.topics}/u")
    with pytest.raises(Refused) as caught:
        place.admin.put(f"{place.topics}/v/partitions", 2)
    assert caught.value.status == 412
    with pytest.raises(Refused):
        place.admin.post(f"{place.topics}/u/partitions", 2)
    client.create_producer(place.topic.replace("/t", "/w")).send(b"x")
    with pytest.raises(Refused) as caught:
        place.admin.put(f"{place.topics}/x")
    assert caught.value.status == 409
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(place.topic.replace("/t", "/x"))


@levels
def test_only_the_types_of_subscriptions_that_are_enabled(
    place: Place, connect: Connect, level: str
) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set(level, "subscriptionTypesEnabled", ["Shared", "Failover"])
    kind = pulsar.ConsumerType.Exclusive
    assert comes_to_hold(lambda: client.subscribe(place.topic, "s", kind)) == "NotAllowedError"
    client.subscribe(place.topic, "s", SHARED)


@levels
def test_a_consumer_that_is_there_leaves_no_more_unacknowledged(
    place: Place, client: pulsar.Client, level: str
) -> None:
    consumer = client.subscribe(place.topic, "s", SHARED, receiver_queue_size=1)
    producer = client.create_producer(place.topic)
    place.set(level, "maxUnackedMessagesPerConsumer maxUnackedMessagesOnConsumer", 4)
    time.sleep(1)
    send(producer, numbers(20))
    got = []
    with pytest.raises(pulsar.Timeout):
        while len(got) < 20:
            got.append(consumer.receive(2000))
    assert 4 <= len(got) <= 6
    stats = place.admin.get(f"{place.path}/stats")["subscriptions"]["s"]["consumers"][0]
    assert stats["blockedConsumerOnUnackedMsgs"]
    for each in got:
        consumer.acknowledge(each)
    consumer.receive(WITHIN_MS)


def test_a_topic_has_a_largest_message(place: Place, broker_urls: BrokerUrls) -> None:
    """Raw commands are used because the C++ client closes its connection when it is refused, and
    waits for ever."""
    with pytest.raises(Refused) as caught:
        place.admin.post(f"{place.path}/maxMessageSize", 100 << 20)
    assert caught.value.status == 412
    place.set("topic", "maxMessageSize", 1_000)

    async def play(client: PulsarClient) -> None:
        await client.create_producer(place.topic)
        await client.send(0, bytes(500))
        with pytest.raises(PulsarClosed, match="send error"):
            await client.send(1, bytes(2_000))

    played(broker_urls.pulsar, place.topic, play)


@levels
def test_messages_wait_so_long_and_no_longer(
    place: Place, broker_urls: BrokerUrls, level: str
) -> None:
    policy = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 10_000}
    place.set(level, "delayedDelivery", policy)

    def due(delay_s: int) -> list[tuple[int, Any]]:
        now_ms = int(time.time() * 1000)
        return [(PUBLISHED_AT, now_ms), (DELIVER_AT, now_ms + delay_s * 1000)]

    async def play(client: PulsarClient) -> None:
        await client.create_producer(place.topic)
        await client.send(0, b"soon", metadata=due(5))
        with pytest.raises(PulsarClosed, match="send error"):
            await client.send(1, b"late", metadata=due(60))

    played(broker_urls.pulsar, place.topic, play)


@levels
def test_consumers_of_a_subscription_leave_no_more_unacknowledged(
    place: Place, client: pulsar.Client, level: str
) -> None:
    policy = "maxUnackedMessagesPerSubscription maxUnackedMessagesOnSubscription"
    place.set(level, policy, 6)
    two = [client.subscribe(place.topic, "s", SHARED, receiver_queue_size=1) for _ in range(2)]
    send(client.create_producer(place.topic, batching_enabled=False), numbers(40))
    time.sleep(SETTLES_S)
    got = []
    for each in two:
        with pytest.raises(pulsar.Timeout):
            while len(got) < 40:
                got.append((each, each.receive(2000)))
    assert 6 <= len(got) <= 10, "a few more than the limit: what was on its way"
    for each, message in got:
        each.acknowledge(message)
    two[0].receive(WITHIN_MS)


KINDS = {"Exclusive": 0, "Shared": 1, "Failover": 2, "Key_Shared": 3}
NAME, PERMITS, UNACKED, TYPE, BACKLOG = 7, 8, 9, 13, 15
"""Fields of CONSUMER_STATS_RESPONSE."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_can_read_its_own_statistics(
    place: Place, broker_urls: BrokerUrls, kind: str
) -> None:
    """In answer to CONSUMER_STATS, which the C++ client sends."""

    async def play(client: PulsarClient) -> None:
        await client.subscribe(place.topic, "s", kind=KINDS[kind], more=[(6, "me")])
        await client.create_producer(place.topic)
        for number in range(5):
            await client.send(number, b"x")
        client.flow(3)
        statistics = await client.statistics()
        while integer(statistics, PERMITS):
            statistics = await client.statistics()
        unacked = 3 if kind in ("Shared", "Key_Shared") else 0
        assert (data_of(statistics, NAME), data_of(statistics, TYPE)) == (b"me", kind.encode())
        assert (integer(statistics, UNACKED), integer(statistics, BACKLOG)) == (unacked, 5)
        with pytest.raises(PulsarClosed):
            await client.statistics(consumer=9)

    played(broker_urls.pulsar, place.topic, play)


@levels
def test_a_topic_with_a_schema_may_ask_every_producer_for_one(
    place: Place, connect: Connect, level: str
) -> None:
    client = connect(operation_timeout_seconds=3)
    client.create_producer(place.topic, schema=pulsar.schema.StringSchema()).send("x")
    place.set(level, "schemaValidationEnforced", True)
    refused = comes_to_hold(lambda: client.create_producer(place.topic))
    assert refused == "IncompatibleSchema"
    client.create_producer(place.topic, schema=pulsar.schema.StringSchema()).send("x")


def test_a_namespace_may_take_no_new_schemas(place: Place, connect: Connect) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set("namespace", "isAllowAutoUpdateSchema", False)
    schema = pulsar.schema.JsonSchema(Order)
    refused = comes_to_hold(lambda: client.create_producer(place.topic, schema=schema))
    assert refused == "IncompatibleSchema"
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(f"{place.topic}-unused", "s", schema=schema)
    path = place.path.replace("/persistent/", "/schemas/")
    text = json.dumps(Order.schema())
    place.admin.post(f"{path}/schema", {"type": "JSON", "schema": text, "properties": {}})
    client.create_producer(place.topic, schema=schema).send(Order(number=1))


def test_the_strategy_for_schemas_that_producers_bring(place: Place) -> None:
    def record(*fields: str) -> dict[str, Any]:
        parts = [{"name": each, "type": "int"} for each in fields]
        text = json.dumps({"type": "record", "name": "R", "fields": parts})
        return {"type": "AVRO", "schema": text, "properties": {}}

    path = place.path.replace("/persistent/", "/schemas/")
    place.admin.post(f"{path}/schema", record("a"))
    with pytest.raises(Refused) as caught:
        place.admin.post(f"{path}/schema", record("b"))
    assert caught.value.status == 409
    place.admin.put(f"{place.namespace}/schemaAutoUpdateCompatibilityStrategy", "AlwaysCompatible")
    found = place.admin.post(f"{path}/compatibility", record("b"))
    assert found == {"compatibility": True, "schemaCompatibilityStrategy": "ALWAYS_COMPATIBLE"}


def test_a_namespace_may_ask_for_encryption(place: Place, connect: Connect) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set("namespace", "encryptionRequired", True)
    assert comes_to_hold(lambda: client.create_producer(place.topic)) == "Timeout"


@levels
def test_a_consumer_comes_so_often_and_no_more(place: Place, connect: Connect, level: str) -> None:
    """The rate is that of one consumer: of one name, and one number within its client."""
    rate = {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 30}
    place.set(level, "subscribeRate", rate)

    def come(name: str) -> pulsar.Consumer:
        client = connect(operation_timeout_seconds=3)
        return client.subscribe(place.topic, "s", SHARED, consumer_name=name)

    for number in range(3):
        come(f"c{number}").close()
    assert comes_to_hold(lambda: come("c0")) == "NotAllowedError"


@levels
@pytest.mark.parametrize("policy", ["dispatchRate", "subscriptionDispatchRate"])
@pytest.mark.parametrize("kind", [SHARED, pulsar.ConsumerType.Exclusive])
def test_messages_go_out_as_fast_as_the_rate_says(
    place: Place, client: pulsar.Client, level: str, policy: str, kind: pulsar.ConsumerType
) -> None:
    rate = {
        "dispatchThrottlingRateInMsg": 20,
        "dispatchThrottlingRateInByte": -1,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }
    consumer = client.subscribe(place.topic, "s", kind)
    producer = client.create_producer(place.topic, batching_enabled=False)
    place.set(level, policy, rate)
    time.sleep(1)
    send(producer, numbers(120))
    began = time.monotonic()
    got = 0
    while time.monotonic() - began < 3.0:
        try:
            consumer.receive(SILENCE_MS)
            got += 1
        except pulsar.Timeout:
            continue
    assert 50 <= got <= 110, "20 a second, and at first a second's worth"
    place.admin.delete(f"{place.path if level == 'topic' else place.namespace}/{policy}")
    for _ in range(120 - got):
        consumer.receive(WITHIN_MS)


def test_messages_are_delivered_at_once_where_delays_are_off(
    place: Place, client: pulsar.Client
) -> None:
    place.set("topic", "delayedDelivery", {"active": False, "tickTime": 1000})
    consumer = client.subscribe(place.topic, "s", SHARED)
    producer = client.create_producer(place.topic)
    time.sleep(1)
    producer.send(b"x", deliver_at=int(time.time() * 1000) + 60_000)
    assert consumer.receive(WITHIN_MS).data() == b"x"


def test_what_is_said_nearest_holds(place: Place, connect: Connect) -> None:
    client = connect(operation_timeout_seconds=3)
    place.set("namespace", "maxProducersPerTopic", 1)
    applied = f"{place.path}/maxProducers"
    assert place.admin.get(applied) is None
    end = time.monotonic() + HOLDS_WITHIN_S
    while place.admin.get(applied, applied="true") != 1 and time.monotonic() < end:
        time.sleep(0.1)
    assert place.admin.get(applied, applied="true") == 1
    place.set("topic", "maxProducers", 2)
    assert place.admin.get(applied, applied="true") == 2
    producers = [client.create_producer(place.topic) for _ in range(2)]
    assert comes_to_hold(lambda: client.create_producer(place.topic)) == "ProducerBusy"
    place.admin.delete(applied)
    assert place.admin.get(applied, applied="true") == 1
    for each in producers:
        each.close()


def test_topics_of_two_namespaces_share_the_rate_of_their_resource_group(
    place: Place, client: pulsar.Client, name: Named
) -> None:
    admin, group = place.admin, name("group")
    other = f"/admin/v2/namespaces/public/{name('ns')}"
    rates = {"publishRateInMsgs": 20, "publishRateInBytes": 1_000_000}
    admin.put(f"/admin/v2/resourcegroups/{group}", rates)
    admin.put(other, {})
    producers = []
    for namespace in (place.namespace, other):
        admin.post(f"{namespace}/resourcegroup/{group}")
        topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
        producers.append(client.create_producer(topic, batching_enabled=False))
    time.sleep(2 * SETTLES_S)
    for each in producers:
        each.send(b"first")
    time.sleep(2 * SETTLES_S)
    began = time.monotonic()
    for number in range(120):
        producers[number % 2].send_async(b"x", lambda *_: None)
    for each in producers:
        each.flush()
    took_s = time.monotonic() - began
    assert took_s >= 4, "20 a second for both together, and at first a second's worth"
    with pytest.raises(Refused) as caught:
        admin.delete(f"/admin/v2/resourcegroups/{group}")
    assert caught.value.status == 412
    for namespace in (place.namespace, other):
        admin.delete(f"{namespace}/resourcegroup")
    admin.delete(f"/admin/v2/resourcegroups/{group}")
    admin.delete(other, force="true")
