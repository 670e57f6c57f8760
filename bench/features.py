"""Rows beyond a plain queue: routing, types of queues, publishing strategies, large numbers of
something.

Each row makes its own topology; the load generator only publishes and consumes.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from bench.load import Figures, LoadFailed, LoadGenerator
from bench.rows import BODY_BYTES, FILL_WINDOW, PREFETCH, Measure, Row, Scale
from bench.topology import topology
from conformance.brokers.process import Broker

FAN_QUEUES: Final = 10
BINDINGS: Final = 10_000
BOUND_QUEUES: Final = 10
PRIORITIES: Final = 10
MANY: Final = 1000
HELD: Final = 5000
HELD_S: Final = 20
KIB: Final = 1024

STRATEGY_MESSAGES: Final = 50_000
BATCH: Final = 100

DEAD_WITHIN_S: Final = 300.0
CHECK_INTERVAL_S: Final = 0.01

FLOOD_WINDOW: Final = 10_000
STEADY_RATE: Final = 500
FLOOD_AHEAD_S: Final = 0.5
FLOOD_BEHIND_S: Final = 0.5
"""The load in the background begins earlier and ends later than what is measured."""


def _fan_out(body: int, messages: int) -> Measure:
    """Messages published per second, each of which is routed to every queue."""

    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        with topology(broker.address) as made:
            fan = made.exchange("bench-fan", "fanout")
            for number in range(FAN_QUEUES):
                made.channel.queue_bind(made.queue(f"bench-fan-{number}"), fan)
            figures = load.run(
                broker.address,
                "publish",
                ready=True,
                exchange=fan,
                window=500,
                body=body,
                count=scale.count(messages),
            )
        return {"": figures["rate"]}

    return measure


def _topic(messages: int) -> Measure:
    """Each routing key matches one of the bindings, and all keys are used in turn."""

    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        bindings = scale.count(BINDINGS)
        with topology(broker.address) as made:
            exchange = made.exchange("bench-topic", "topic")
            for number in range(BOUND_QUEUES):
                made.queue(f"bench-topic-{number}")
            for number in range(bindings):
                pattern = ("bench.{:06}", "*.{:06}", "bench.{:06}.#")[number % 3].format(number)
                queue = f"bench-topic-{number % BOUND_QUEUES}"
                made.channel.queue_bind(queue, exchange, pattern)
            figures = load.run(
                broker.address,
                "publish",
                ready=True,
                exchange=exchange,
                keys=bindings,
                window=500,
                body=BODY_BYTES,
                count=scale.count(messages),
            )
        return {"": figures["rate"]}

    return measure


def _kind(messages: int, arguments: Mapping[str, Any], **options: Any) -> Measure:
    """A queue with ``arguments`` is filled and drained; ``options`` are those of the load
    generator."""

    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        count = scale.count(messages)
        common = {"ready": True, "body": BODY_BYTES, "count": count, **options}
        with topology(broker.address) as made:
            made.queue("bench", arguments)
            published = load.run(broker.address, "publish", window=500, **common)
            drained = load.run(broker.address, "drain", prefetch=PREFETCH, ack_every=100, **common)
        return {"publish": published["rate"], "drain": drained["rate"]}

    return measure


def _dead_letters(messages: int) -> Measure:
    """From the first rejection until the last message is in the other queue."""

    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        count = scale.count(messages)
        with topology(broker.address) as made:
            dead = made.queue("bench-dead")
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
            made.queue("bench", arguments)
            common = {"ready": True, "body": BODY_BYTES, "count": count}
            load.run(broker.address, "publish", window=FILL_WINDOW, **common)
            began = time.monotonic()
            load.run(broker.address, "drain", prefetch=PREFETCH, reject=True, **common)
            while made.count(dead) < count:
                if time.monotonic() - began > DEAD_WITHIN_S:
                    raise LoadFailed(f"expected {count} dead letters, got {made.count(dead)}")
                made.wait(CHECK_INTERVAL_S)
            return {"": count / (time.monotonic() - began)}

    return measure


def _strategies(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    """The three strategies of RabbitMQ's tutorial on publisher confirms, with its number of
    messages."""
    count = scale.count(STRATEGY_MESSAGES)
    common = {"body": BODY_BYTES, "count": count}
    one = load.run(broker.address, "publish", window=1, **common)
    batch = load.run(broker.address, "publish", batch=BATCH, **common)
    asynchronous = load.run(broker.address, "publish", window=count, **common)
    return {
        "one by one": one["rate"],
        f"in batches of {BATCH}": batch["rate"],
        "asynchronously": asynchronous["rate"],
    }


def _idle_queues(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    time.sleep(1)  # let it finish its work after the start
    before, count = broker.memory(), scale.count(MANY)
    with topology(broker.address) as made:
        for number in range(count):
            made.queue(f"bench-idle-{number}")
        time.sleep(1)
        after = broker.memory()
    return {"": (after.anonymous - before.anonymous) / count / KIB}


def _idle_connections(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    time.sleep(1)
    before, count = broker.memory(), scale.count(MANY)
    with load.running(broker.address, "idle", connections=count, seconds=600):
        time.sleep(1)
        after = broker.memory()
    return {"": (after.anonymous - before.anonymous) / count / KIB}


def _held_connections(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    time.sleep(1)
    before, count = broker.memory(), scale.count(HELD)
    seconds = scale.seconds(HELD_S)
    with load.running(broker.address, "hold", connections=count, seconds=seconds) as running:
        time.sleep(seconds / 2)
        held = broker.memory()
        running.finish()
    return {"": (held.anonymous - before.anonymous) / count / KIB}


def _flood(seconds: float) -> dict[str, float | str | bool]:
    """The options of a publisher that sends as fast as it can, into a queue of its own."""
    return {
        "queue": "bench-flood", "window": FLOOD_WINDOW, "body": BODY_BYTES, "seconds": seconds,
    }  # fmt: skip


def _latency_beside_flood(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    """How a publisher that sends as fast as it can affects another client's messages."""
    seconds = scale.seconds(10)
    small: dict[str, float | str | bool] = {
        "queue": "bench-steady",
        "body": BODY_BYTES,
        "seconds": seconds,
    }
    with load.running(
        broker.address, "flood", waits=False, **_flood(2 * seconds + FLOOD_AHEAD_S + FLOOD_BEHIND_S)
    ) as flood:
        time.sleep(FLOOD_AHEAD_S)
        steady = load.run(broker.address, "latency", rate=STEADY_RATE, **small)
        turns = load.run(broker.address, "turns", **small)
        flood.figures()
    return {
        "delivered, p50": steady["p50_us"] / 1000,
        "delivered, p99": steady["p99_us"] / 1000,
        "confirmed, p50": steady["confirm_p50_us"] / 1000,
        "confirmed, p99": steady["confirm_p99_us"] / 1000,
        "window 1, p50": turns["p50_us"] / 1000,
        "window 1, p99": turns["p99_us"] / 1000,
    }


def _flood_beside_steady(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    """The rate of that publisher, alone and beside the other client."""
    seconds = scale.seconds(5)
    alone = load.run(broker.address, "flood", **_flood(seconds))
    with load.running(
        broker.address, "latency", waits=False, queue="bench-steady", rate=STEADY_RATE,
        body=BODY_BYTES, seconds=seconds + FLOOD_AHEAD_S + FLOOD_BEHIND_S,
    ) as steady:  # fmt: skip
        time.sleep(FLOOD_AHEAD_S)
        beside = load.run(broker.address, "flood", **_flood(seconds))
        steady.figures()
    return {"alone": alone["rate"], "beside 500 msg/s": beside["rate"]}


FEATURE_ROWS: Final = (
    Row("fan-out-1k", "1 KiB to 10 queues, window 500", "msg/s", _fan_out(KIB, 30_000)),
    Row("fan-out-16k", "16 KiB to 10 queues, window 500", "msg/s", _fan_out(16 * KIB, 10_000)),
    Row("topic-10000", "topic exchange with 10,000 bindings", "msg/s", _topic(100_000)),
    Row("priorities", "priority queue, 10 levels, ack every 100", "msg/s",
        _kind(100_000, {"x-max-priority": PRIORITIES}, priorities=PRIORITIES)),
    Row("dead-letters", "rejected one by one into another queue, prefetch 1,000", "msg/s",
        _dead_letters(50_000)),
    Row("quorum", "quorum queue, ack every 100", "msg/s",
        _kind(100_000, {"x-queue-type": "quorum"})),
    Row("stream", "stream, replayed from the start, ack every 100", "msg/s",
        _kind(200_000, {"x-queue-type": "stream"}, stream=True)),
    Row("strategies", "50,000 messages", "msg/s", _strategies),
    Row("latency-beside-flood", "latency at 500 msg/s beside a flood", "ms",
        _latency_beside_flood,
        {"delivered, p50": "≤ 1.5 ms", "delivered, p99": "≤ 10 ms", "confirmed, p50": "≤ 1.5 ms",
         "confirmed, p99": "≤ 10 ms", "window 1, p50": "≤ 1.5 ms", "window 1, p99": "≤ 10 ms"},
        lower_is_better=True),
    Row("flood", "a flood, window 10,000", "msg/s", _flood_beside_steady),
    Row("idle-queues", "memory of an idle queue, of 1,000", "KiB", _idle_queues,
        lower_is_better=True, fresh=True),
    Row("idle-connections", "memory of an idle connection, of 1,000", "KiB", _idle_connections,
        lower_is_better=True, fresh=True),
    Row("connections-5000", "memory of a connection, of 5,000 at 1 msg/s each", "KiB",
        _held_connections, lower_is_better=True, fresh=True),
)  # fmt: skip
