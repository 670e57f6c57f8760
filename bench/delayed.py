"""Measures delayed messages at scale: one topic, several subscriptions, millions that wait.

``python -m bench.delayed`` starts a broker on an empty directory and, in one run,

1. publishes a part of the messages without a delay, and drains them on all subscriptions,
2. publishes all messages to another topic, each with a time at which it is due,
3. drains as many of those, on as many subscriptions, from the moment when the first is due,
4. does the same with times that are not in the order of publishing,
5. kills the broker and starts it again on what is left,
6. on another broker, measures what AMQP's delayed exchange does (:mod:`bench.delayed_amqp`).

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
from enum import Enum
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from bench.delayed_amqp import AMQP_MESSAGES, AMQP_ROUNDS, measure_amqp
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


class Times(Enum):
    """When what is published one after the other comes due."""

    EVEN = "even"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Size:
    """What is measured with."""

    messages: int
    subscriptions: int
    part: int
    times: Sequence[Times]

    @property
    def names(self) -> list[str]:
        """Of the subscriptions."""
        return [f"s{index}" for index in range(self.subscriptions)]

    @property
    def span_ms(self) -> int:
        """Within so long they come due."""
        return self.messages * 1000 // DUE_RATE


def due_times(size: Size, times: Times, start_ms: int) -> Iterator[int]:
    """When each message is due, in the order of publishing."""
    chance = random.Random(1)
    span_ms = size.span_ms
    for place in range(size.messages):
        if times is Times.RANDOM:
            yield start_ms + int(chance.random() * span_ms)
        else:
            yield start_ms + place * span_ms // size.messages


def publish_delayed(address: Any, topic: str, size: Size, times: Times, start_ms: int) -> float:
    """Publish all; messages a second."""
    return publish(address, topic, due_times(size, times, start_ms))


def publish_plain(address: Any, topic: str, messages: int) -> float:
    """Publish messages without delay; messages a second."""
    return publish(address, topic, (0 for _ in range(messages)))


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took."""

    rate: float
    """So many a second."""
    cpu_us: float
    """Of the broker's process, for each."""


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

    def timed(self, count: int, job: Callable[..., float], *arguments: Any) -> Cost:
        """The same, of a job that says how many it did in a second, ``count`` in all."""
        before_s = self.cpu_s()
        rate = self.run(job, *arguments)
        return Cost(rate, (self.cpu_s() - before_s) * 1e6 / count)


def index_bytes(data: Path) -> int:
    """The delayed index on disk: keys and values."""
    with open_snapshot_environment(data) as environment, environment.snapshot() as snapshot:
        rows = snapshot.scan(Table.DELAYED)
        return sum(len(key) + len(value) for key, value in rows)


@dataclass(slots=True)
class Measuring:
    """One run, start to end."""

    size: Size
    watched: Watched
    say: Callable[[str, float], None]
    resident: int = 0
    anonymous: int = 0

    def run(self) -> None:
        """Measure all of it."""
        size, watched, broker = self.size, self.watched, self.watched.broker
        for topic in ("plain", *(each.value for each in size.times)):
            watched.run(_subscribe, broker.pulsar_address, PREFIX + topic, size.names)
        watched.forget()
        self.resident, self.anonymous = watched.resident, watched.anonymous
        self.say("memory at rest, resident, MiB", self.resident / MIB)
        published = watched.timed(
            size.part, publish_plain, broker.pulsar_address, PREFIX + "plain", size.part
        )
        self._cost("publish undelayed", published)
        drained = self._drain("plain", WITHIN_S)
        self._cost("drain undelayed", drained)
        self._grown("undelayed, most")
        for times in size.times:
            self._delayed(times, published, drained)
        stored = sum(each.stat().st_size for each in broker.data.iterdir())
        self.say("store, MiB", stored / MIB)
        broker.kill()
        began = time.perf_counter()
        broker.start()
        self.say("start with what is left, s", time.perf_counter() - began)
        watched.forget()
        self._grown("after that start")

    def _delayed(self, times: Times, published: Cost, drained: Cost) -> None:
        size, watched, broker, name = self.size, self.watched, self.watched.broker, times.value
        watched.forget()
        held = index_bytes(broker.data)
        fill_s = ROOM_S + ROOM_FACTOR * size.messages / published.rate
        start_ms = int((time.time() + fill_s) * 1000)
        cost = watched.timed(
            size.messages,
            publish_delayed,
            broker.pulsar_address,
            PREFIX + name,
            size,
            times,
            start_ms,
        )
        early_s = start_ms / 1000 - time.time()
        if early_s < 0:
            raise SystemExit(f"publishing took {-early_s:.0f} s longer than there was time")
        self._cost(f"publish delayed, {name}", cost, published)
        self._grown(f"while published delayed, {name}, most")
        time.sleep(2)  # merges of the index
        watched.forget()
        self._grown(f"when all wait, {name}")
        on_disk = index_bytes(broker.data) - held
        self.say(f"index on disk, {name}, bytes a message", on_disk / size.messages)
        cost = self._drain(name, early_s + WITHIN_S)
        self._cost(f"drain delayed, {name}", cost, drained)
        self._grown(f"while they come due, {name}, most")

    def _drain(self, topic: str, within_s: float) -> Cost:
        size = self.size
        arguments = self.watched.broker.pulsar_address, PREFIX + topic, size.names, size.part
        return self.watched.timed(size.part * size.subscriptions, drain, *arguments, within_s)

    def _cost(self, what: str, cost: Cost, undelayed: Cost | None = None) -> None:
        self.say(f"{what}, a second", cost.rate)
        self.say(f"{what}, broker's µs each", cost.cpu_us)
        if undelayed is not None:
            self.say(f"{what}, rate by undelayed", cost.rate / undelayed.rate)
            self.say(f"{what}, undelayed's µs by its", undelayed.cpu_us / cost.cpu_us)

    def _grown(self, when: str) -> None:
        watched, say = self.watched, self.say
        say(f"memory {when}, resident, MiB more", (watched.resident - self.resident) / MIB)
        say(f"memory {when}, not of files, MiB more", (watched.anonymous - self.anonymous) / MIB)


def _subscribe(address: Any, topic: str, names: Sequence[str]) -> float:
    make_subscriptions(address, topic, names)
    return 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything could be measured; the figures decide nothing."""
    parser = argparse.ArgumentParser(prog="bench.delayed", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS)
    parser.add_argument("--part", type=int, help="drained of each topic; a tenth")
    parser.add_argument("--times", choices=[each.value for each in Times], help="both")
    parser.add_argument("--protocol", choices=["pulsar", "amqp"], help="both")
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    part = options.part or options.messages // PART
    times = [each for each in Times if options.times in (None, each.value)]
    size = Size(options.messages, options.subscriptions, part, times)
    found: Figures = {}

    def say(name: str, value: float) -> None:
        found[name] = value
        print(f"{name}: {number(value)}", flush=True)

    if options.protocol != "amqp":
        with (
            tempfile.TemporaryDirectory(prefix="arneb-delayed-") as place,
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        ):
            broker = Arneb(Path(place), listeners=["pulsar"])
            try:
                broker.start()
                Measuring(size, Watched(broker, pool), say).run()
            finally:
                broker.kill()
    if options.protocol != "pulsar":
        measure_amqp(say)
    if not options.no_write:
        print(f"written to {_write(size, found)}")
    return 0


def _write(size: Size, found: Figures) -> Path:
    path = RESULTS / f"delayed-{stamp()}.md"
    facts = machine()
    listed = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    rows = "\n".join(f"| {name} | {number(value)} |" for name, value in found.items())
    times = " and ".join(each.value for each in size.times)
    path.write_text(
        f"# {size.messages:,} delayed messages, {size.subscriptions} subscriptions\n\n{listed}\n\n"
        f"Times: {times}, within {size.span_ms / 1000:.0f} s. Bodies of {BODY_BYTES} bytes,"
        f" unbatched. Drained, with and without delay: {size.part:,} messages by each"
        " subscription, not all of them. AMQP's rows: medians of"
        f" {AMQP_ROUNDS} rounds of {AMQP_MESSAGES:,} messages.\n"
        f"\n| | |\n|---|---|\n{rows}\n"
    )
    record = {
        "machine": facts,
        "messages": size.messages,
        "subscriptions": size.subscriptions,
        "part": size.part,
        "times": [each.value for each in size.times],
        "figures": found,
    }
    path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    index()
    return path


if __name__ == "__main__":
    sys.exit(main())
