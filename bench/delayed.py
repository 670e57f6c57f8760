"""Measures delayed messages at scale: one topic, several subscriptions, millions that wait.

``python -m bench.delayed`` starts a broker on an empty directory and, in one run,

1. publishes a part of the messages without a delay, and drains them on all subscriptions,
2. publishes all messages to another topic, each with a time at which it is due,
3. drains as many of those, on as many subscriptions, from the moment when the first is due,
4. kills the broker and starts it again on what is left.

The memory of the broker's process is looked at all the time, so its peaks are in the figures.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from bench.pulsar_load import BODY_BYTES, drain, make_subscriptions, publish
from bench.report import RESULTS, index, machine, number, stamp
from conformance.brokers.arneb import Arneb

from arneb_core.store.schema import Table
from arneb_core.store.snapshot import open_snapshot_environment

MESSAGES: Final = 10_000_000
SUBSCRIPTIONS: Final = 10
PART: Final = 10
"""One in so many is drained."""

DUE_RATE: Final = 200_000
"""So many come due in a second, and each on all subscriptions: faster than they can be drained."""

ROOM_S: Final = 20
ROOM_FACTOR: Final = 3
"""By so much longer than expected may the publishing take, before the first is due."""

LOOK_S: Final = 0.1
WITHIN_S: Final = 120.0
MIB: Final = 1024 * 1024
PREFIX: Final = "persistent://public/default/"

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Size:
    """What is measured with."""

    messages: int
    subscriptions: int
    part: int
    times: str

    @property
    def names(self) -> list[str]:
        """Of the subscriptions."""
        return [f"s{index}" for index in range(self.subscriptions)]

    @property
    def span_ms(self) -> int:
        """Within so long they come due."""
        return self.messages * 1000 // DUE_RATE


def due_times(size: Size, start_ms: int) -> Iterator[int]:
    """When each message is due, in the order of publishing."""
    chance = random.Random(1)
    span_ms = size.span_ms
    for place in range(size.messages):
        if size.times == "random":
            yield start_ms + chance.randrange(span_ms)
        else:
            yield start_ms + place * span_ms // size.messages


def publish_delayed(address: Any, topic: str, size: Size, start_ms: int) -> float:
    """Publish all; messages a second."""
    return publish(address, topic, due_times(size, start_ms))


def publish_plain(address: Any, topic: str, messages: int) -> float:
    """Publish messages without delay; messages a second."""
    return publish(address, topic, (0 for _ in range(messages)))


class Watched:
    """A broker, and the most memory that it had."""

    def __init__(self, broker: Arneb, pool: ProcessPoolExecutor) -> None:
        self.broker = broker
        self._pool = pool
        self.resident = self.anonymous = 0

    def look(self) -> None:
        memory = self.broker.memory()
        self.resident = max(self.resident, memory.resident)
        self.anonymous = max(self.anonymous, memory.anonymous)

    def forget(self) -> None:
        """Begin anew with the most."""
        self.resident = self.anonymous = 0
        self.look()

    def cpu_s(self) -> float:
        """What the broker's process has computed."""
        fields = Path(f"/proc/{self.broker.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run(self, job: Callable[..., float], *arguments: Any) -> float:
        """Do ``job`` in another process and look at the broker's memory meanwhile."""
        future: Future[float] = self._pool.submit(job, *arguments)
        while not future.done():
            self.look()
            time.sleep(LOOK_S)
        self.look()
        return future.result()


def index_bytes(data: Path) -> int:
    """The delayed index on disk: keys and values."""
    with open_snapshot_environment(data) as environment, environment.snapshot() as snapshot:
        rows = snapshot.scan(Table.DELAYED)
        return sum(len(key) + len(value) for key, value in rows)


def measure(size: Size, watched: Watched, say: Callable[[str, float], None]) -> None:
    """One run, start to end."""
    broker = watched.broker
    address = broker.pulsar_address
    for topic in ("plain", "delayed"):
        watched.run(_subscribe, address, PREFIX + topic, size.names)
    watched.forget()
    resident, anonymous = watched.resident, watched.anonymous

    def grown(when: str) -> None:
        say(f"memory {when}, resident, MiB more", (watched.resident - resident) / MIB)
        say(f"memory {when}, not of files, MiB more", (watched.anonymous - anonymous) / MIB)

    say("memory at rest, resident, MiB", resident / MIB)
    rate = watched.run(publish_plain, address, PREFIX + "plain", size.part)
    say("publish undelayed, msg/s", rate)
    arguments = (size.names, size.part, WITHIN_S)
    before_s = watched.cpu_s()
    undelayed = watched.run(drain, address, PREFIX + "plain", *arguments)
    say("drain undelayed, deliveries/s", undelayed)
    deliveries = size.part * size.subscriptions
    say("drain undelayed, broker's µs a delivery", (watched.cpu_s() - before_s) * 1e6 / deliveries)
    grown("undelayed, most")
    watched.forget()
    fill_s = ROOM_S + ROOM_FACTOR * size.messages / rate
    start_ms = int((time.time() + fill_s) * 1000)
    rate = watched.run(publish_delayed, address, PREFIX + "delayed", size, start_ms)
    say("publish delayed, msg/s", rate)
    early_s = start_ms / 1000 - time.time()
    if early_s < 0:
        raise SystemExit(f"publishing took {-early_s:.0f} s longer than there was time")
    grown("while published delayed, most")
    time.sleep(2)  # merges of the index
    watched.forget()
    grown("when all wait")
    say("index on disk, bytes a message", index_bytes(broker.data) / size.messages)
    arguments = (size.names, size.part, early_s + WITHIN_S)
    before_s = watched.cpu_s()
    delayed = watched.run(drain, address, PREFIX + "delayed", *arguments)
    say("drain delayed, deliveries/s", delayed)
    say("drain delayed, broker's µs a delivery", (watched.cpu_s() - before_s) * 1e6 / deliveries)
    say("drain delayed by undelayed", delayed / undelayed)
    grown("while they come due, most")
    say("store, MiB", sum(each.stat().st_size for each in broker.data.iterdir()) / MIB)
    broker.kill()
    began = time.perf_counter()
    broker.start()
    say("start with what is left, s", time.perf_counter() - began)
    watched.forget()
    grown("after that start")


def _subscribe(address: Any, topic: str, names: Sequence[str]) -> float:
    make_subscriptions(address, topic, names)
    return 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything could be measured; the figures decide nothing."""
    parser = argparse.ArgumentParser(prog="bench.delayed", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS)
    parser.add_argument("--part", type=int, help="drained of each topic; a tenth")
    parser.add_argument("--times", choices=["even", "random"], default="even")
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    part = options.part or options.messages // PART
    size = Size(options.messages, options.subscriptions, part, options.times)
    found: Figures = {}

    def say(name: str, value: float) -> None:
        found[name] = value
        print(f"{name}: {number(value)}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="arneb-delayed-") as place,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        broker = Arneb(Path(place), listeners=["pulsar"])
        try:
            broker.start()
            measure(size, Watched(broker, pool), say)
        finally:
            broker.kill()
    if not options.no_write:
        print(f"written to {_write(size, found)}")
    return 0


def _write(size: Size, found: Figures) -> Path:
    path = RESULTS / f"delayed-{stamp()}.md"
    facts = machine()
    listed = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    rows = "\n".join(f"| {name} | {number(value)} |" for name, value in found.items())
    path.write_text(
        f"# {size.messages:,} delayed messages, {size.subscriptions} subscriptions\n\n{listed}\n\n"
        f"Times: {size.times}, within {size.span_ms / 1000:.0f} s. Bodies of {BODY_BYTES} bytes,"
        f" unbatched. Drained, with and without delay: {size.part:,} messages by each"
        " subscription, not all of them.\n"
        f"\n| | |\n|---|---|\n{rows}\n"
    )
    record = {
        "machine": facts,
        "messages": size.messages,
        "subscriptions": size.subscriptions,
        "part": size.part,
        "times": size.times,
        "figures": found,
    }
    path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    index()
    return path


if __name__ == "__main__":
    sys.exit(main())
