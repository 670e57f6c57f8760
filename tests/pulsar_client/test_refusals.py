"""What brokers refuse, each as an error of its own kind; and what goes on all the same."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from tests.pulsar_client.conftest import Broker, until

from arneb_pulsar.client import (
    ConsumerOptions,
    InitialPosition,
    KeyShared,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import Admin, administer
from arneb_pulsar.client.codec.encryption import KeyFiles
from arneb_pulsar.client.errors import (
    ChecksumRefused,
    ConfigurationError,
    ConsumerAssignFailed,
    ConsumerBusy,
    CryptoError,
    MetadataError,
    NotAllowed,
    ProducerBlockedQuotaExceeded,
    ProducerQuotaExceeded,
    ServerRefused,
    SubscriptionNotFound,
    TopicNotFound,
)
from arneb_pulsar.client.producer.producer import Producer
from arneb_pulsar.names import parse_topic

pytestmark = [
    pytest.mark.in_peace("says what a refusal is at once"),
    pytest.mark.lean("the refusals are the same on both"),
]

SINGLE = ProducerOptions(batching=None)
SHARED = SubscriptionType.SHARED


def early(kind: SubscriptionType = SHARED, **more: Any) -> ConsumerOptions:
    return ConsumerOptions(type=kind, initial_position=InitialPosition.EARLIEST, **more)


@asynccontextmanager
async def namespace_of(broker: Broker, topic: str) -> AsyncIterator[tuple[str, str, Admin]]:
    """One of the test's own, and a topic in it."""
    name = f"public/{parse_topic(topic).local}"
    async with administer(broker.http_url) as admin:
        await admin.create_namespace(name)
        yield name, f"persistent://{name}/topic", admin


async def test_a_consumer_beside_others_does_not_remove_a_subscription(
    broker: Broker, topic: str
) -> None:
    async with connect(broker.pulsar_url) as client:
        one = await client.subscribe(topic, "s", early())
        other = await client.subscribe(topic, "s", early())
        with pytest.raises(MetadataError, match="(?i)unsubscribe"):
            await one.unsubscribe()
        producer = await client.create_producer(topic)
        await producer.send(b"goes on")
        await until(lambda: one.waiting + other.waiting == 1)
        await one.unsubscribe(force=True)
        assert one.is_closed


async def test_a_type_that_a_subscription_does_not_have(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        await client.subscribe(topic, "s", early())
        for kind in set(SubscriptionType) - {SHARED}:
            with pytest.raises(ConsumerBusy, match=topic):
                await client.subscribe(topic, "s", early(kind))


async def test_ranges_of_hashes_that_somebody_has(broker: Broker, topic: str) -> None:
    def sticky(*ranges: tuple[int, int]) -> ConsumerOptions:
        return early(SubscriptionType.KEY_SHARED, key_shared=KeyShared(sticky_ranges=ranges))

    async with connect(broker.pulsar_url) as client:
        await client.subscribe(topic, "s", sticky((0, 100)))
        with pytest.raises(ConsumerAssignFailed, match=topic):
            await client.subscribe(topic, "s", sticky((100, 200)))
        await client.subscribe(topic, "s", sticky((101, 200)))


async def test_a_subscription_that_may_not_be_created(broker: Broker, topic: str) -> None:
    async with (
        namespace_of(broker, topic) as (namespace, own, admin),
        connect(broker.pulsar_url) as client,
    ):
        await (await client.create_producer(own)).close()
        path = "autoSubscriptionCreation"
        await admin.set_policy(namespace, path, {"allowAutoSubscriptionCreation": False})
        with anyio.fail_after(60):
            with pytest.raises(SubscriptionNotFound, match=own):
                while True:
                    # A policy takes effect soon, not at once.
                    consumer = await client.subscribe(own, "new", early())
                    await consumer.unsubscribe()
        await admin.create_subscription(own, "made")
        await client.subscribe(own, "made", early())


async def test_a_topic_that_may_not_be_created(broker: Broker, topic: str) -> None:
    async with (
        namespace_of(broker, topic) as (namespace, own, admin),
        connect(broker.pulsar_url) as client,
    ):
        await admin.set_policy(
            namespace,
            "autoTopicCreation",
            {"allowAutoTopicCreation": False},
        )
        for ask in (
            lambda: client.create_producer(own),
            lambda: client.subscribe(own, "s", early()),
        ):
            with pytest.raises(TopicNotFound, match=own):
                await ask()
        await admin.create_topic(own)
        producer = await client.create_producer(own)
        consumer = await client.subscribe(own, "s", early())
        await producer.send(b"x")
        assert (await consumer.receive(10)).data == b"x"


async def test_a_message_that_was_damaged_on_its_way_fails_alone(
    broker: Broker, topic: str
) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", early())
        producer = await client.create_producer(topic, SINGLE)
        assert isinstance(producer, Producer)
        connection = producer._attachment.connection
        assert connection is not None
        send = connection.machine.send_frames

        def damaging(frames: Iterable[bytes]) -> None:
            send(
                [
                    each[:-1] + bytes([each[-1] ^ 1]) if b"damaged" in each else each
                    for each in frames
                ]
            )

        connection.machine.send_frames = damaging  # type: ignore[method-assign]
        calls: list[Exception | None] = []
        for value in (b"before", b"damaged", b"after"):
            producer.send_nowait(value, callback=lambda _found, error: calls.append(error))
        await producer.flush()
        assert [type(each) for each in calls if each is not None] == [ChecksumRefused]
        with pytest.raises(ChecksumRefused, match=topic):
            await producer.send(b"damaged again")
        await producer.send(b"last")
        found = [(await consumer.receive(10)).data for _ in range(3)]
        assert found == [b"before", b"after", b"last"]
        assert producer.statistics().messages_failed == 2


async def test_a_message_over_what_its_topic_allows_fails_alone(broker: Broker, topic: str) -> None:
    name = parse_topic(topic)
    path = f"{broker.http_url}/admin/v2/persistent/{name.namespace}/{name.local}/maxMessageSize"
    async with (
        connect(broker.pulsar_url) as client,
        httpx.AsyncClient(timeout=30, follow_redirects=True) as http,
    ):
        consumer = await client.subscribe(topic, "s", early())
        producer = await client.create_producer(topic, SINGLE)
        answer = await http.post(path, content="1000", headers={"Content-Type": "application/json"})
        answer.raise_for_status()
        sent = 0
        with anyio.fail_after(60), pytest.raises(NotAllowed, match=topic):
            while True:
                # A policy takes effect soon, not at once.
                await producer.send(bytes(2_000))
                sent += 1
                await anyio.sleep(0.1)
        await producer.send(b"small")
        found = [await consumer.receive(10) for _ in range(sent + 1)]
        assert found[-1].data == b"small"


async def test_keys_that_cannot_be_had(broker: Broker, topic: str, tmp_path: Any) -> None:
    async with connect(broker.pulsar_url) as client:
        with pytest.raises(ConfigurationError, match="expected a key reader"):
            await client.create_producer(topic, encryption_keys=["k"])
        files = KeyFiles({"k": str(tmp_path / "none.pem")}, {})
        with pytest.raises(CryptoError, match="none.pem"):
            producer = await client.create_producer(topic, encryption_keys=["k"], key_reader=files)
            await producer.send(b"x")
        (tmp_path / "none.pem").write_text("no key")
        with pytest.raises(CryptoError, match="expected"):
            producer = await client.create_producer(topic, encryption_keys=["k"], key_reader=files)
            await producer.send(b"x")


@pytest.mark.thorough("quotas are looked at now and then")
@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        ("producer_exception", ProducerQuotaExceeded),
        ("producer_request_hold", ProducerBlockedQuotaExceeded),
    ],
)
async def test_a_quota_refuses_producers_as_its_policy_says(
    broker: Broker, topic: str, policy: str, kind: type[ServerRefused]
) -> None:
    """Who has a producer is thrown out, and comes back when the backlog is gone."""
    async with (
        namespace_of(broker, topic) as (namespace, own, admin),
        connect(broker.pulsar_url) as client,
    ):
        consumer = await client.subscribe(own, "s", early())
        producer = await client.create_producer(own, SINGLE)
        await admin.set_policy(
            namespace,
            "backlogQuota",
            {"limitSize": 5_000, "limitTime": -1, "policy": policy},
        )
        for _ in range(20):
            await producer.send(bytes(1_000))
        await producer.close()
        refused: ServerRefused | None = None
        with anyio.fail_after(100):
            while refused is None:
                # Quotas are looked at now and then.
                try:
                    await (await client.create_producer(own)).close()
                    await anyio.sleep(0.5)
                except ServerRefused as error:
                    refused = error
        assert type(refused) is kind
        assert own in str(refused)
        for _ in range(20):
            await consumer.acknowledge_stored(await consumer.receive(10))
        with anyio.fail_after(100):
            while True:
                try:
                    again = await client.create_producer(own)
                    break
                except ServerRefused:
                    await anyio.sleep(0.5)
        await again.send(b"there is room")
