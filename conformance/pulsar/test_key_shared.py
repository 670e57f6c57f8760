"""Key_Shared subscriptions: a key is with one consumer at a time and in order, whatever consumers
come and go."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

import pulsar
import pytest
from conformance.pulsar.conftest import BrokerUrls, Connect, Mortal, Named
from conformance.pulsar.helpers import (
    ACKS_SENT_S,
    WITHIN_MS,
    assert_gets,
    assert_silent,
    gather,
    payloads,
    played,
    send,
    take,
)
from conformance.wire.pulsar import KEY_SHARED as RAW_KEY_SHARED
from conformance.wire.pulsar import Place, PulsarClient

KEY_SHARED = pulsar.ConsumerType.KeyShared
EARLIEST = pulsar.InitialPosition.Earliest
WITHIN_S = WITHIN_MS / 1000

Seen = tuple[str, int]


def subscribe(client: pulsar.Client, topic: str, **options: object) -> pulsar.Consumer:
    return client.subscribe(topic, "s", KEY_SHARED, initial_position=EARLIEST, **options)


def sticky(*ranges: tuple[int, int]) -> pulsar.ConsumerKeySharedPolicy:
    return pulsar.ConsumerKeySharedPolicy(
        key_shared_mode=pulsar.KeySharedMode.Sticky, sticky_ranges=list(ranges)
    )


def publish(producer: pulsar.Producer, keys: int, rounds: int, first: int = 0) -> None:
    """Send ``rounds`` consecutive numbers to each key."""
    for number in range(first, first + rounds):
        for key in range(keys):
            producer.send_async(b"%d" % number, lambda *_: None, partition_key=f"key-{key}")
    producer.flush()


def seen(message: pulsar.Message) -> Seen:
    return message.partition_key(), int(message.data())


def receive_some(
    consumer: pulsar.Consumer, most: int = 10_000, *, within_ms: int = 200
) -> list[pulsar.Message]:
    found = []
    while len(found) < most:
        try:
            found.append(consumer.receive(within_ms))
        except pulsar.Timeout:
            break
    return found


def by_key(messages: Iterable[Seen]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for key, number in messages:
        found[key].append(number)
    return found


def test_every_key_goes_to_one_consumer_in_order(connect: Connect, topic: str) -> None:
    consumers = [subscribe(connect(), topic, consumer_name=f"c{n}") for n in range(3)]
    publish(connect().create_producer(topic), keys=50, rounds=20)
    owners: dict[str, int] = {}
    total = 0
    for index, messages in enumerate(gather(consumers, 50 * 20)):
        for key, numbers in by_key(map(seen, messages)).items():
            assert owners.setdefault(key, index) == index, f"{key} has two consumers"
            assert numbers == list(range(20))
            total += len(numbers)
    assert total == 50 * 20
    assert set(owners.values()) == {0, 1, 2}, "everybody has some keys"


def test_keys_go_where_the_ring_says(connect: Connect, topic: str) -> None:
    """The positions on the hash ring are derived from consumer names, with a number for equal
    names, as in Apache Pulsar."""
    names = ("orders-1", "orders-2", "orders-2")
    consumers = [subscribe(connect(), topic, consumer_name=each) for each in names]
    producer = connect().create_producer(topic)
    for number in range(40):
        producer.send_async(b"x", lambda *_: None, partition_key=f"customer-{number}")
    producer.flush()
    found = [{each.partition_key() for each in own} for own in gather(consumers, 40)]
    expected = (
        (1, 4, 7, 8, 11, 12, 13, 18, 19, 21, 24, 27, 31, 37),
        (9, 16, 17, 29, 30, 32, 33, 36, 38, 39),
        (0, 2, 3, 5, 6, 10, 14, 15, 20, 22, 23, 25, 26, 28, 34, 35),
    )
    assert found == [{f"customer-{number}" for number in each} for each in expected]


def test_order_survives_a_kill(mortal: Mortal) -> None:
    """Consumers reconnect one after the other, and what was acknowledged stays acknowledged."""
    broker = mortal()
    clients = [pulsar.Client(broker.pulsar_url) for _ in range(4)]
    consumers = [subscribe(each, "t") for each in clients[1:]]
    producer = clients[0].create_producer("t")
    publish(producer, keys=20, rounds=10)
    had = zip(gather(consumers, 200), consumers, strict=True)
    held = [(message, consumer) for own, consumer in had for message in own]
    done: dict[str, int] = defaultdict(int)
    for message, consumer in held:
        key, number = seen(message)
        if number < int(key.removeprefix("key-")) % 8:
            consumer.acknowledge(message)
            done[key] += 1
    time.sleep(2 * ACKS_SENT_S)
    broker.kill()
    broker.start()
    publish(producer, keys=20, rounds=5, first=10)
    processed: dict[str, list[int]] = defaultdict(list)
    expected = {key: list(range(done[key], 15)) for key in (f"key-{n}" for n in range(20))}
    end = time.monotonic() + WITHIN_S
    while sum(map(len, processed.values())) < sum(map(len, expected.values())):
        assert time.monotonic() < end
        for consumer in consumers:
            for message in receive_some(consumer, most=30):
                key, number = seen(message)
                processed[key].append(number)
                consumer.acknowledge(message)
    assert processed == expected
    for each in clients:
        each.close()


def test_keys_stay_in_order_while_consumers_come_and_go(connect: Connect, topic: str) -> None:
    """The messages of a key are processed (received and acknowledged) in order, except those
    redelivered because their consumer left. No consumer receives a key of which another has
    unacknowledged messages."""
    producer = connect().create_producer(topic)
    consumers = {0: subscribe(connect(), topic, receiver_queue_size=20)}
    processed: dict[str, list[int]] = defaultdict(list)
    held: dict[str, tuple[int, list[pulsar.Message]]] = {}
    plan = {1: "+", 2: "+", 3: "-", 4: "+", 5: "-", 6: "+", 7: "-", 8: "-"}
    for step in range(12):
        publish(producer, keys=20, rounds=5, first=step * 5)
        if plan.get(step) == "+":
            consumers[step] = subscribe(connect(), topic, receiver_queue_size=20)
        elif plan.get(step) == "-":
            number = min(consumers)
            consumers.pop(number).close()
            held = {key: each for key, each in held.items() if each[0] != number}
        for number, consumer in consumers.items():
            for message in receive_some(consumer, most=40):
                key, value = seen(message)
                owner, waiting = held.get(key, (number, []))
                assert owner == number, f"{key} is at {owner} and {number}"
                waiting.append(message)
                held[key] = number, waiting
                expected = len(processed[key]) + len(waiting) - 1
                assert value == expected, f"{key}: {value} after {expected - 1}"
        for key, (number, waiting) in list(held.items()):
            for message in waiting[: len(waiting) // 2 + 1]:
                consumers[number].acknowledge(message)
                processed[key].append(int(message.data()))
            rest = waiting[len(waiting) // 2 + 1 :]
            held.pop(key)
            if rest:
                held[key] = number, rest
        time.sleep(ACKS_SENT_S)
    for key, (number, waiting) in held.items():
        for message in waiting:
            consumers[number].acknowledge(message)
            processed[key].append(int(message.data()))
    end = time.monotonic() + WITHIN_S
    while sum(map(len, processed.values())) < 20 * 60:
        assert time.monotonic() < end
        for consumer in consumers.values():
            for message in receive_some(consumer):
                processed[seen(message)[0]].append(int(message.data()))
                consumer.acknowledge(message)
    assert processed == {f"key-{key}": list(range(60)) for key in range(20)}


def test_a_slow_consumer_holds_up_its_own_keys_only(connect: Connect, topic: str) -> None:
    slow = subscribe(connect(), topic, receiver_queue_size=10)
    producer = connect().create_producer(topic)
    publish(producer, keys=30, rounds=1)
    had = {seen(each)[0] for each in take(slow, 10)}
    quick = subscribe(connect(), topic)
    publish(producer, keys=30, rounds=4, first=1)
    found = by_key(map(seen, receive_some(quick, within_ms=2_000)))
    assert found, "the newcomer gets what nobody holds"
    assert not found.keys() & had
    for key, numbers in found.items():
        assert numbers in ([0, 1, 2, 3, 4], [1, 2, 3, 4]), key


def test_a_key_sent_back_comes_again_to_its_consumer_in_order(connect: Connect, topic: str) -> None:
    options = {"negative_ack_redelivery_delay_ms": 100}
    one = subscribe(connect(), topic, consumer_name="one", **options)
    two = subscribe(connect(), topic, consumer_name="two", **options)
    publish(connect().create_producer(topic), keys=10, rounds=3)
    first = dict(zip(("one", "two"), gather([one, two], 30), strict=True))
    for name, consumer in (("one", one), ("two", two)):
        for message in first[name]:
            consumer.negative_acknowledge(message)
        again = take(consumer, len(first[name]))
        assert by_key(map(seen, again)) == by_key(map(seen, first[name]))
        assert {each.redelivery_count() for each in again} == {1}


def test_what_comes_back_goes_before_anything_new(
    broker_urls: BrokerUrls, connect: Connect, topic: str
) -> None:
    """Of whatever key it is."""
    publish(connect().create_producer(topic, batching_enabled=False), keys=20, rounds=1)

    async def play(client: PulsarClient) -> None:
        got: asyncio.Queue[Place] = asyncio.Queue()
        client.received = lambda consumer, entry: got.put_nowait(entry.place)

        async def get(count: int) -> list[Place]:
            client.flow(count)
            return [await asyncio.wait_for(got.get(), WITHIN_S) for _ in range(count)]

        await client.subscribe(topic, "s", kind=RAW_KEY_SHARED)
        first = await get(5)
        client.give_back([])
        again = await get(7)
        assert again[:5] == first
        assert again == sorted(again)

    played(broker_urls.pulsar, topic, play)


def test_what_a_leaving_consumer_had_goes_to_the_others(connect: Connect, topic: str) -> None:
    stays, leaves = (subscribe(connect(), topic, consumer_name=name) for name in ("a", "b"))
    publish(connect().create_producer(topic), keys=20, rounds=5)
    own, others = gather([stays, leaves], 100)
    assert own and others
    for message in others[: len(others) // 2]:
        leaves.acknowledge(message)
    time.sleep(ACKS_SENT_S)
    leaves.close()
    left = others[len(others) // 2 :]
    (again,) = gather([stays], len(left))
    assert by_key(map(seen, again)) == by_key(map(seen, left))
    assert {each.redelivery_count() for each in again} == {0}


def test_messages_without_a_key_are_spread(connect: Connect, topic: str) -> None:
    consumers = [subscribe(connect(), topic, consumer_name=f"c{n}") for n in range(3)]
    send(connect().create_producer(topic), [b"%d" % number for number in range(300)])
    found = [payloads(each) for each in gather(consumers, 300)]
    assert sorted(int(each) for part in found for each in part) == list(range(300))
    assert all(found)


def test_the_ordering_key_goes_before_the_partition_key(connect: Connect, topic: str) -> None:
    low = subscribe(connect(), topic, key_shared_policy=sticky((0, 32767)))
    high = subscribe(connect(), topic, key_shared_policy=sticky((32768, 65535)))
    producer = connect().create_producer(topic)
    producer.send(b"1", partition_key="Order-3459134")  # hash 6067
    producer.send(b"2", partition_key="key01")  # hash 47652
    producer.send(b"3", partition_key="key01", ordering_key="Order-3459134")
    assert_gets(low, [b"1", b"3"])
    assert_gets(high, [b"2"])


@pytest.mark.parametrize("policy", ["hole", "overlap", "none"])
def test_sticky_ranges(connect: Connect, topic: str, policy: str) -> None:
    low = subscribe(connect(), topic, key_shared_policy=sticky((0, 20_000)))
    producer = connect().create_producer(topic)
    producer.send(b"in", partition_key="Order-3459134")  # hash 6067
    producer.send(b"out", partition_key="key01")  # hash 47652
    assert_gets(low, [b"in"])
    if policy == "hole":
        rest = subscribe(connect(), topic, key_shared_policy=sticky((20_001, 65_535)))
        assert_gets(rest, [b"out"])
    elif policy == "overlap":
        with pytest.raises(pulsar.PulsarException):
            subscribe(connect(), topic, key_shared_policy=sticky((20_000, 65_535)))
    else:
        with pytest.raises(pulsar.PulsarException):
            subscribe(connect(), topic)
    assert_silent(low)


@pytest.mark.parametrize(
    "other",
    [pulsar.ConsumerType.Shared, pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover],
)
def test_the_type_holds_until_the_last_consumer_leaves(
    connect: Connect, topic: str, other: pulsar.ConsumerType
) -> None:
    holder = subscribe(connect(), topic)
    with pytest.raises(pulsar.ConsumerBusy):
        connect().subscribe(topic, "s", other)
    holder.close()
    connect().subscribe(topic, "s", other)
    with pytest.raises(pulsar.ConsumerBusy):
        subscribe(connect(), topic)


def test_order_must_be_wanted_by_all_or_none(connect: Connect, topic: str) -> None:
    out_of_order = pulsar.ConsumerKeySharedPolicy(allow_out_of_order_delivery=True)
    subscribe(connect(), topic, key_shared_policy=out_of_order)
    with pytest.raises(pulsar.ConsumerBusy):
        subscribe(connect(), topic)
    subscribe(connect(), topic, key_shared_policy=out_of_order)


def test_cumulative_acks_are_refused(connect: Connect, topic: str) -> None:
    consumer = subscribe(connect(), topic)
    publish(connect().create_producer(topic), keys=2, rounds=2)
    last = take(consumer, 4)[-1]
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(last)


def test_a_batch_has_one_key_when_it_is_made_by_key(connect: Connect, topic: str) -> None:
    consumers = [subscribe(connect(), topic, consumer_name=f"c{n}") for n in range(2)]
    producer = connect().create_producer(
        topic, batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased
    )
    publish(producer, keys=20, rounds=10)
    owners: dict[str, int] = {}
    for index, messages in enumerate(gather(consumers, 20 * 10)):
        for key, numbers in by_key(map(seen, messages)).items():
            assert owners.setdefault(key, index) == index
            assert numbers == list(range(10))
    assert len(owners) == 20
    assert set(owners.values()) == {0, 1}


def test_several_topics_with_one_consumer_each(connect: Connect, name: Named) -> None:
    topics = [name("keyed") for _ in range(2)]
    consumers = [
        connect().subscribe(topics, "s", KEY_SHARED, consumer_name=each) for each in ("a", "b")
    ]
    for each in topics:
        publish(connect().create_producer(each), keys=10, rounds=3)
    gather(consumers, 60)


def test_delayed_messages_come_to_the_consumer_of_their_key(connect: Connect, topic: str) -> None:
    consumers = [subscribe(connect(), topic, consumer_name=each) for each in ("a", "b")]
    producer = connect().create_producer(topic)
    started = time.time()
    for number in range(3):
        for key in range(10):
            delay = timedelta(seconds=3) if number == 1 else None
            producer.send(b"%d" % number, partition_key=f"key-{key}", deliver_after=delay)
    owners: dict[str, int] = {}
    found: dict[str, list[int]] = defaultdict(list)
    while sum(map(len, found.values())) < 30 and time.time() - started < WITHIN_S:
        for index, consumer in enumerate(consumers):
            for message in receive_some(consumer):
                key, number = seen(message)
                assert owners.setdefault(key, index) == index
                assert number != 1 or time.time() - started >= 3, "too early"
                found[key].append(number)
                consumer.acknowledge(message)
    assert found == {f"key-{key}": [0, 2, 1] for key in range(10)}
    assert set(owners.values()) == {0, 1}
