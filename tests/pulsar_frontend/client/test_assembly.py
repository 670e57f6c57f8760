"""What is half made when its making fails, or is cancelled, is not left behind; and what a consumer
made for itself goes with it."""

from collections.abc import Iterator
from itertools import pairwise

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of, early, produce, sent_count

from arneb_pulsar.client import LATEST, ConsumerOptions, DeadLetterPolicy
from arneb_pulsar.client.codec.schemas.schema import StringSchema
from arneb_pulsar.client.errors import SchemaError, ServiceNotReady, TopicTerminated
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.testing import FakeBroker
from arneb_pulsar.client.testing.subscription import Entry
from arneb_pulsar.client.testing.topic import FakeTopic

PATTERN = "public/default/order.*"
LETTERS = "orders-billing-DLQ"


def consumers_of(broker: FakeBroker) -> int:
    return sum(len(each._consumers) for each in broker.sessions)


def producers_of(broker: FakeBroker) -> int:
    return sum(len(each._producers) for each in broker.sessions)


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Brokers that do not tell the last message, once."""
    last, refused = FakeTopic.last.fget, list[str]()  # type: ignore[attr-defined]

    def tell(topic: FakeTopic) -> Entry | None:
        if not refused:
            refused.append(topic.name)
            raise ServiceNotReady("the topic is being unloaded")
        found: Entry | None = last(topic)
        return found

    monkeypatch.setattr(FakeTopic, "last", property(tell))
    return iter([refused])


async def test_a_reader_that_does_not_learn_the_last_message_does_not_stay_at_that_broker(
    untold: Iterator[list[str]],
) -> None:
    """A broker that goes away later does not concern it: it is at another, or has resubscribed."""
    broker = FakeBroker(brokers=2)
    (refused,) = untold
    async with client_of(broker) as client:
        await produce(client, 3)
        broker.topic("orders").moves += 1  # where nobody else of the client is
        reader = await client.create_reader("orders", LATEST)
        assert len(refused) == 1
        assert sent_count(broker, "close_consumer") == 1
        (there,) = [each for each in broker.sessions if each._consumers]
        assert len(there._consumers) == 1
        left = [
            connection
            for connection in client._context.pool._open.values()
            if connection.machine.receivers
        ]
        assert len(left) == 1
        assert sent_count(broker, "subscribe") == 2
        await produce(client, 1)
        assert (await reader.read()).data == b"0"


async def test_a_reader_that_goes_elsewhere_after_such_a_refusal_does_not_hear_of_that_broker(
    untold: Iterator[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker(brokers=2)
    (refused,) = untold
    async with client_of(broker) as client:
        await produce(client, 1)
        topic = broker.topic("orders")
        subscribe = topic.subscribe

        def moving(*arguments: object) -> object:
            """The topic is at the other broker when the client asks again."""
            found = subscribe(*arguments)  # type: ignore[arg-type]
            if not refused:
                topic.moves += 1
            return found

        monkeypatch.setattr(topic, "subscribe", moving)
        reader = await client.create_reader("orders", LATEST)
        before, *_ = [each for each in broker.sessions if "getLastMessageId" in each.commands]
        asked = sent_count(broker, "subscribe")
        assert not before._consumers
        before._cut()
        await anyio.sleep(5)
        assert reader.is_connected
        assert sent_count(broker, "subscribe") == asked


async def test_a_pattern_that_is_not_waited_for_has_no_consumers() -> None:
    broker = FakeBroker()
    for name in ("orders", "orders-2"):
        broker.create_topic(name)
    async with client_of(broker) as client:
        for seconds in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
            broker.faults.delay_s_max = 1.0
            with anyio.move_on_after(seconds) as scope:
                await client.subscribe_pattern(PATTERN, "billing")
            broker.faults.delay_s_max = 0.0
            if not scope.cancelled_caught:
                break
            await anyio.sleep(10)
            assert consumers_of(broker) == 0
        await client.subscribe_pattern(PATTERN, "all", early())
        assert consumers_of(broker) >= 2


class Unreadable(StringSchema):
    """Text that nobody can read."""

    def decode(self, data: bytes, writer: object) -> str:
        raise SchemaError("expected text, got something else")


async def test_a_table_view_that_cannot_be_read_has_no_reader() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", schema=StringSchema())
        await producer.send("x", key="k")
        with pytest.raises(SchemaError):
            await client.create_table_view("orders", schema=Unreadable())
        assert consumers_of(broker) == 0
        broker.faults.delay_s_max = 1.0
        with anyio.move_on_after(3.5) as scope:
            await client.create_table_view("orders", schema=StringSchema())
        assert scope.cancelled_caught
        broker.faults.delay_s_max = 0.0
        await anyio.sleep(10)
        assert consumers_of(broker) == 0


async def test_dead_letters_go_on_when_their_producer_has_ended() -> None:
    """For good, as it does when its topic was deleted and may not be made again."""
    broker = FakeBroker()
    options = early(negative_ack_delay_s=0.1, dead_letters=DeadLetterPolicy(redeliveries_max=1))
    async with client_of(broker) as client:
        await produce(client, 2)
        consumer = await client.subscribe("orders", "billing", options)
        dead = await client.subscribe(LETTERS, "all", early())
        first, second = [await consumer.receive(10) for _ in range(2)]
        for message in (first, second):
            consumer.negative_acknowledge(message)
            consumer.negative_acknowledge(await consumer.receive(10))
            assert (await dead.receive(60)).data == message.data
            (made,) = [
                each
                for each in client.measured()
                if isinstance(each, Producing) and each.topic.endswith("-DLQ")
            ]
            await made.close()
        await anyio.sleep(1)
        assert broker.backlog("orders", "billing") == []


async def test_letters_that_are_refused_are_tried_again_after_the_delay_of_the_others() -> None:
    broker, asked = FakeBroker(), list[float]()
    options = early(negative_ack_delay_s=30.0, dead_letters=DeadLetterPolicy(redeliveries_max=1))

    async def refuse(topic: str, _subscription: str) -> Producing[bytes]:
        asked.append(anyio.current_time())
        raise TopicTerminated(f"{topic} takes no more")

    async with client_of(broker) as client:
        await produce(client, 1)
        client._letter_producer = refuse  # type: ignore[method-assign]
        consumer = await client.subscribe("orders", "billing", options)
        for _ in range(2):
            consumer.negative_acknowledge(await consumer.receive())
        await anyio.sleep(300)
        assert 8 <= len(asked) <= 10
        assert min(after - before for before, after in pairwise(asked)) >= 30
        assert broker.backlog("orders", "billing") == [(1, 0)]


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
async def test_the_producers_of_letters_go_with_their_consumer(how: str) -> None:
    broker = FakeBroker()
    options = early(
        negative_ack_delay_s=0.1, retry=True, dead_letters=DeadLetterPolicy(redeliveries_max=1)
    )
    async with client_of(broker) as client:
        await produce(client, 1)
        consumer = await client.subscribe("orders", "billing", options)
        await consumer.reconsume_later(await consumer.receive(10), 1.0)
        assert producers_of(broker) == 1
        await getattr(consumer, how)()
        await anyio.sleep(1)
        assert (producers_of(broker), consumers_of(broker)) == (0, 0)


async def test_a_consumer_of_its_own_precision_asks_at_ticks_of_it() -> None:
    """Given back at times a second apart, and asked for together: ticks of 2**12 ms."""
    for bits, requests in ((12, 1), (6, 3)):
        broker = FakeBroker()
        options = early(negative_ack_delay_s=1.0, negative_ack_precision_bits=bits)
        async with client_of(broker) as client:
            await produce(client, 3)
            # Ticks are counted from the clock's beginning.
            await anyio.sleep(-anyio.current_time() % 4.096)
            consumer = await client.subscribe("orders", "billing", options)
            for _ in range(3):
                consumer.negative_acknowledge(await consumer.receive(10))
                await anyio.sleep(0.5)
            await anyio.sleep(8)
            assert sent_count(broker, "redeliverUnacknowledgedMessages") == requests
            assert consumer.waiting == 3


def test_options_of_precision_that_cannot_be_meant_are_refused() -> None:
    for bits in (-1, 21):
        with pytest.raises(ValueError, match=f"expected 0 to 20 precision bits, got {bits}"):
            ConsumerOptions(negative_ack_precision_bits=bits)
