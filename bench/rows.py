"""The rows of the benchmark: what is measured, how much of it, and the goals."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.lmdb_limit import read_rate, write_rate
from bench.load import Figures, LoadGenerator
from conformance.brokers.process import Broker

BODY_BYTES: Final = 256
BIG_BODY_BYTES: Final = 4096
PREFETCH: Final = 1000
FILL_WINDOW: Final = 1000
LATENCY_RATE: Final = 2000
COMMIT_ENTRIES_MAX: Final = 1000
"""Where the limit for many connections stops growing its commits, as the broker does."""

MIB: Final = 1024 * 1024

CPU: Final = "cpu"
"""The name of a row's figure for the CPU time of the broker's process per message, in µs. The table
has a column for it, beside the rate."""

WRITTEN: Final = "written"
"""The name of the figure for the bytes that it caused to be written to disk per message."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything; 1 is the full run."""

    factor: float = 1.0

    def count(self, messages: int) -> int:
        return max(1000, int(messages * self.factor))

    def seconds(self, seconds: float) -> float:
        return max(1.0, seconds * self.factor)


def metered(
    load: LoadGenerator, broker: Broker, mode: str, /, *, count: int, **options: float | str | bool
) -> Figures:
    """Run ``mode`` once with ``count`` messages: the rate, the broker's CPU time per message, and
    the bytes that it wrote per message.

    Raises :class:`~bench.load.LoadFailed`.
    """
    address = broker.amqps_address if options.get("tls") else broker.address
    before_s, before_bytes = broker.cpu_s(), broker.written_bytes()
    figures = load.run(address, mode, count=count, **options)
    return {
        "": figures["rate"],
        CPU: (broker.cpu_s() - before_s) / count * 1e6,
        WRITTEN: (broker.written_bytes() - before_bytes) / count,
    }


Measure = Callable[[LoadGenerator, Broker, Scale], Figures]
Limit = Callable[[Scale], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to measure.

    ``measure`` returns one or more figures by name; each becomes a line of the table, with the goal
    of that name. If a row has only one figure, its name is "". ``lower_is_better`` inverts the
    ratio, so that above 1 is always good for Arneb. ``fresh`` rows get a broker of their own with
    an empty data directory, once per run. ``tls`` means that the load generator uses TLS, for which
    it must be compiled with OpenSSL. ``shape`` is RabbitMQ's rate when the goals were set, on a
    slower machine.
    """

    name: str
    title: str
    unit: str
    measure: Measure
    goals: Mapping[str, str] = field(default_factory=dict)
    limit: Limit | None = None
    lower_is_better: bool = False
    fresh: bool = False
    tls: bool = False
    shape: float | None = None


def _publish(
    window: int, messages: int, *, connections: int = 1, body: int = BODY_BYTES
) -> Measure:
    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        return metered(
            load,
            broker,
            "publish",
            window=window,
            connections=connections,
            body=body,
            count=scale.count(messages),
        )

    return measure


def _through(messages: int) -> Measure:
    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        return metered(
            load,
            broker,
            "through",
            window=500,
            prefetch=PREFETCH,
            body=BODY_BYTES,
            count=scale.count(messages),
        )

    return measure


def _drain(messages: int, ack_every: int) -> Measure:
    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        count = scale.count(messages)
        load.run(broker.address, "publish", window=FILL_WINDOW, body=BODY_BYTES, count=count)
        return metered(
            load, broker, "drain", prefetch=PREFETCH, ack_every=ack_every, count=count, keep=True
        )

    return measure


def _latency(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    figures = load.run(
        broker.address, "latency", rate=LATENCY_RATE, seconds=scale.seconds(10), body=BODY_BYTES
    )
    names = {"p50": "p50_us", "p95": "p95_us", "p99": "p99_us", "p99.9": "p999_us"}
    return {name: figures[key] / 1000 for name, key in names.items()}


def _memory(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
    time.sleep(1)  # let it finish its work after the start
    idle = broker.memory()
    count = scale.count(1_000_000)
    load.run(broker.address, "publish", window=FILL_WINDOW, body=BODY_BYTES, count=count)
    full = broker.memory()
    return {
        "idle": idle.resident / MIB,
        "peak": full.peak / MIB,
        "after, without file pages": full.anonymous / MIB,
    }


def _limit(commit: int, messages: int, body: int = BODY_BYTES) -> Limit:
    return lambda scale: write_rate(body=body, commit=commit, entries=scale.count(messages))


ROWS: Final = (
    Row("window-1", "1 connection, window 1", "msg/s", _publish(1, 10_000), {"": "≥ 0.9"},
        _limit(1, 10_000)),
    Row("window-10", "1 connection, window 10", "msg/s", _publish(10, 40_000), {},
        _limit(10, 40_000)),
    Row("window-100", "1 connection, window 100", "msg/s", _publish(100, 100_000), {},
        _limit(100, 100_000)),
    Row("window-500", "1 connection, window 500", "msg/s", _publish(500, 200_000), {"": "≥ 4"},
        _limit(500, 200_000)),
    Row("connections-50", "50 connections, window 100", "msg/s",
        _publish(100, 200_000, connections=50), {"": "≥ 2.5"}, _limit(COMMIT_ENTRIES_MAX, 200_000)),
    Row("through", "publish + consume at once, window 500, prefetch 1,000, ack each", "msg/s",
        _through(200_000), {"": "≥ 2.5"}, _limit(500, 200_000)),
    Row("drain", "drain 200,000, prefetch 1,000, ack each", "msg/s",
        _drain(200_000, 1), {"": "≥ 4"},
        lambda scale: read_rate(body=BODY_BYTES, commit=500, entries=scale.count(200_000))),
    Row("drain-multiple", "drain 200,000, prefetch 1,000, ack every 100", "msg/s",
        _drain(200_000, 100)),
    Row("body-4096", "4 KiB bodies, window 500", "msg/s",
        _publish(500, 50_000, body=BIG_BODY_BYTES), {"": "≥ 2"},
        _limit(500, 50_000, BIG_BODY_BYTES)),
    Row("latency", "latency at 2,000 msg/s", "ms", _latency, lower_is_better=True),
    Row("memory", "memory, backlog of 1,000,000", "MiB", _memory, {"idle": "< 60", "peak": "< 200"},
        lower_is_better=True, fresh=True),
)  # fmt: skip
