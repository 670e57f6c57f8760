"""What a broker refuses because of who asks, of how much there is, or of what it cannot do now:
each at a real one, as an error of its own kind.

One code no broker says: ``UnsupportedVersionError``. Arneb has no use for it, and in Apache Pulsar
4.0 nothing sets the mark on a topic that it would be said for.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.guarded import arneb_with_rights, pulsar_with_rights, token_of
from tests.crash.failing_disk import limit_file_size
from tests.pulsar_client.conftest import Broker, OwnArneb

from arneb_pulsar.client import (
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import Admin, administer
from arneb_pulsar.client.connection.authentication import TokenAuthentication
from arneb_pulsar.client.errors import (
    AdminError,
    InvalidTopicRefused,
    NotAuthorized,
    PersistenceError,
    TimedOut,
    TooManyRequests,
)
from arneb_pulsar.names import TopicName, parse_topic

pytestmark = [
    pytest.mark.in_peace("says what a refusal is at once"),
    pytest.mark.lean("the refusals are the same on both"),
]

EARLY = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
SINGLE = ProducerOptions(batching=None)
SOON = ClientOptions(operation_timeout_s=3.0)
"""What is tried again is given up after so long, and the last refusal told."""


# Who asks


@dataclass(frozen=True)
class Guarded:
    """A broker that asks for rights."""

    url: str
    http_url: str

    def options_of(self, role: str) -> ClientOptions:
        proof = TokenAuthentication(token_of(role))
        return ClientOptions(authentication=proof, operation_timeout_s=10.0)

    def admin_of(self, role: str) -> AbstractAsyncContextManager[Admin]:
        return administer(self.http_url, TokenAuthentication(token_of(role)))

    async def grant(self, namespace: str, role: str, rights: list[str]) -> None:
        url = f"{self.http_url}/admin/v2/namespaces/{namespace}/permissions/{role}"
        headers = {"Authorization": f"Bearer {token_of('root')}"}
        async with httpx.AsyncClient(timeout=30, headers=headers) as http:
            (await http.post(url, json=rights)).raise_for_status()


@pytest.fixture(scope="session")
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    place = tmp_path_factory.mktemp("rights")
    if request.param == "arneb":
        arneb = arneb_with_rights(place)
        yield Guarded(arneb.pulsar_url, arneb.admin_url)
        arneb.stop()
    else:
        apache = pulsar_with_rights(place)
        yield Guarded(apache.pulsar_url, apache.http_url)
        apache.stop()


async def test_a_client_without_a_right_is_refused_at_once_and_continues_once_it_has_it(
    guarded: Guarded, topic: str
) -> None:
    namespace = f"public/{parse_topic(topic).local}"
    own = f"persistent://{namespace}/topic"
    async with guarded.admin_of("root") as admin:
        await admin.create_namespace(namespace)
        await admin.create_topic(own)
        async with connect(guarded.url, guarded.options_of("somebody")) as client:
            asked: list[Callable[[], Awaitable[Any]]] = [
                lambda: client.create_producer(own),
                lambda: client.subscribe(own, "s", EARLY),
                lambda: client.partitions_of(own),
            ]
            for ask in asked:
                began = time.monotonic()
                with pytest.raises(NotAuthorized, match=own):
                    await ask()
                assert time.monotonic() - began < 5, "a final error must not be retried"
            await guarded.grant(namespace, "somebody", ["produce", "consume"])
            with anyio.fail_after(60):
                producer = await allowed(lambda: client.create_producer(own))
                consumer = await allowed(lambda: client.subscribe(own, "s", EARLY))
            await producer.send(b"x")
            assert (await consumer.receive(10)).data == b"x"
    async with guarded.admin_of("somebody") as admin:
        with pytest.raises(AdminError, match="40[13]") as refused:
            await admin.create_namespace("public/of-somebody")
        assert refused.value.status in (401, 403)


async def allowed(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Brokers remember rights for a while."""
    while True:
        try:
            return await ask()
        except NotAuthorized:
            await anyio.sleep(0.2)


# What it cannot do now


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[tuple[Arneb, Callable[[int | None], None]]]:
    """A broker of its own, and how many bytes any file of it may have from now on."""
    broker = OwnArneb(tmp_path, listeners=["pulsar", "http-pulsar"]).start()
    yield broker, lambda size: limit_file_size(broker.pid, size)
    limit_file_size(broker.pid, None)
    broker.stop()


async def test_a_broker_whose_disk_takes_nothing_says_so_and_nothing_is_lost(
    full_disk: tuple[Arneb, Callable[[int | None], None]], topic: str
) -> None:
    broker, limit = full_disk
    soon = ProducerOptions(batching=None, send_timeout_s=2.0)
    async with connect(broker.pulsar_url, SOON) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        producer = await client.create_producer(topic, SINGLE)
        hasty = await client.create_producer(topic, soon)
        await producer.send(b"before")
        limit(0)  # not even a place in the journal, whose blocks are there already
        with pytest.raises(PersistenceError, match="another"):
            await client.create_producer("persistent://public/default/another")
        with pytest.raises(PersistenceError, match="another"):
            await client.subscribe("persistent://public/default/another", "s", EARLY)
        with pytest.raises(TimedOut, match="may be stored"):
            await hasty.send(b"in time or not at all")
        sent: list[Any] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_into, producer, sent)
            await anyio.sleep(1)
            assert not sent
            limit(None)
        assert sent
        found = [(await consumer.receive(10)).data for _ in range(2)]
        assert found == [b"before", b"patient"], "what was refused was not stored"


async def send_into(producer: Any, sent: list[Any]) -> None:
    sent.append(await producer.send(b"patient"))


@pytest.mark.not_at("arneb")
async def test_more_bookies_than_there_are(broker: Broker, topic: str) -> None:
    """A policy asks for more copies of each entry than the brokers can make."""
    namespace = f"public/{parse_topic(topic).local}"
    own = f"persistent://{namespace}/topic"
    patient = ClientOptions(operation_timeout_s=20.0)
    async with administer(broker.http_url) as admin, connect(broker.pulsar_url, patient) as client:
        await admin.create_namespace(namespace)
        # With it what the broker itself keeps of the namespace.
        await (await client.create_producer(f"persistent://{namespace}/before")).close()
        many = dict.fromkeys(
            ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 5
        )
        await admin.set_policy(
            namespace, "persistence", {**many, "managedLedgerMaxMarkDeleteRate": 0}
        )
        for ask in (
            lambda: client.create_producer(own),
            lambda: client.subscribe(own, "s", EARLY),
        ):
            with pytest.raises(PersistenceError, match=own):
                await ask()


# How much there is


async def test_more_open_transactions_than_a_broker_lets_in(tmp_path: Path, topic: str) -> None:
    settings = "[pulsar]\ntransactions_open_max = 2\n"
    arneb = OwnArneb(tmp_path, listeners=["pulsar", "http-pulsar"], settings=settings).start()
    try:
        async with connect(arneb.pulsar_url, SOON) as client:
            one, _two = [await client.begin_transaction() for _ in range(2)]
            with pytest.raises(TooManyRequests, match="2"):
                await client.begin_transaction()
            await one.abort()
            await (await client.begin_transaction()).commit()
    finally:
        arneb.stop()


@pytest.mark.not_at("arneb", "cluster")
async def test_more_questions_than_a_broker_answers_at_a_time(broker: Broker, topic: str) -> None:
    """Its bound is a dynamic setting; who asks goes on asking until its time is up."""
    setting = f"{broker.http_url}/admin/v2/brokers/configuration/maxConcurrentLookupRequest"
    async with (
        httpx.AsyncClient(timeout=30) as http,
        connect(broker.pulsar_url, SOON) as client,
    ):
        producer = await client.create_producer(topic)
        (await http.post(f"{setting}/0")).raise_for_status()
        try:
            with anyio.fail_after(60), pytest.raises(TooManyRequests, match=topic):
                while True:
                    # A setting takes effect soon, not at once.
                    await (await client.subscribe(topic, "s", EARLY)).unsubscribe()
            await producer.send(b"who is there stays there")
        finally:
            (await http.delete(setting)).raise_for_status()
            (await http.post(f"{setting}/50000")).raise_for_status()
        patient = ClientOptions(operation_timeout_s=30.0)
        async with connect(broker.pulsar_url, patient) as other:
            await other.subscribe(topic, "s", EARLY)


# What it does not understand


async def test_a_name_that_the_broker_does_not_take(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client looks at names itself; a broker may know more of them."""
    unchecked = TopicName("persistent", "public/default", " ")
    async with connect(broker.pulsar_url, SOON) as client:
        monkeypatch.setattr("arneb_pulsar.client.client.parse_topic", lambda _name: unchecked)
        for ask in (
            lambda: client.create_producer("blank"),
            lambda: client.subscribe("blank", "s", EARLY),
            lambda: client.partitions_of("blank"),
        ):
            began = time.monotonic()
            with pytest.raises(InvalidTopicRefused, match="(?i)invalid topic name|blank"):
                await ask()
            assert time.monotonic() - began < 2, "a final error must not be retried"
        monkeypatch.undo()
        producer = await client.create_producer("after-all")
        await producer.send(b"x")
