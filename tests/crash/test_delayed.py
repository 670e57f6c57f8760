"""SIGKILL while delayed messages are published, sealed into buckets, merged and become due."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from conformance.brokers.arneb import Arneb, run_arneb
from conformance.wire.pulsar import Entry, PulsarClient, PulsarClosed
from conformance.wire.running import run as run_scenario

from arneb_core.store.format.schema import DelayedKind, Table, parse_delayed_key
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

KILLS = 8
SEED = 20_281
LOAD_S_MIN, LOAD_S_MAX = 0.2, 1.2
BURST = 50
DELAY_MS_MAX = 3_000
FLOW = 200
ACKED_PART = 0.7
LATE_S = 10.0
DELIVER_AT = 19
"""The field of a message's metadata with its delivery time."""

TOPIC = "persistent://public/default/later"
SUBSCRIPTIONS = ("a", "b", "c")
SMALL_BUCKETS = """
[delayed]
seal_entries = 100
segment_entries = 20
segment_ms = 500
buckets_max = 2
bucket_entries_max = 2_000
"""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Subscriber:
    """What one subscription received in all lives of the broker."""

    def __init__(self, name: str, load: "Load", dice: random.Random) -> None:
        self.name = name
        self.seen: set[int] = set()
        self.answered: set[int] = set()
        self.anomalies: list[str] = []
        self._load = load
        self._dice = dice
        self._waiting: list[Entry] = []
        self._here: set[int] = set()
        """What came in the current life of the broker."""
        self._news = asyncio.Event()

    async def consume(self, broker: Arneb) -> None:
        """Receive, and acknowledge most messages with receipts, until the broker is gone."""
        with suppress(PulsarClosed, OSError):
            client = await PulsarClient.open(broker.pulsar_address)
            client.received, client.ended = self._received, self._news.set
            self._waiting.clear()
            self._here.clear()
            await client.subscribe(TOPIC, self.name)
            client.flow(FLOW)
            while client.closed is None:
                await self._news.wait()
                self._news.clear()
                waiting, self._waiting = self._waiting, []
                if waiting:
                    client.flow(len(waiting))
                await self._answer(client, waiting)

    async def _answer(self, client: PulsarClient, entries: Sequence[Entry]) -> None:
        chosen = [each for each in entries if self._dice.random() < ACKED_PART]
        if chosen:
            await client.acknowledge([(each.place, None) for each in chosen])
            self.answered.update(int(each.payload) for each in chosen)

    def _received(self, _: int, entry: Entry) -> None:
        number = int(entry.payload)
        early_ms = self._load.times_ms[number] - now_ms()
        if early_ms > 0:
            self.anomalies.append(f"{self.name}: {number} came {early_ms} ms early")
        if number in self.answered:
            self.anomalies.append(f"{self.name}: {number} came back")
        if number in self._here:
            self.anomalies.append(f"{self.name}: {number} came twice")
        self.seen.add(number)
        self._here.add(number)
        self._waiting.append(entry)
        self._news.set()


class Load:
    """What was published in all lives of the broker."""

    def __init__(self, dice: random.Random) -> None:
        self.times_ms: list[int] = []
        self.confirmed: set[int] = set()
        self._dice = dice

    async def publish(self, broker: Arneb) -> None:
        """Publish, mostly delayed messages, until the broker is gone."""
        with suppress(PulsarClosed, OSError):
            client = await PulsarClient.open(broker.pulsar_address)
            await client.create_producer(TOPIC)
            while True:
                first = len(self.times_ms)
                receipts = [self._send(client) for _ in range(BURST)]
                for number, receipt in enumerate(receipts, first):
                    await receipt
                    self.confirmed.add(number)

    def _send(self, client: PulsarClient) -> asyncio.Future[object]:
        delay_ms = max(0, self._dice.randint(-DELAY_MS_MAX // 10, DELAY_MS_MAX))
        at_ms = now_ms() + delay_ms if delay_ms else 0
        number = len(self.times_ms)
        self.times_ms.append(at_ms)
        metadata = [(DELIVER_AT, at_ms)] if at_ms else []
        return client.send(number, b"%d" % number, metadata=metadata)  # type: ignore[return-value]


def rows_left(broker: Arneb) -> Counter[str]:
    """What the kill left of the delayed index: buckets, and parts of a bucket that was being
    written."""
    with open_snapshot_environment(broker.data) as environment, environment.snapshot() as snapshot:
        keys = [parse_delayed_key(key)[1:3] for key in snapshot.keys(Table.DELAYED, b"")]
    heads = {bucket for bucket, kind in keys if kind is DelayedKind.HEAD}
    parts = {bucket for bucket, kind in keys if kind is DelayedKind.SEGMENT} - heads
    return Counter(buckets=len(heads), unfinished=len(parts))


async def kill_again_and_again(directory: Path, dice: random.Random) -> None:
    broker = Arneb(directory, listeners=("pulsar",), settings=SMALL_BUCKETS)
    load = Load(dice)
    subscribers = [Subscriber(name, load, dice) for name in SUBSCRIPTIONS]
    left: Counter[str] = Counter()
    try:
        for _ in range(KILLS):
            broker.start()
            tasks = [asyncio.create_task(each.consume(broker)) for each in subscribers]
            tasks.append(asyncio.create_task(load.publish(broker)))
            await asyncio.wait(tasks, timeout=dice.uniform(LOAD_S_MIN, LOAD_S_MAX))
            broker.kill()
            await asyncio.gather(*tasks)
            assert not [each.anomalies for each in subscribers if each.anomalies]
            left += rows_left(broker)
            checked = run_arneb("check", str(broker.data))
            assert not checked.returncode, checked.stdout
        broker.start()
        tasks = [asyncio.create_task(each.consume(broker)) for each in subscribers]
        end = time.monotonic() + DELAY_MS_MAX / 1000 + LATE_S
        lost: list[int] = []
        while any(load.confirmed - each.seen for each in subscribers):
            before, lost = lost, [len(load.confirmed - each.seen) for each in subscribers]
            # on a fast disk, more messages are confirmed than delivered in that time
            if lost != before:
                end = max(end, time.monotonic() + LATE_S)
            assert time.monotonic() < end, f"{lost} of {len(load.confirmed)} never came"
            await asyncio.wait(tasks, timeout=0.05)
        broker.kill()
        await asyncio.gather(*tasks)
        assert not [each.anomalies for each in subscribers if each.anomalies]
    finally:
        broker.kill()
    print(f"{len(load.confirmed)} confirmed, {left} found after {KILLS} kills")
    assert left["buckets"] > KILLS, "too few buckets: the run did not test recovery"


def test_nothing_delayed_is_lost_or_early_or_comes_back(tmp_path: Path) -> None:
    run_scenario(kill_again_and_again(tmp_path, random.Random(SEED)))
