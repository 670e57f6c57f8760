"""The broker's cost of being monitored: ``python -m bench.polling``.

The rule: pairs of runs with the same load, one of which is polled every second. The cost is in CPU
seconds of the broker per message, because a count of user instructions would miss the kernel's
half. The response times are measured too. On a busy machine a run takes longer and is polled more
often.
"""

import argparse
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pika
from bench.load import LoadGenerator, compile_generator
from bench.operators import Poller, declare
from bench.spark_session import Report
from conformance.brokers.arneb import PROTOCOLS, Arneb
from conformance.management.client import Client

EVERYTHING: Final = ("overview", "queues", "connections", "channels")
ONE_PAGE: Final = ("overview", "queues?page=1&page_size=100&sort=messages&columns=name,messages")

RATIO_MAX: Final = 1.1

METRICS: Final = '[metrics]\nlisten = "127.0.0.1:0"\n'


@contextmanager
def clients(broker: Arneb, connections: int, channels: int) -> Iterator[None]:
    """This many connections and channels, without heartbeats, because nothing would answer them
    meanwhile."""
    parameters = pika.URLParameters(f"{broker.url}?heartbeat=0")
    made = [pika.BlockingConnection(parameters) for _ in range(connections)]
    for number in range(channels):
        made[number % connections].channel().basic_qos(prefetch_count=10)
    yield
    for each in made:
        each.close()


def pairs(
    broker: Arneb, load: LoadGenerator, paths: Sequence[str], count: int, runs: int
) -> tuple[list[float], dict[str, list[float]]]:
    """Ratios of the CPU time per message, polled to not polled, and the response times of each
    path."""
    ratios, took = list[float](), dict[str, list[float]]()

    def messages() -> float:
        before_s = broker.cpu_s()
        load.run(broker.address, "publish", queue="load", count=count, window=100, connections=4)
        return (broker.cpu_s() - before_s) / count

    def polled_messages() -> float:
        with Poller(Client(broker.http_address), paths) as poller:
            cost = messages()
        for path, each in poller.took_ms.items():
            took.setdefault(path, []).extend(each)
        return cost

    messages()
    for turn in range(runs):
        # The order alternates: the store grows, and the second run would always bear that.
        if turn % 2:
            polled, alone = polled_messages(), messages()
        else:
            alone, polled = messages(), polled_messages()
        ratios.append(polled / alone)
    return ratios, took


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, nargs="*", default=[1_000, 50_000])
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    report = Report("polling", f"{options.runs} interleaved pairs of {options.count:,} messages.")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        load = compile_generator(Path(directory))
        for queues in options.queues:
            paths = EVERYTHING if queues <= 1_000 else ONE_PAGE
            listeners = (*PROTOCOLS, "metrics")
            broker = Arneb(Path(directory) / str(queues), listeners=listeners, settings=METRICS)
            broker.start()
            try:
                declare(broker, queues)
                with clients(broker, 100, 200) if queues <= 1_000 else clients(broker, 1, 1):
                    ratios, took = pairs(broker, load, paths, options.count, options.runs)
                tell(report, f"{queues:,} queues", sorted(ratios), took)
                for metrics in ("/metrics", "/metrics/per-object"):
                    print(f"  {metrics}: {scraped(broker, metrics)}")
            finally:
                broker.kill()
    if not options.no_write:
        print(report.write())
    raise SystemExit(not report.is_good)


def tell(report: Report, part: str, ratios: Sequence[float], took: dict[str, list[float]]) -> None:
    """Add the figures of one broker."""
    print(" ".join(f"{each:.3f}" for each in ratios))
    what = "a message, polled to not polled"
    report.add(part, f"{what}, median", statistics.median(ratios), "", most=RATIO_MAX)
    report.add(part, f"{what}, lowest", ratios[0], "")
    report.add(part, f"{what}, highest", ratios[-1], "")
    for path, each in took.items():
        report.add(part, f"{path.partition('?')[0]}, median", statistics.median(each), "ms")


def scraped(broker: Arneb, path: str) -> str:
    """How long a page of metrics takes, and how large it is."""
    begun, before = time.monotonic(), broker.cpu_s()
    with urllib.request.urlopen(f"http://{broker.metrics_address}{path}", timeout=300) as answer:
        size = len(answer.read())
    took, used = time.monotonic() - begun, broker.cpu_s() - before
    return f"{size / 1e6:.2f} MB in {took:.2f} s, {used:.2f} s of CPU"


if __name__ == "__main__":
    main()
