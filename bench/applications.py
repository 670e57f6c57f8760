"""The rows at the top of the table: messages published as applications publish them.

A client library writes each publish and each acknowledgement separately, and no two messages of an
application are alike. *Mixed* messages have bodies of 40 to 1,000 bytes, an id, a timestamp and
three headers of their own, and pass through a topic exchange with a hundred routing keys. *Uniform*
messages have 256 bytes and nothing else, but are written one by one as well.

The rule: the clock runs from the first publish or the first delivery; connections, queues and
bindings exist before.
"""

import time
from typing import Final

from bench.load import Figures, LoadGenerator
from bench.rows import (
    BIG_BODY_BYTES,
    BODY_BYTES,
    FILL_WINDOW,
    PREFETCH,
    Measure,
    Row,
    Scale,
    metered,
)
from bench.topology import topology
from conformance.brokers.process import Broker

KEYS: Final = 100
QUEUE: Final = "bench"
EXCHANGE: Final = "bench-app"

FILLED_S: Final = 0.5
"""How long a filled queue is left alone before it is drained, so that writes that belong to its
publishing do not count as part of the draining."""


def _sent(
    mode: str,
    messages: int,
    *,
    mixed: bool,
    body: int = BODY_BYTES,
    tls: bool = False,
    **options: int,
) -> Measure:
    """One run of ``mode`` as a client library sends it; for ``drain``, of a queue that is filled
    first."""

    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        count = scale.count(messages)
        kind: dict[str, float | str | bool] = {"body": body}
        with topology(broker.address) as made:
            made.queue(QUEUE)
            if mixed:
                made.channel.queue_bind(QUEUE, made.exchange(EXCHANGE, "topic"), f"{QUEUE}.*")
                kind = {"mixed": True, "exchange": EXCHANGE, "keys": KEYS}
            if mode == "drain":
                filled = {"ready": True, "window": FILL_WINDOW, "count": count, **kind}
                load.run(broker.address, "publish", **filled)
                time.sleep(FILLED_S)
            if tls:
                kind["tls"] = True
            return metered(
                load, broker, mode, count=count, ready=True, as_client=True, **kind, **options
            )

    return measure


APPLICATION_ROWS: Final = (
    Row("mixed-500", "mixed, window 500", "msg/s",
        _sent("publish", 100_000, mixed=True, window=500), {"": "≥ 9.5"},
        shape=10_840),
    Row("mixed-100", "mixed, window 100", "msg/s",
        _sent("publish", 60_000, mixed=True, window=100), {"": "≥ 6.6"},
        shape=9_624),
    Row("mixed-drain", "mixed, drain, prefetch 1,000, ack each", "msg/s",
        _sent("drain", 100_000, mixed=True, prefetch=PREFETCH), {"": "≥ 11"},
        shape=17_336),
    Row("mixed-both", "mixed, publish and consume, window 500, prefetch 1,000, ack each", "msg/s",
        _sent("through", 100_000, mixed=True, window=500, prefetch=PREFETCH), {"": "≥ 4.8"},
        shape=17_225),
    Row("mixed-both-200", "mixed, publish and consume, prefetch 200, ack each", "msg/s",
        _sent("through", 60_000, mixed=True, window=500, prefetch=200), {"": "≥ 2"}),
    Row("mixed-both-20", "mixed, publish and consume, prefetch 20, ack each", "msg/s",
        _sent("through", 40_000, mixed=True, window=500, prefetch=20), {"": "≥ 2"}),
    Row("mixed-20-consumers", "mixed, publish and consume by 20, prefetch 200, ack each", "msg/s",
        _sent("through", 60_000, mixed=True, window=500, prefetch=200, consumers=20),
        {"": "≥ 2"}),
    Row("mixed-connections-50", "mixed, 50 connections, window 100", "msg/s",
        _sent("publish", 100_000, mixed=True, window=100, connections=50), {"": "≥ 5"},
        shape=17_667),
    Row("mixed-connections-10", "mixed, 10 connections, window 10", "msg/s",
        _sent("publish", 40_000, mixed=True, window=10, connections=10), {"": "≥ 2"}),
    Row("mixed-tls-500", "mixed, TLS, window 500", "msg/s",
        _sent("publish", 60_000, mixed=True, tls=True, window=500), {"": "≥ 2"}, tls=True),
    Row("mixed-tls-drain", "mixed, TLS, drain, prefetch 1,000, ack each", "msg/s",
        _sent("drain", 60_000, mixed=True, tls=True, prefetch=PREFETCH), {"": "≥ 2"}, tls=True),
    Row("mixed-tls-both", "mixed, TLS, publish and consume, prefetch 200, ack each", "msg/s",
        _sent("through", 60_000, mixed=True, tls=True, window=500, prefetch=200), {"": "≥ 2"},
        tls=True),
    Row("mixed-tls-connections-10", "mixed, TLS, 10 connections, window 10", "msg/s",
        _sent("publish", 40_000, mixed=True, tls=True, window=10, connections=10), {"": "≥ 2"},
        tls=True),
    Row("sent-10", "window 10", "msg/s",
        _sent("publish", 20_000, mixed=False, window=10), {"": "≥ 1.9"},
        shape=8_711),
    Row("sent-1", "window 1", "msg/s",
        _sent("publish", 6_000, mixed=False, window=1), {"": "≥ 1.6"},
        shape=1_701),
    Row("sent-500", "window 500", "msg/s",
        _sent("publish", 150_000, mixed=False, window=500), {"": "≥ 8.5"},
        shape=16_690),
    Row("sent-drain", "drain, prefetch 1,000, ack every 100", "msg/s",
        _sent("drain", 150_000, mixed=False, prefetch=PREFETCH, ack_every=100), {"": "≥ 15"},
        shape=40_639),
    Row("sent-both", "publish and consume, window 500, prefetch 1,000, ack every 100", "msg/s",
        _sent("through", 150_000, mixed=False, window=500, prefetch=PREFETCH, ack_every=100),
        {"": "≥ 4.8"}, shape=24_745),
    Row("sent-both-each", "publish and consume, window 500, prefetch 1,000, ack each", "msg/s",
        _sent("through", 150_000, mixed=False, window=500, prefetch=PREFETCH), {"": "≥ 2"}),
    Row("sent-connections-50", "50 connections, window 100", "msg/s",
        _sent("publish", 150_000, mixed=False, window=100, connections=50), {"": "≥ 4.3"},
        shape=29_863),
    Row("sent-4096", "4 KiB, window 500", "msg/s",
        _sent("publish", 50_000, mixed=False, window=500, body=BIG_BODY_BYTES), {"": "≥ 4.5"},
        shape=15_760),
    Row("sent-4096-drain", "4 KiB, drain, prefetch 1,000, ack every 100", "msg/s",
        _sent("drain", 50_000, mixed=False, prefetch=PREFETCH, body=BIG_BODY_BYTES, ack_every=100),
        {"": "≥ 4.6"},
        shape=30_871),
    Row("sent-4096-drain-each", "4 KiB, drain, prefetch 1,000, ack each", "msg/s",
        _sent("drain", 50_000, mixed=False, prefetch=PREFETCH, body=BIG_BODY_BYTES), {"": "≥ 2"}),
)  # fmt: skip
