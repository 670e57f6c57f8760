"""Kills a broker again and again while workers consume, process and produce in transactions.

Run by the test suite in a short form, or by hand::

    python -m tests.pulsar_client.transaction_soak --kills 100 --seed 7

Workers take tasks, send a result of each to two topics and acknowledge the task, all in one
transaction, some of which they abort, or leave to their time-out. It must hold that each task has
one result in each of the two topics, that these show the same transactions, and that nothing is
left of any task. The broker deduplicates: whoever does not hear whether a message was stored sends
it again, in the same transaction too, and without that it would stand there twice.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from tests.pulsar_client.soak import ArnebVictim, Hands, Victim

from arneb_pulsar.client import (
    Client,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    Message,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.errors import (
    InvalidTransactionStatus,
    PulsarError,
    TimedOut,
    TransactionNotFound,
)
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.transactions import Transaction

WORK: Final = "persistent://public/default/work"
RESULTS: Final = tuple(f"persistent://public/default/results-{which}" for which in "ab")
JUDGE: Final = "judge"
WORKERS: Final = 3
TIMEOUT_S: Final = 3.0
"""Of a transaction that nobody ends."""

DEDUPLICATING: Final = "[pulsar]\ndeduplication = true\n"

TASKS_PER_KILL: Final = 120
QUIET_S: Final = 10.0
"""No task came for so long, so all are done: more than a time-out, also on a busy machine."""

OPTIONS: Final = ClientOptions(operation_timeout_s=10)
SHARED: Final = ConsumerOptions(
    type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST
)
IN_TRANSACTIONS: Final = ProducerOptions(transactions=True, send_timeout_s=0)


class PromiseBroken(AssertionError):
    """What became of the tasks is not what was promised."""


class TransactionSoak:
    """One run."""

    def __init__(self, victim: Victim, seed: int) -> None:
        self._victim = victim
        self._hands = Hands()
        self._seed = seed
        self._dice = random.Random(seed)
        self._tasks = 0
        self._all_sent = anyio.Event()
        self.ended: Counter[str] = Counter()
        """How transactions ended, as far as workers know."""

    def __repr__(self) -> str:
        return f"<TransactionSoak seed {self._seed}, {self._tasks} tasks, {dict(self.ended)}>"

    async def play(self, kills: int) -> str:
        """Kill so often; what was seen. Raises :class:`PromiseBroken`."""
        await self._hands.do(self._victim.start)
        try:
            async with connect(self._victim.pulsar_url, OPTIONS) as client:
                for each in RESULTS:  # kept for the end: what nobody subscribes to goes
                    await (await client.subscribe(each, JUDGE, SHARED)).close()
                async with anyio.create_task_group() as group:
                    group.start_soon(self._give_tasks, client, kills)
                    for number in range(WORKERS):
                        group.start_soon(self._work, client, number)
                    for _ in range(kills):
                        await anyio.sleep(self._dice.uniform(0.1, 1.2))
                        await self._hands.do(partial(self._victim.kill_one, self._dice))
                        await self._hands.do(self._victim.restart)
                return await self._judge(client, kills)
        finally:
            self._victim.end()
            self._hands.rest()

    async def _give_tasks(self, client: Client, kills: int) -> None:
        producer = await client.create_producer(WORK, ProducerOptions(send_timeout_s=0))
        for number in range(TASKS_PER_KILL * kills):
            await producer.send(b"%d" % number)
            self._tasks += 1
        self._all_sent.set()

    async def _work(self, client: Client, number: int) -> None:
        dice = random.Random(f"{self._seed} {number}")
        consumer = await client.subscribe(WORK, "workers", SHARED)
        producers = [await client.create_producer(each, IN_TRANSACTIONS) for each in RESULTS]
        while True:
            try:
                task = await consumer.receive(QUIET_S)
            except TimedOut:
                if self._all_sent.is_set():
                    return
                continue
            with suppress(PulsarError):  # the task comes again
                await self._do(client, consumer, producers, task, dice)

    async def _do(
        self,
        client: Client,
        consumer: Consuming[bytes],
        producers: list[Producing[bytes]],
        task: Message[bytes],
        dice: random.Random,
    ) -> None:
        chance = dice.random()
        try:
            transaction = await client.begin_transaction(TIMEOUT_S)
        except PulsarError:
            consumer.negative_acknowledge(task)
            raise
        try:
            for producer in producers:
                await transaction.send(producer, task.data)
            await transaction.acknowledge(consumer, task)
        except PulsarError:
            self.ended["failed"] += 1
            # If it is somebody else's by now, he has it; else it comes to somebody again.
            consumer.negative_acknowledge(task)
            await transaction.abort()
            raise
        if chance < 0.1:
            self.ended["left"] += 1
        elif chance < 0.25:
            await transaction.abort()
            self.ended["aborted"] += 1
        else:
            self.ended[await _committed(transaction)] += 1

    async def _judge(self, client: Client, kills: int) -> str:
        shown = [await _all_of(client, each) for each in RESULTS]
        for topic, found in zip(RESULTS, shown, strict=True):
            counts = Counter(found)
            twice = [each for each, times in counts.items() if times > 1]
            missing = {b"%d" % number for number in range(self._tasks)} - counts.keys()
            if twice or missing:
                raise PromiseBroken(
                    f"{topic}: {len(twice)} results twice {twice[:5]}, "
                    f"{len(missing)} missing {sorted(missing)[:5]}; {self!r}"
                )
        if shown[0] != shown[1]:
            raise PromiseBroken(f"the topics show transactions in another order; {self!r}")
        left = await client.subscribe(WORK, "workers", SHARED)
        with suppress(TimedOut):
            task = await left.receive(1.0)
            raise PromiseBroken(f"task {task.data!r} is left; {self!r}")
        return f"{kills} kills, {self._tasks} tasks, each once in both topics, {dict(self.ended)}"


async def _committed(transaction: Transaction) -> str:
    """Ask until there is an answer."""
    while True:
        try:
            await transaction.commit()
        except (InvalidTransactionStatus, TransactionNotFound):
            return "too late"
        except PulsarError:
            await anyio.sleep(0.05)
        else:
            return "committed"


async def _all_of(client: Client, topic: str) -> list[bytes]:
    reader = await client.subscribe(topic, JUDGE, SHARED)
    found: list[bytes] = []
    with suppress(TimedOut):
        while True:
            found.append((await reader.receive(2.0)).data)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        victim = ArnebVictim(Path(directory) / "broker", DEDUPLICATING)
        soak = TransactionSoak(victim, chosen.seed)
        print(f"seed {chosen.seed}", flush=True)
        print(anyio.run(soak.play, chosen.kills, backend="trio"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
