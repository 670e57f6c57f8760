"""Rows of RabbitMQ's own PerfTest, a Java client: with its defaults, and with persistent messages.

Client and broker share the machine, and the JVM takes most of it, so the broker's CPU time per
message says more than the rate. These rows run only when they are named, because they need Java and
Maven (``make client-tools``).
"""

import re
import subprocess
from pathlib import Path
from typing import Final

from bench.load import Figures, LoadFailed, LoadGenerator
from bench.rows import CPU, WRITTEN, Measure, Row, Scale
from conformance.brokers.java_server import classpath
from conformance.brokers.process import Broker, BrokerFailed

PROJECT: Final = Path(__file__).with_name("perf_test.xml")
MAIN: Final = "com.rabbitmq.perf.PerfTest"
SECONDS: Final = 8
STARTS_WITHIN_S: Final = 60
RATE: Final = re.compile(r"receiving rate avg: ([0-9]+) msg/s")


def _perf_test(*options: str) -> Measure:
    def measure(load: LoadGenerator, broker: Broker, scale: Scale) -> Figures:
        seconds = round(scale.seconds(SECONDS))
        uri = f"amqp://guest:guest@{broker.address}/%2f"
        try:
            command = ["java", "-cp", classpath(PROJECT), MAIN, "--uri", uri, "-z", str(seconds)]
        except BrokerFailed as failure:
            raise LoadFailed(str(failure)) from failure
        before_s, before_bytes = broker.cpu_s(), broker.written_bytes()
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            timeout=seconds + STARTS_WITHIN_S,
            check=False,
        )
        found = RATE.search(done.stdout)
        if done.returncode or found is None or not int(found[1]):
            raise LoadFailed(f"PerfTest {options}: {done.stdout[-500:]}{done.stderr[-500:]}")
        messages = int(found[1]) * seconds
        return {
            "": float(found[1]),
            CPU: (broker.cpu_s() - before_s) / messages * 1e6,
            WRITTEN: (broker.written_bytes() - before_bytes) / messages,
        }

    return measure


PERF_TEST_ROWS: Final = (
    Row("perf-test", "PerfTest, its defaults (no prefetch limit, ack each): received",
        "msg/s", _perf_test(), {"": "≥ 2"}),
    Row("perf-test-kept", "PerfTest, persistent, 1,000 unconfirmed, prefetch 200: received",
        "msg/s",
        _perf_test(
            "--flag", "persistent", "--queue", "bench-perf-test", "--auto-delete", "true",
            "--confirm", "1000", "--qos", "200", "--size", "256",
        ),
        {"": "≥ 2"}),
)  # fmt: skip
