"""Rows beside Apache Pulsar with large numbers of something: consumers, topics, subscriptions, or
messages without receipts.

The rule: each row has a topic of its own, and reports the rate and the broker's resident memory
afterwards. Official clients do the work, except with many subscriptions, for which they have too
few connections.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import pulsar
from bench.pulsar_load import Connection, drain, publish, subscribe
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Address, BrokerFailed
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.wire.pulsar import Command, simple_frame

BODY: Final = bytes(1024)
CONSUMERS: Final = 100
KEYS: Final = 1_000
TOPICS: Final = 1_000
WINDOWS: Final = (1, 100, 1_000)
SUBSCRIPTIONS: Final = 10_000
ACTIVE: Final = 100
WITHIN_S: Final = 300.0
MIB: Final = 1024 * 1024

Figures = dict[str, float]
Server = Arneb | PulsarStandalone


def crowd_rows(server: Server, turn: int, factor: float) -> Iterator[Figures]:
    """Run every row in turn; ``factor`` scales their sizes. Raises :class:`.BrokerFailed`."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    rows: tuple[tuple[str, Callable[[pulsar.Client, str, float], Figures]], ...] = (
        (f"Shared, {CONSUMERS} consumers", _shared),
        (f"Key_Shared, {CONSUMERS} consumers", _key_shared),
        (f"{TOPICS} topics, a producer each", _many_topics),
        ("unbatched", _windows),
    )
    for name, row in rows:
        client = pulsar.Client(server.pulsar_url, logger=quiet, operation_timeout_seconds=60)
        place = f"persistent://public/default/crowd-{turn}-{rows.index((name, row))}"
        try:
            figures = row(client, place, factor)
            yield {f"{name}{each}": value for each, value in figures.items()}
            yield _resident(server, name)
        finally:
            client.close()
    yield _many_subscriptions(server, f"persistent://public/default/crowd-{turn}-many", factor)
    yield _resident(server, f"{SUBSCRIPTIONS} subscriptions")


def _resident(server: Server, name: str) -> Figures:
    return {f"{name}: resident, MiB": server.memory().resident / MIB}


def _shared(client: pulsar.Client, topic: str, factor: float) -> Figures:
    return _many_consumers(client, topic, factor, pulsar.ConsumerType.Shared)


def _key_shared(client: pulsar.Client, topic: str, factor: float) -> Figures:
    return _many_consumers(client, topic, factor, pulsar.ConsumerType.KeyShared)


def _many_consumers(
    client: pulsar.Client, topic: str, factor: float, kind: pulsar.ConsumerType
) -> Figures:
    """One producer with keys, and a subscription that many consumers share, each message
    acknowledged."""
    messages = max(2_000, int(50_000 * factor))
    got, all_there, lock = [0], threading.Event(), threading.Lock()

    def take(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        consumer.acknowledge(message)
        with lock:
            got[0] += 1
            if got[0] >= messages:
                all_there.set()

    consumers = [
        client.subscribe(topic, "s", kind, message_listener=take) for _ in range(CONSUMERS)
    ]
    producer = client.create_producer(
        topic, batching_enabled=False, block_if_queue_full=True, max_pending_messages=1_000
    )
    began = time.perf_counter()
    for number in range(messages):
        producer.send_async(BODY, _sent, partition_key=f"key-{number % KEYS}")
    producer.flush()
    if not all_there.wait(WITHIN_S):
        raise BrokerFailed(f"expected {messages} messages, got {got[0]}")
    took_s = time.perf_counter() - began
    for each in consumers:
        each.close()
    return {", through, msg/s": messages / took_s}


def _many_topics(client: pulsar.Client, topic: str, factor: float) -> Figures:
    """Each producer sends in turn, round by round, so that all of them are busy."""
    topics, rounds = max(100, int(TOPICS * factor)), 20
    began = time.perf_counter()
    producers = [
        client.create_producer(f"{topic}-{number}", batching_enabled=False)
        for number in range(topics)
    ]
    made_s = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(rounds):
        for each in producers:
            each.send_async(BODY, _sent)
    for each in producers:
        each.flush()
    took_s = time.perf_counter() - began
    for each in producers:
        each.close()
    return {", made/s": topics / made_s, ", msg/s": topics * rounds / took_s}


def _windows(client: pulsar.Client, topic: str, factor: float) -> Figures:
    """A producer with a limited number of messages without receipts."""
    figures: Figures = {}
    for window in WINDOWS:
        messages = max(200, int((2_000 if window == 1 else 50_000) * factor))
        producer = client.create_producer(topic, batching_enabled=False, send_timeout_millis=0)
        free = threading.Semaphore(window)
        failed: list[object] = []

        def receipt(
            result: pulsar.Result,
            _: object,
            free: threading.Semaphore = free,
            failed: list[object] = failed,
        ) -> None:
            if result != pulsar.Result.Ok:
                failed.append(result)
            free.release()

        began = time.perf_counter()
        for _ in range(messages):
            free.acquire()
            producer.send_async(BODY, receipt)
        producer.flush()
        took_s = time.perf_counter() - began
        producer.close()
        if failed:
            raise BrokerFailed(f"expected {messages} receipts, got {failed[:3]}")
        figures[f", window {window}, msg/s"] = messages / took_s
    return figures


def _many_subscriptions(server: Server, topic: str, factor: float) -> Figures:
    """Subscriptions that nobody uses, and some to which everything is delivered."""
    idle, messages = max(100, int(SUBSCRIPTIONS * factor)), max(20, int(500 * factor))
    host, _, port = server.pulsar_url.removeprefix("pulsar://").rpartition(":")
    address = Address(host, int(port))
    connection = Connection(address)
    began = time.perf_counter()
    for number in range(idle):
        subscribe(connection, topic, f"idle-{number}")
        close = simple_frame(Command.CLOSE_CONSUMER, [(1, 1), (2, 2)])
        connection.call(close, Command.SUCCESS)
    made_s = time.perf_counter() - began
    connection.socket.close()
    published = publish(address, topic, [0] * messages)
    active = [f"idle-{number}" for number in range(ACTIVE)]
    rate = drain(address, topic, active, messages, WITHIN_S)
    name = f"{SUBSCRIPTIONS} subscriptions, {ACTIVE} active"
    return {
        f"{name}, made/s": idle / made_s,
        f"{name}, published msg/s": published,
        f"{name}, delivered msg/s": rate,
    }


def _sent(result: pulsar.Result, _: object) -> None:
    if result != pulsar.Result.Ok:
        raise BrokerFailed(f"expected a receipt, got {result}")
