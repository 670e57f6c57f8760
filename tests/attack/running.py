"""An attack: a broker, its canaries, the hostile clients of one listener, and the measurements.

The rule: measurements are compared with named bounds, and printed whether the bounds hold or not.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, Final, Self

import pika
from tests.attack import timed
from tests.attack.amqp import LARGE_QUEUE
from tests.attack.hostile import CONNECTIONS

from arneb.control.serving import LIMITS as CONTROL_LIMITS
from arneb.demo.process import READY
from arneb.http.server.pages import PAGES_MAX
from arneb.settings.http_limits import DEFAULT_LIMITS
from arneb_amqp.config import AmqpConfig
from arneb_core.store.directory.directory import CONTROL_NAME
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.transactions.open_transaction import HELD_BYTES_MAX

MIB: Final = 1024 * 1024

QUEUES: Final = 3000
LARGE_MESSAGES: Final = 50

CANARY_P99_S: Final = 0.25
CANARY_WORST_S: Final = 1.0
TURN_P999_MS: Final = 10.0
"""On a processor as fast as :data:`COUNTING_MS` says. The work of a turn is limited by counting, so
on a slower processor each turn takes longer, and the bound grows with it."""

COUNTED: Final = 300_000
COUNTING_MS: Final = 11.0
"""How long Python took to count that far on the processor on which the bound was set. Derived: a
machine on which a broker's messages took twice the CPU time counted in 19 to 22 ms."""

TURN_WORST_MS: Final = 50.0

OTHERS_SHARE_MAX: Final = 0.2
"""The share of the machine's processors that other programs may take. Beside more than that, a late
canary says nothing about the broker."""

MEMORY_MIB: Final = 256
"""How much memory any attack may cost above the idle level and the bounds below."""

PAGE_MIB: Final = 8
"""One page of figures for that many queues."""

TRANSACTION_MIB: Final = 16
"""A setting that limits messages and transactions per AMQP connection; with its default, ten
connections could use gigabytes."""

BOUNDS_MIB: Final[Mapping[str, float]] = {
    "amqp": CONNECTIONS * (AmqpConfig().outbox_bytes_max / MIB + TRANSACTION_MIB),
    "pulsar": (CONNECTIONS * PulsarConfig().outbox_bytes_max + HELD_BYTES_MAX) / MIB,
    "http": DEFAULT_LIMITS.held_bytes_max / MIB + 2 * PAGES_MAX * PAGE_MIB,
    "http-pulsar": DEFAULT_LIMITS.held_bytes_max / MIB + PAGES_MAX * PAGE_MIB,
    "control": CONTROL_LIMITS.held_bytes_max / MIB,
}
"""The memory that the settings of each listener allow for that many connections."""

CONTROL: Final = "control"
"""The control socket in the data directory."""

LISTENERS: Final = tuple(each for each in BOUNDS_MIB if each != CONTROL)

MANAGEMENT: Final = "http-management"
"""The management API, used by somebody who knows a password. It is on the port of ``http``."""

ATTACKED: Final = (*LISTENERS, MANAGEMENT, CONTROL)

JSON: Final[Mapping[str, str]] = {"content-type": "application/json"}
CROWD: Final = "crowd"
"""The theme of very many clients who say little: :mod:`tests.attack.crowd`."""

CROWDED: Final = ("http", "http-pulsar", CONTROL)
"""The listeners that are attacked by crowds."""


class AttackedBroker:
    """A broker process with all listeners open, whose turns are measured."""

    def __init__(self, data_dir: Path) -> None:
        options = [f"--{listener}=127.0.0.1:0" for listener in LISTENERS]
        settings = data_dir.with_suffix(".toml")
        most = TRANSACTION_MIB * MIB
        settings.write_text(f"[amqp]\nmessage_bytes_max = {most}\ntransaction_bytes_max = {most}\n")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "arneb", "serve", f"--config={settings}",
             f"--data-dir={data_dir}", "--watch-turns", *options],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.ports: dict[str, int] = {}
        self._socket = data_dir / CONTROL_NAME
        assert self._process.stdout is not None
        while len(self.ports) < len(LISTENERS):
            line = self._process.stdout.readline()
            assert line, "the broker ended before it was ready"
            if match := READY.match(line):
                self.ports[match[1]] = int(match[3])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def address(self, listener: str) -> str:
        """The listener's port, or the path of a socket."""
        return str(self._socket if listener == CONTROL else self.ports[listener])

    def pause(self) -> None:
        """Stop the process with SIGSTOP, so that whatever arrives accumulates in the kernel."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Undo :meth:`pause`."""
        self._process.send_signal(signal.SIGCONT)

    def cpu_s(self) -> float:
        """The CPU seconds that the broker has used."""
        figures = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(figures[11]) + int(figures[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        """The anonymous memory, which the kernel cannot reclaim."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("expected RssAnon")

    def turns(self) -> dict[str, Any]:
        """The watchdog's counts so far."""
        url = f"http://127.0.0.1:{self.ports['http']}/api/turns"
        proof = f"Basic {b64encode(b'guest:guest').decode()}"
        request = urllib.request.Request(url, headers={"authorization": proof})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def deduplicate(self, namespace: str) -> None:
        """Create a Pulsar namespace with deduplication."""
        url = f"http://127.0.0.1:{self.ports['http-pulsar']}/admin/v2/namespaces/{namespace}"
        for method, path, body in (("PUT", "", b"{}"), ("POST", "/deduplication", b"true")):
            asked = urllib.request.Request(url + path, body, JSON, method=method)
            with urllib.request.urlopen(asked, timeout=30) as answer:
                assert answer.status == 204

    def fill(self) -> None:
        """Create many queues, to be listed, and a queue with messages of one MiB."""
        parameters = pika.ConnectionParameters("127.0.0.1", self.ports["amqp"])
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        for number in range(QUEUES):
            channel.queue_declare(f"a-queue-with-a-rather-long-name-{number:05}")
        channel.queue_declare(LARGE_QUEUE, durable=True)
        channel.confirm_delivery()
        for _ in range(LARGE_MESSAGES):
            channel.basic_publish("", LARGE_QUEUE, bytes(MIB))
        connection.close()


@dataclass
class Findings:
    """The results of one attack."""

    listener: str
    theme: str
    seconds: float
    idle_mib: float
    peak_mib: float = 0.0
    canary: dict[str, list[float]] = field(default_factory=dict)
    turn_p999_ms: float = 0.0
    turn_worst_ms: float = 0.0
    slowness: float = 1.0
    """How many times longer this processor takes to count than the reference; at least 1."""
    others_share: float = 0.0
    """The share of the machine that unrelated programs used meanwhile."""
    cpu_share: float = 0.0
    """The CPU load of the broker meanwhile, as a share of one processor."""
    collections: int = 0
    """Full garbage collections."""
    long_turns: int = 0
    """Turns longer than the bound."""
    culprits: list[str] = field(default_factory=list)

    @property
    def memory_bound_mib(self) -> float:
        return self.idle_mib + MEMORY_MIB + BOUNDS_MIB[listening(self.listener)]

    @property
    def turn_p999_bound_ms(self) -> float:
        return TURN_P999_MS * self.slowness

    def report(self) -> str:
        lines = [
            f"{self.listener} {self.theme} for {self.seconds:g} s",
            f"other programs took {self.others_share:.0%} of the machine",
            f"the broker took {self.cpu_share:.0%} of a processor",
            f"memory: {self.idle_mib:.0f} MiB idle, {_shown(self.peak_mib, self.memory_bound_mib)}",
            f"the processor is {self.slowness:.2f} times as slow as the bounds are for",
            f"turns: p99.9 {_shown(self.turn_p999_ms, self.turn_p999_bound_ms)} ms",
            f"turns: worst {_shown(self.turn_worst_ms, TURN_WORST_MS)} ms",
            f"turns beyond that: {self.long_turns}, full garbage collections: {self.collections}",
        ]
        for listener, times in self.canary.items():
            lines.append(
                f"canary {listener}: {len(times)} answers, p99 "
                f"{_shown(1000 * p99(times), 1000 * CANARY_P99_S)} ms, worst "
                f"{_shown(1000 * max(times), 1000 * CANARY_WORST_S)} ms"
            )
        return "\n  ".join([*lines, *(f"long turn: {each}" for each in self.culprits)])

    @property
    def broken(self) -> list[str]:
        """The names of the bounds that do not hold."""
        found = []
        if self.peak_mib > self.memory_bound_mib:
            found.append("memory")
        if self.turn_p999_ms > self.turn_p999_bound_ms:
            found.append("turns p99.9")
        if self.turn_worst_ms > TURN_WORST_MS:
            found.append("worst turn")
        return found + self.late

    @property
    def late(self) -> list[str]:
        """The canaries that had to wait too long."""
        found = []
        for listener, times in self.canary.items():
            if p99(times) > CANARY_P99_S:
                found.append(f"p99 of the canary at {listener}")
            if max(times) > CANARY_WORST_S:
                found.append(f"worst answer to the canary at {listener}")
        return found

    @property
    def says_nothing(self) -> bool:
        """Whether only canaries were late and other programs kept the machine busy."""
        only_late = bool(self.late) and self.broken == self.late
        return only_late and self.others_share > OTHERS_SHARE_MAX


def listening(attacked: str) -> str:
    """The listener whose port is attacked."""
    return "http" if attacked == MANAGEMENT else attacked


def _shown(value: float, bound: float) -> str:
    return f"{value:.1f} (bound {bound:g})"


def p99(times: Sequence[float]) -> float:
    return sorted(times)[max(0, -(-len(times) * 99 // 100) - 1)]


def attack(
    broker: AttackedBroker, listener: str, seconds: float, seed: int, theme: str = ""
) -> Findings:
    """Attack one listener while the canaries of all listeners run."""
    found = Findings(listener, theme, seconds, broker.memory_mib(), slowness=_slowness())
    before, busy = broker.turns(), _busy_s() - _ours_s(broker)
    began, cpu_s = time.monotonic(), broker.cpu_s()
    watching = [sys.executable, "-m", "tests.attack.canary", json.dumps(broker.ports), str(seconds)]
    address = broker.address(listening(listener))
    if theme == CROWD:
        hostile = [sys.executable, "-m", "tests.attack.crowd", address, str(seconds), str(seed)]
    elif theme in timed.THEMES:
        hostile = [sys.executable, "-m", "tests.attack.timed", theme, address, str(seconds)]
    else:
        hostile = [sys.executable, "-m", "tests.attack.hostile", listener, address, str(seconds),
                   str(seed), *([theme] if theme else [])]  # fmt: skip
    with _sampling(broker, found):
        canary = subprocess.Popen(watching, stdout=subprocess.PIPE, text=True)
        peer = subprocess.Popen(hostile, stdout=subprocess.PIPE, text=True)
        output = canary.communicate(timeout=seconds + 120)[0]
        print(peer.communicate(timeout=seconds + 120)[0].strip())
    assert canary.returncode == peer.returncode == 0
    assert broker.is_alive
    found.canary = json.loads(output)
    found.cpu_share = (broker.cpu_s() - cpu_s) / (time.monotonic() - began)
    elapsed_s = (time.monotonic() - began) * (os.cpu_count() or 1)
    found.others_share = max(0.0, _busy_s() - _ours_s(broker) - busy) / elapsed_s
    _compare(before, broker.turns(), found)
    return found


def _slowness() -> float:
    """How much slower than the reference this processor is, from the fastest of some attempts,
    because other programs disturb its caches from time to time."""
    took_s = []
    for _ in range(5):
        began, number = time.thread_time(), 0
        for each in range(COUNTED):
            number += each & 7
        took_s.append(time.thread_time() - began)
    return max(1.0, 1000 * min(took_s) / COUNTING_MS)


def _busy_s() -> float:
    """CPU seconds used by all programs since the machine started."""
    user, nice, system, _, _, *interrupts = (
        Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return sum(map(int, (user, nice, system, *interrupts[:3]))) / os.sysconf("SC_CLK_TCK")


def _ours_s(broker: AttackedBroker) -> float:
    """The part of it used by the broker, the canaries, the hostile clients and us."""
    children, own = (getrusage(who) for who in (RUSAGE_CHILDREN, RUSAGE_SELF))
    return broker.cpu_s() + sum(each.ru_utime + each.ru_stime for each in (children, own))


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], found: Findings) -> None:
    """Evaluate the turns since ``before``: the counts are those of the histogram's classes."""
    bounds = [*after["bounds_ms"], float("inf")]
    pairs = zip(after["turns_by_bound"], before["turns_by_bound"], strict=True)
    counts = [late - early for late, early in pairs]
    wanted, seen = 0.999 * sum(counts), 0
    for shorter, bound, count in zip([0.0, *bounds], bounds, counts, strict=False):
        seen += count
        if shorter >= TURN_WORST_MS:
            found.long_turns += count
        if count:
            found.turn_worst_ms = bound
        if not found.turn_p999_ms and seen >= wanted:
            found.turn_p999_ms = bound
    # The longest turn is known exactly if it happened during this attack.
    if after["turns"]["worst_ms"] > before["turns"]["worst_ms"]:
        found.turn_worst_ms = after["turns"]["worst_ms"]
    found.collections = int(after["collections"][-1]["total"] - before["collections"][-1]["total"])
    earlier = {(each["task"], each["place"]): each["worst_ms"] for each in before["culprits"]}
    for each in sorted(after["culprits"], key=lambda each: -each["worst_ms"])[:10]:
        if each["worst_ms"] > earlier.get((each["task"], each["place"]), 0.0):
            found.culprits.append(f"{each['worst_ms']:.0f} ms {each['task']} at {each['place']}")


@contextmanager
def _sampling(broker: AttackedBroker, found: Findings) -> Iterator[None]:
    """Sample the broker's memory while the block runs."""
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.02):
            found.peak_mib = max(found.peak_mib, broker.memory_mib())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def settle(broker: AttackedBroker) -> None:
    """Give the broker time to release what the last attack left behind."""
    time.sleep(1.0)
    broker.turns()
