"""Measures the client library beside the official Python wheel, in one run against Arneb.

``python -m bench.client`` lets the clients take turns, round by round, each run in a process of its
own (:mod:`bench.client_load`). It measures their rates, their CPU time per message, and how busy
the broker was. If the broker had no idle time, its rate would have been measured, and not the
client's.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.client_load import RUNS, SUBSCRIPTION
from bench.report import RESULTS, index, machine, number, stamp
from conformance.brokers.arneb import Arneb

MESSAGES: Final = 300_000
ROUNDS: Final = 5
RUN_WITHIN_S: Final = 300
DIRECTIONS: Final = ("produce", "consume")
TARGETS: Final = {"produce": 0.6, "consume": 0.5}
"""The lowest rates allowed, as fractions of the wheel's. The wheel's asyncio client must be
exceeded."""

SATURATED: Final = 0.95
"""CPU load of the broker, in cores, above which it is unclear whose limit was measured."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one run."""

    rate: float
    """Messages per second."""
    cpu_us: float
    """CPU time of the client's process per message, in microseconds."""
    broker: float
    """CPU load of the broker, in cores."""


def measured(broker: Arneb, name: str, direction: str, topic: str, messages: int) -> Sample:
    """Run one client once. The wheel sometimes aborts while its process ends, after everything has
    been measured and printed; that is ignored. Raises :class:`subprocess.CalledProcessError`."""
    command = [sys.executable, "-m", "bench.client_load", name, direction]
    command += [broker.pulsar_url, topic, str(messages), str(broker.pid)]
    ran = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, text=True, timeout=RUN_WITHIN_S
    )
    if not ran.stdout:
        ran.check_returncode()
    sent, took_s, client_s, broker_s = json.loads(ran.stdout)
    return Sample(sent / took_s, client_s / sent * 1e6, broker_s / took_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 0 if the targets are met."""
    parser = argparse.ArgumentParser(prog="bench.client", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--clients", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    found: dict[tuple[str, str], list[Sample]] = {}
    with tempfile.TemporaryDirectory(prefix="arneb-bench-") as place:
        broker = Arneb(Path(place) / "arneb", listeners=["pulsar"]).start()
        try:
            for turn in range(options.rounds):
                for name in options.clients:
                    topic = f"persistent://public/default/bench-{turn}-{list(RUNS).index(name)}"
                    subscribe_first(broker.pulsar_url, topic)
                    for direction in DIRECTIONS:
                        sample = measured(broker, name, direction, topic, options.messages)
                        found.setdefault((direction, name), []).append(sample)
                        print(f"{name}: {direction}: {sample}", flush=True)
        finally:
            broker.stop()
    lines = table(found)
    print(lines)
    verdicts = judged(found)
    print("\n".join(verdicts))
    if not options.no_write:
        write(lines, verdicts, options.rounds, options.messages)
    return 1 if any("missed" in each for each in verdicts) else 0


def subscribe_first(url: str, topic: str) -> None:
    """Create the subscription that keeps the messages, in a process of its own like all clients."""
    code = (
        "import sys, pulsar; quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error); "
        "c = pulsar.Client(sys.argv[1], logger=quiet); "
        "c.subscribe(sys.argv[2], sys.argv[3], pulsar.ConsumerType.Shared); c.close()"
    )
    subprocess.run([sys.executable, "-c", code, url, topic, SUBSCRIPTION], check=True)


def table(found: dict[tuple[str, str], list[Sample]]) -> str:
    """The medians as a Markdown table."""
    rows = [
        "| | client | msg/s | of the wheel's | CPU a message, µs | broker, CPU s/s |",
        "|---|---|---|---|---|---|",
    ]
    for (direction, name), samples in sorted(found.items(), reverse=True):
        rate, wheel = rate_of(samples), rate_of(found.get((direction, "wheel"), []))
        of_wheel = f"{rate / wheel:.2f}" if wheel else ""
        cpu_us = median(each.cpu_us for each in samples)
        broker = median(each.broker for each in samples)
        rows.append(
            f"| {direction} | {name} | {number(rate)} | {of_wheel} | {cpu_us:.2f} | {broker:.2f} |"
        )
    return "\n".join(rows)


def judged(found: dict[tuple[str, str], list[Sample]]) -> list[str]:
    """A line for each target that says whether it was met."""
    verdicts = []
    for direction, wanted in TARGETS.items():
        wheel = rate_of(found.get((direction, "wheel"), []))
        its_asyncio = rate_of(found.get((direction, "wheel, asyncio"), []))
        for name in ("ours, trio", "ours, asyncio"):
            rate = rate_of(found.get((direction, name), []))
            for whose, beside, factor in (
                ("wheel's", wheel, wanted),
                ("wheel's asyncio client's", its_asyncio, 1.0),
            ):
                if rate and beside:
                    met = "met" if rate / beside >= factor else "missed"
                    verdicts.append(
                        f"* {direction}, {name}: {rate / beside:.2f} of the {whose} rate, "
                        f"target {factor:g}: {met}"
                    )
        busy = [
            name
            for name in RUNS
            if (samples := found.get((direction, name)))
            and median(each.broker for each in samples) > SATURATED
        ]
        verdicts += [f"* {direction}, {name}: the broker was saturated" for name in busy]
    return verdicts


def rate_of(samples: Sequence[Sample]) -> float:
    """The median rate; 0 without samples."""
    return median(each.rate for each in samples) if samples else 0.0


def write(lines: str, verdicts: Sequence[str], rounds: int, messages: int) -> None:
    """Write the result into bench/results."""
    path = RESULTS / f"client-{stamp()}.md"
    title = f"# The client library beside the official wheel, median of {rounds}"
    facts = {**machine(), "messages": f"{messages:,} of 1 KB a run, in batches of 100"}
    listed = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    judged_lines = "\n".join(verdicts)
    path.write_text(f"{title}\n\n{listed}\n\n{lines}\n\n{judged_lines}\n")
    index()
    print(f"written to {path}")


if __name__ == "__main__":
    sys.exit(main())
