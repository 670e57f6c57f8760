"""Delayed delivery: deliver-at and deliver-after, which subscription types delay, and restarts."""

import time
from datetime import timedelta
from pathlib import Path

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.pulsar.conftest import Connect, Named
from conformance.pulsar.helpers import WITHIN_MS, assert_silent, payloads, take

EARLIEST = pulsar.InitialPosition.Earliest
EXCLUSIVE = pulsar.ConsumerType.Exclusive
SHARED = pulsar.ConsumerType.Shared

LATE_MS = 20_000
"""How late a message may be, in milliseconds, on a busy machine."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_message_comes_at_its_time_and_not_before(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic)
    at_ms = now_ms() + 3_000
    producer.send(b"later", deliver_at=at_ms)
    after_ms = now_ms() + 1_500
    producer.send(b"sooner", deliver_after=timedelta(milliseconds=1_500))
    producer.send(b"at once")
    assert payloads(take(consumer, 1)) == [b"at once"]
    (first,) = take(consumer, 1)
    assert first.data() == b"sooner"
    assert after_ms <= now_ms() <= after_ms + LATE_MS
    (second,) = take(consumer, 1)
    assert second.data() == b"later"
    assert at_ms <= now_ms() <= at_ms + LATE_MS
    for message in (first, second):
        assert message.redelivery_count() == 0


def test_a_time_that_has_passed_is_no_delay(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", SHARED)
    client.create_producer(topic).send(b"x", deliver_at=now_ms() - 5_000)
    assert consumer.receive(WITHIN_MS).data() == b"x"


def test_an_exclusive_consumer_gets_everything_at_once(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", EXCLUSIVE)
    producer = client.create_producer(topic)
    producer.send(b"a", deliver_after=timedelta(seconds=60))
    producer.send(b"b")
    assert payloads(take(consumer, 2)) == [b"a", b"b"]


def test_each_subscription_waits_for_itself(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "one", SHARED)
    producer = client.create_producer(topic)
    at_ms = now_ms() + 2_500
    for number in range(20):
        producer.send_async(b"%d" % number, None, deliver_at=at_ms)
    producer.flush()
    second = client.subscribe(topic, "two", SHARED, initial_position=EARLIEST)
    assert_silent(first)
    expected = {b"%d" % number for number in range(20)}
    assert set(payloads(take(first, 20))) == expected
    assert set(payloads(take(second, 20))) == expected
    assert now_ms() >= at_ms


def test_a_message_given_back_comes_again_without_its_delay(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    client.create_producer(topic).send(b"x", deliver_after=timedelta(milliseconds=300))
    (message,) = take(consumer, 1)
    consumer.negative_acknowledge(message)
    (again,) = take(consumer, 1)
    assert again.redelivery_count() == 1
    consumer.acknowledge(again)
    assert_silent(consumer)


def test_a_consumer_that_leaves_does_not_hurry_what_waits(connect: Connect, topic: str) -> None:
    first = connect().subscribe(topic, "s", SHARED)
    producer = connect().create_producer(topic)
    at_ms = now_ms() + 2_500
    producer.send(b"x", deliver_at=at_ms)
    first.close()
    second = connect().subscribe(topic, "s", SHARED)
    assert_silent(second)
    assert payloads(take(second, 1)) == [b"x"]
    assert now_ms() >= at_ms


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_nothing_delayed_is_lost_or_early_after_a_restart(
    tmp_path: Path, name: Named, kill: bool
) -> None:
    topic = name("restart")
    broker = Arneb(tmp_path / "arneb", listeners=["pulsar"])
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    try:
        broker.start()
        client = pulsar.Client(broker.pulsar_url, logger=quiet)
        client.subscribe(topic, "s", SHARED).close()
        producer = client.create_producer(topic, batching_enabled=False)
        base_ms = now_ms() + 4_000
        for number in range(500):
            producer.send_async(b"%d" % number, None, deliver_at=base_ms + number % 50)
        producer.flush()
        client.close()
        if kill:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        client = pulsar.Client(broker.pulsar_url, logger=quiet)
        consumer = client.subscribe(topic, "s", SHARED)
        found: dict[bytes, int] = {}
        while len(found) < 500:
            message = consumer.receive(WITHIN_MS)
            assert message.data() not in found
            found[message.data()] = now_ms()
            assert message.redelivery_count() == 0
            consumer.acknowledge(message)
        assert all(at_ms >= base_ms + int(body) % 50 for body, at_ms in found.items())
        client.close()
    finally:
        broker.stop()
