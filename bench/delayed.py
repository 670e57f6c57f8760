"""Measures delayed messages at scale: one topic, several subscriptions, millions of waiting
messages.

``python -m bench.delayed`` starts a broker on an empty directory and, in each round,

1. publishes messages without a delay, and drains a part of them on all subscriptions,
2. does the same with the broker of :data:`THEN`, whose rates without delays are the reference,
3. publishes all messages to another topic, each with a delivery time,
4. drains a part of those, on all subscriptions, from the moment when the first is due,
5. does the same with delivery times that are not in the order of publishing,
6. kills the broker and starts it again on what is left.

Then it measures AMQP's delayed exchange in a similar way (:mod:`bench.delayed_amqp`). The figures
are the medians of all rounds, each of which has brokers of its own. The memory of the broker's
process is sampled all the time, so its peaks are in the figures.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.delayed_amqp import AMQP_MESSAGES, AMQP_ROUNDS, measure_amqp
from bench.older import export
from bench.pulsar_load import BODY_BYTES, drain, make_subscriptions, publish
from bench.report import RESULTS, index, machine, number, stamp
from conformance.brokers.arneb import Arneb

from arneb_core.store.format.schema import Table
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

MESSAGES: Final = 10_000_000
SUBSCRIPTIONS: Final = 10
PART: Final = 10
"""One in this many messages is drained."""

DUE_RATE: Final = 200_000
"""How many messages become due per second, each on all subscriptions: more than can be drained."""

UNDELAYED_MAX: Final = 1_000_000
"""How many messages are published without a delay, unless fewer are published with one."""

THEN: Final = "285e4629"
"""The commit whose rates without delays defined the targets for delayed messages: the last one
before the work on them (2026-11-22)."""

ROOM_S: Final = 5
ROOM_FACTOR: Final = 3
"""How many times longer than expected the publishing may take before the first message is due."""

CHECK_INTERVAL_S: Final = 0.1
WITHIN_S: Final = 120.0
MIB: Final = 1024 * 1024
PREFIX: Final = "persistent://public/default/"

Figures = dict[str, float]


class Times(Enum):
    """The order of delivery times of consecutive messages."""

    EVEN = "even"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a measurement."""

    messages: int
    subscriptions: int
    part: int
    times: Sequence[Times]

    @property
    def names(self) -> list[str]:
        """The names of the subscriptions."""
        return [f"s{index}" for index in range(self.subscriptions)]

    @property
    def span_ms(self) -> int:
        """The time within which all messages become due, in milliseconds."""
        return self.messages * 1000 // DUE_RATE


def due_times(size: Size, times: Times, start_ms: int) -> Iterator[int]:
    """The delivery time of each message in milliseconds, in the order of publishing."""
    chance = random.Random(1)
    span_ms = size.span_ms
    for place in range(size.messages):
        if times is Times.RANDOM:
            yield start_ms + int(chance.random() * span_ms)
        else:
            yield start_ms + place * span_ms // size.messages


def publish_delayed(address: Any, topic: str, size: Size, times: Times, start_ms: int) -> float:
    """Publish all messages; the result is messages per second."""
    return publish(address, topic, due_times(size, times, start_ms))


def publish_plain(address: Any, topic: str, messages: int) -> float:
    """Publish messages without a delay; the result is messages per second."""
    return publish(address, topic, (0 for _ in range(messages)))


@dataclass(frozen=True, slots=True)
class Cost:
    """What something cost."""

    rate: float
    """How many per second."""
    cpu_us: float
    """CPU time of the broker's process for each, in microseconds."""


class Watched:
    """A broker and its peak memory."""

    def __init__(self, broker: Arneb, pool: ProcessPoolExecutor) -> None:
        self.broker = broker
        self._pool = pool
        self.resident = self.anonymous = 0

    def look(self) -> None:
        memory = self.broker.memory()
        self.resident = max(self.resident, memory.resident)
        self.anonymous = max(self.anonymous, memory.anonymous)

    def forget(self) -> None:
        """Reset the peaks."""
        self.resident = self.anonymous = 0
        self.look()

    def run(self, job: Callable[..., float], *arguments: Any) -> float:
        """Run ``job`` in another process and sample the broker's memory meanwhile."""
        future: Future[float] = self._pool.submit(job, *arguments)
        while not future.done():
            self.look()
            time.sleep(CHECK_INTERVAL_S)
        self.look()
        return future.result()

    def timed(self, count: int, job: Callable[..., float], *arguments: Any) -> Cost:
        """Run a job that returns a rate and processes ``count`` messages in all; the result is its
        cost."""
        before_s = self.broker.cpu_s()
        rate = self.run(job, *arguments)
        return Cost(rate, (self.broker.cpu_s() - before_s) * 1e6 / count)


def index_bytes(data: Path) -> int:
    """The size of the delayed index on disk: keys and values."""
    with open_snapshot_environment(data) as environment, environment.snapshot() as snapshot:
        rows = snapshot.scan(Table.DELAYED)
        return sum(len(key) + len(value) for key, value in rows)


Undelayed = dict[str, tuple[Cost, Cost]]
"""The cost of publishing and of draining without a delay, by version of the code."""


@dataclass(slots=True)
class Measuring:
    """One round, from start to end."""

    size: Size
    watched: Watched
    then: Watched | None
    """The broker of :data:`THEN`, if that is measured too."""
    say: Callable[[str, float], None]
    resident: int = 0
    anonymous: int = 0

    def run(self) -> None:
        """Take all measurements."""
        size, watched, broker = self.size, self.watched, self.watched.broker
        for topic in ("plain", *(each.value for each in size.times)):
            watched.run(_subscribe, broker.pulsar_address, PREFIX + topic, size.names)
        watched.forget()
        self.resident, self.anonymous = watched.resident, watched.anonymous
        self.say("memory at rest, resident, MiB", self.resident / MIB)
        undelayed: Undelayed = {}
        if self.then is not None:
            address = self.then.broker.pulsar_address
            self.then.run(_subscribe, address, PREFIX + "plain", size.names)
            undelayed["undelayed then"] = self._undelayed(self.then)
        undelayed["undelayed"] = self._undelayed(watched)
        for whose, (published, drained) in undelayed.items():
            self._cost(f"publish {whose}", published)
            self._cost(f"drain {whose}", drained)
        self._grown("undelayed, most")
        for times in size.times:
            self._delayed(times, undelayed)
        stored = sum(each.stat().st_size for each in broker.data.iterdir())
        self.say("store, MiB", stored / MIB)
        broker.kill()
        began = time.perf_counter()
        broker.start()
        self.say("start with what is left, s", time.perf_counter() - began)
        watched.forget()
        self._grown("after that start")

    def _undelayed(self, watched: Watched) -> tuple[Cost, Cost]:
        count, address = min(self.size.messages, UNDELAYED_MAX), watched.broker.pulsar_address
        published = watched.timed(count, publish_plain, address, PREFIX + "plain", count)
        return published, self._drain(watched, "plain", WITHIN_S)

    def _delayed(self, times: Times, undelayed: Undelayed) -> None:
        size, watched, broker, name = self.size, self.watched, self.watched.broker, times.value
        watched.forget()
        held = index_bytes(broker.data)
        fill_s = ROOM_S + ROOM_FACTOR * size.messages / undelayed["undelayed"][0].rate
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
        compared = {whose: costs[0] for whose, costs in undelayed.items()}
        self._cost(f"publish delayed, {name}", cost, compared)
        self._grown(f"while published delayed, {name}, most")
        time.sleep(2)  # until the merges of the index are done
        watched.forget()
        self._grown(f"when all wait, {name}")
        on_disk = index_bytes(broker.data) - held
        self.say(f"index on disk, {name}, bytes a message", on_disk / size.messages)
        cost = self._drain(watched, name, early_s + WITHIN_S)
        compared = {whose: costs[1] for whose, costs in undelayed.items()}
        self._cost(f"drain delayed, {name}", cost, compared)
        self._grown(f"while they come due, {name}, most")

    def _drain(self, watched: Watched, topic: str, within_s: float) -> Cost:
        size = self.size
        arguments = watched.broker.pulsar_address, PREFIX + topic, size.names, size.part
        return watched.timed(size.part * size.subscriptions, drain, *arguments, within_s)

    def _cost(self, what: str, cost: Cost, undelayed: dict[str, Cost] | None = None) -> None:
        self.say(f"{what}, a second", cost.rate)
        self.say(f"{what}, broker's µs each", cost.cpu_us)
        for whose, other in (undelayed or {}).items():
            self.say(f"{what}, rate by {whose}", cost.rate / other.rate)
            self.say(f"{what}, µs of {whose} by its", other.cpu_us / cost.cpu_us)

    def _grown(self, when: str) -> None:
        watched, say = self.watched, self.say
        say(f"memory {when}, resident, MiB more", (watched.resident - self.resident) / MIB)
        say(f"memory {when}, not of files, MiB more", (watched.anonymous - self.anonymous) / MIB)


def _subscribe(address: Any, topic: str, names: Sequence[str]) -> float:
    make_subscriptions(address, topic, names)
    return 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 0 if everything could be measured, whatever the
    figures."""
    parser = argparse.ArgumentParser(prog="bench.delayed", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS)
    parser.add_argument(
        "--part", type=int, help="how many to drain of each topic; default: a tenth"
    )
    parser.add_argument("--rounds", type=int, default=1, help="of the part with Pulsar's protocol")
    parser.add_argument("--times", choices=[each.value for each in Times], help="both")
    parser.add_argument("--protocol", choices=["pulsar", "amqp"], help="both")
    parser.add_argument("--then", default=THEN, help="a commit to compare with; empty: none")
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    part = options.part or options.messages // PART
    times = [each for each in Times if options.times in (None, each.value)]
    size = Size(options.messages, options.subscriptions, part, times)
    found: dict[str, list[float]] = {}

    def say(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)
        print(f"{name}: {number(value)}", flush=True)

    with tempfile.TemporaryDirectory(prefix="arneb-delayed-") as place:
        then = export(options.then, Path(place, "then")) if options.then else None
        if options.protocol != "amqp":
            for number_of in range(options.rounds):
                _round(Path(place, f"round-{number_of}"), size, then, say)
        if options.protocol != "pulsar":
            measure_amqp(say, then)
    if not options.no_write:
        figures = {name: median(values) for name, values in found.items()}
        print(f"written to {_write(size, options.rounds, options.then, figures)}")
    return 0


def _round(place: Path, size: Size, then: Path | None, say: Callable[[str, float], None]) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, ExitStack() as running:

        def watched(broker: Arneb) -> Watched:
            running.callback(broker.kill)
            return Watched(broker.start(), pool)

        own = watched(Arneb(place / "own", listeners=["pulsar"]))
        older = None
        if then is not None:
            older = watched(Arneb(place / "then", listeners=["pulsar"], checkout=then))
        Measuring(size, own, older, say).run()


def _write(size: Size, rounds: int, then: str, found: Figures) -> Path:
    path = RESULTS / f"delayed-{stamp()}.md"
    facts = machine()
    listed = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    rows = "\n".join(f"| {name} | {number(value)} |" for name, value in found.items())
    times = " and ".join(each.value for each in size.times)
    path.write_text(
        f"# {size.messages:,} delayed messages, {size.subscriptions} subscriptions\n\n{listed}\n\n"
        f"Times: {times}, within {size.span_ms / 1000:.0f} s. Bodies of {BODY_BYTES} bytes,"
        f" unbatched. Drained, with and without delay: {size.part:,} messages by each"
        f" subscription, not all of them. Medians of {rounds} rounds; AMQP's rows: of"
        f" {AMQP_ROUNDS} rounds of {AMQP_MESSAGES:,} messages. Then: the code of {then}, measured"
        " in the same rounds.\n"
        f"\n| | |\n|---|---|\n{rows}\n"
    )
    record = {
        "machine": facts,
        "rounds": rounds,
        "then": then,
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
