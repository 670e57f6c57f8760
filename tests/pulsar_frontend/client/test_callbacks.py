"""Code of an application that the client calls: each is told what it should be, and what it raises
reaches nobody else."""

import logging
from typing import Any

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import billing, client_of, early, produce

from arneb_pulsar.client import (
    Batching,
    ConsumerOptions,
    Message,
    MessageId,
    ProducerOptions,
    SubscriptionType,
)
from arneb_pulsar.client.errors import ConfigurationError, SchemaError
from arneb_pulsar.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.testing import FakeBroker

SINGLE = ProducerOptions(batching=None)


class Raising(ProducerInterceptor, ConsumerInterceptor):
    """Notes what it sees, and raises."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def _note(self, what: str) -> None:
        self.seen.append(what)
        raise LookupError(what)

    def before_send(self, topic: str, message: OutgoingMessage) -> None:
        message.properties = {"seen": "yes"}
        self._note("before_send")

    def after_send(
        self,
        topic: str,
        message: OutgoingMessage,
        found: MessageId | None,
        error: Exception | None,
    ) -> None:
        self._note("after_send")

    def before_receive(self, topic: str, message: Any) -> None:
        self._note(f"before_receive {message.properties['seen']}")

    def on_acknowledge(self, topic: str, which: Any, *, cumulative: bool) -> None:
        self._note(f"on_acknowledge {cumulative}")

    def on_negative_acknowledge(self, topic: str, which: Any) -> None:
        self._note("on_negative_acknowledge")


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED])
async def test_interceptors_see_a_message_on_its_way(
    kind: SubscriptionType, caplog: pytest.LogCaptureFixture
) -> None:
    raising = Raising()
    async with client_of(FakeBroker()) as client:
        consumer = await client.subscribe("orders", "s", early(kind), interceptors=[raising])
        producer = await client.create_producer("orders", SINGLE, interceptors=[raising])
        await producer.send(b"x")
        message = await consumer.receive()
        consumer.negative_acknowledge(message)
        if kind is SubscriptionType.EXCLUSIVE:
            consumer.acknowledge_cumulative(message)
        consumer.acknowledge(message)
    cumulative = ["on_acknowledge True"] if kind is SubscriptionType.EXCLUSIVE else []
    assert raising.seen == [
        "before_send",
        "after_send",
        "before_receive yes",
        "on_negative_acknowledge",
        *cumulative,
        "on_acknowledge False",
    ]
    assert "LookupError: before_send" in caplog.text


async def test_a_sends_callback_that_raises_is_called_once_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[object] = []

    def callback(found: MessageId | None, error: Exception | None) -> None:
        calls.append(found or error)
        raise LookupError("in a callback")

    async with client_of(FakeBroker()) as client:
        producer = await client.create_producer("orders", SINGLE)
        for _ in range(3):
            producer.send_nowait(b"x", callback=callback)
        await producer.flush()
        assert await producer.send(b"x", callback=callback) == calls[3]
        assert [type(each) for each in calls] == [MessageId] * 4
    assert caplog.text.count("LookupError: in a callback") == 4


async def test_a_listener_gets_messages_one_after_the_other_until_the_consumer_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it raised for stays unacknowledged, and comes again."""
    got: list[bytes] = []

    async def listener(consumer: Any, message: Message[bytes]) -> None:
        got.append(message.data)
        if got.count(message.data) == 1 and message.data == b"1":
            consumer.negative_acknowledge(message)
            raise LookupError("in a listener")
        await consumer.acknowledge_stored(message)

    async with billing(3, early(negative_ack_delay_s=1.0)) as (broker, consumer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.listen, listener)
            await anyio.sleep(5)
            await consumer.close()
        assert got == [b"0", b"1", b"2", b"1"]
        assert broker.backlog("orders", "billing") == []
    assert "LookupError: in a listener" in caplog.text


async def test_a_callback_for_the_active_consumer_may_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raising(_consumer: Any, is_active: bool) -> None:
        raise LookupError(f"active: {is_active}")

    options = ConsumerOptions(type=SubscriptionType.FAILOVER, on_active=raising)
    async with client_of(FakeBroker()) as client:
        consumer = await client.subscribe("orders", "billing", options)
        await produce(client, 1)
        assert (await consumer.receive()).data == b"0"
    assert "LookupError: active: True" in caplog.text


class BrokenSchema:
    """A schema of an application that can only write."""

    from arneb_pulsar.client.codec.schemas.schema import StringSchema

    info = StringSchema.info

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes, writer: object = None) -> str:
        raise LookupError("cannot read")


async def test_a_table_view_that_cannot_read_a_value_says_so_and_the_client_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client_of(FakeBroker()) as client:
        producer = await client.create_producer("orders", SINGLE)
        view = await client.create_table_view("orders", schema=BrokenSchema())
        view.listen(lambda _key, _value: None)
        await producer.send(b"x", key="k")
        await anyio.sleep(1)
        with pytest.raises(SchemaError, match="cannot read"):
            await view.refresh()
        await producer.send(b"y")
        await view.close()
        assert view.is_closed
    assert "out of date" in caplog.text


async def test_a_watcher_of_a_table_view_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    def raising(key: str, value: object) -> None:
        raise LookupError(f"{key} is {value!r}")

    async with client_of(FakeBroker()) as client:
        producer = await client.create_producer("orders", SINGLE)
        await producer.send(b"x", key="a")
        async with await client.create_table_view("orders") as view:
            view.for_each_and_listen(raising)
            await producer.send(b"y", key="b")
            await view.refresh()
            assert dict(view) == {"a": b"x", "b": b"y"}
    assert "LookupError: a is b'x'" in caplog.text
    assert "LookupError: b is b'y'" in caplog.text


class Spoiling(ProducerInterceptor):
    """Makes of some messages what none can be."""

    def before_send(self, topic: str, message: OutgoingMessage) -> None:
        if message.payload == b"bad":
            message.ordering_key = "text"  # type: ignore[assignment]


@pytest.mark.parametrize("batching", [None, Batching(delay_s=0.01), Batching(by_key=True)])
async def test_a_message_that_an_interceptor_spoils_fails_alone(batching: Batching | None) -> None:
    broker = FakeBroker()
    calls: list[str] = []

    def tell(found: MessageId | None, error: Exception | None) -> None:
        calls.append(type(error).__name__ if found is None else "stored")

    async with client_of(broker) as client:
        options = ProducerOptions(batching=batching)
        producer = await client.create_producer("orders", options, interceptors=[Spoiling()])
        for value in (b"1", b"bad", b"2"):
            try:
                producer.send_nowait(value, callback=tell)
            except ConfigurationError as error:
                calls.append(type(error).__name__)
        await producer.flush()
        with pytest.raises(ConfigurationError, match="can be sent"):
            await producer.send_batch([b"3", b"bad"])
        with pytest.raises(ConfigurationError, match="can be sent"):
            await producer.send(b"bad")
        await producer.send(b"4")
        assert producer.statistics().messages_pending == 0
    assert sorted(calls) == ["ConfigurationError", "stored", "stored"]
    assert sum(each.messages for each in broker.topic("orders").entries) == 3
