"""Rows with twenty consumers of one queue, in ways that the Pulsar protocol offers and AMQP does
not.

Mixed messages are published over AMQP. On Arneb, twenty consumers of a Shared or a Key_Shared
subscription receive them. Beside it stands what RabbitMQ's users have for this: twenty consumers of
a queue, and for order by key a consistent hash exchange in front of twenty queues with one consumer
each.

The rule: the clock runs from the first publish to the last acknowledgement sent; consumers, queues
and bindings exist before.
"""

import selectors
import time
from typing import Final

from bench.applications import EXCHANGE, KEYS, QUEUE
from bench.load import Figures, LoadFailed, LoadGenerator
from bench.pulsar_load import KEY_SHARED, SHARED, Connection, Receiver, subscribe
from bench.rows import CPU, WRITTEN, Measure, Row, Scale, metered
from bench.topology import topology
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Broker

CONSUMERS: Final = 20
PREFETCH: Final = 200
WINDOW: Final = 500
MESSAGES: Final = 60_000
WITHIN_S: Final = 60.0
SUBSCRIPTION: Final = "crowd"

COMMON: Final[dict[str, float | str | bool]] = {
    "ready": True, "as_client": True, "mixed": True, "exchange": EXCHANGE, "keys": KEYS,
    "window": WINDOW,
}  # fmt: skip


def _crowd(kind: int) -> Measure:
    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        count = scale.count(MESSAGES)
        if isinstance(broker, Arneb):
            return _subscription(load, broker, kind, count)
        return _queues(load, broker, count, by_key=kind == KEY_SHARED)

    return measure


def _queues(load: LoadGenerator, broker: Broker, count: int, *, by_key: bool) -> Figures:
    """RabbitMQ's way."""
    options: dict[str, float | str | bool] = {"consumers": CONSUMERS, "prefetch": PREFETCH}
    with topology(broker.address) as made:
        exchange = made.exchange(EXCHANGE, "x-consistent-hash" if by_key else "topic")
        if by_key:
            for number in range(CONSUMERS):
                made.channel.queue_bind(made.queue(f"{QUEUE}-{number}"), exchange, "10")
        else:
            made.channel.queue_bind(made.queue(QUEUE), exchange, f"{QUEUE}.*")
        return metered(load, broker, "through", count=count, spread=by_key, **COMMON, **options)


def _subscription(load: LoadGenerator, broker: Arneb, kind: int, count: int) -> Figures:
    """Arneb's way, over the Pulsar protocol."""
    with topology(broker.address) as made:
        exchange = made.exchange(EXCHANGE, "topic")
        made.channel.queue_bind(made.queue(QUEUE), exchange, f"{QUEUE}.*")
        selector, receivers = selectors.DefaultSelector(), list[Receiver]()
        for _ in range(CONSUMERS):
            receiver = Receiver(Connection(broker.pulsar_address), count, timed=False)
            subscribe(receiver.connection, QUEUE, SUBSCRIPTION, kind)
            receiver.flow()
            selector.register(receiver.connection.socket, selectors.EVENT_READ, receiver)
            receivers.append(receiver)
        before_s, before_bytes = broker.cpu_s(), broker.written_bytes()
        begin, left = time.perf_counter(), count
        with load.running(broker.address, "publish", waits=False, count=count, **COMMON) as running:
            while left > 0:
                ready = selector.select(WITHIN_S)
                if not ready:
                    raise LoadFailed(f"expected {left} more messages within {WITHIN_S} s")
                left -= sum(key.data.take() for key, _ in ready)
            running.figures()
        took_s = time.perf_counter() - begin
        figures = {
            "": count / took_s,
            CPU: (broker.cpu_s() - before_s) / count * 1e6,
            WRITTEN: (broker.written_bytes() - before_bytes) / count,
        }
        for receiver in receivers:
            receiver.connection.socket.close()
        return figures


CROWD_ROWS: Final = (
    Row("shared-20", "mixed, to 20 consumers, prefetch 200 (Shared: 1,000), ack each", "msg/s",
        _crowd(SHARED), {"": "≥ 2"}),
    Row("key-shared-20",
        "mixed, to 20 consumers by key, prefetch 200 (Key_Shared: 1,000), ack each",
        "msg/s", _crowd(KEY_SHARED), {"": "≥ 2"}),
)  # fmt: skip
