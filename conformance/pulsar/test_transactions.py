"""Interleavings of transactions, each run on Apache Pulsar and on Arneb with our own client.

The rule: what is compared is what a consumer receives in the end, and how many steps are refused
with a conflict. The order of the transactions' messages is one of the known differences.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import pytest
from conformance.pulsar.conftest import Named

from arneb_pulsar.client import (
    Batching,
    Client,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.errors import PulsarError, TimedOut, TransactionConflict

BEFORE: Final = ("0", "1", "2", "3")
"""The messages in the topic when a play begins."""

RECEIVED_WITHIN_S: Final = 30.0
SILENCE_S: Final = 2.0
SHORT_S: Final = 3.0
"""The timeout of transactions whose name is a lower-case letter."""


@dataclass(frozen=True, slots=True)
class Play:
    """Steps of transactions A, B and C and of the short-lived a. ``gets`` is what a new consumer
    receives at the end, and ``conflicts`` is how many steps are refused."""

    name: str
    steps: str
    gets: str
    conflicts: int = 0
    kind: SubscriptionType = SubscriptionType.SHARED
    batched: bool = False


EXCLUSIVE: Final = SubscriptionType.EXCLUSIVE

PLAYS: Final = (
    Play("all of one and nothing of another", "send A x, send B y, abort A, commit B", "0123y"),
    Play("in between nobody waits", "send A x, send - y, commit A", "0123xy"),
    Play("what was sent plainly stays", "send A x, send - y, abort A", "0123y"),
    Play("ends cross", "send A x, send B y, send A z, commit B, commit A", "0123xyz"),
    Play("nothing was done", "open A, open B, commit A, abort B", "0123"),
    Play("acknowledged and committed", "ack A 0, ack A 2, commit A", "13"),
    Play("acknowledged and aborted", "ack A 0, ack - 1, abort A", "023"),
    Play("one message, two transactions", "ack A 0, ack B 0, commit A, abort B", "123", 1),
    Play("free again after an abort", "ack A 0, ack B 0, abort A, ack C 0, commit C", "123", 1),
    Play("plainly acknowledged before", "ack - 0, ack A 0, abort A", "123", 1),
    Play("two of two", "ack A 0, ack B 1, commit B, abort A", "023"),
    Play("the consumer leaves, and it counts", "ack A 0, again, commit A", "123"),
    Play("the consumer leaves, and it is aborted", "ack A 0, again, abort A", "0123"),
    Play("cumulative and committed", "till A 2, commit A", "3", kind=EXCLUSIVE),
    Play("cumulative and aborted", "till A 2, abort A", "0123", kind=EXCLUSIVE),
    Play("cumulative twice by one", "till A 0, till A 2, commit A", "3", kind=EXCLUSIVE),
    Play("cumulative by two", "till A 1, till B 2, commit A", "23", 1, kind=EXCLUSIVE),
    Play("parts of a batch", "ack A 0, ack B 1, commit A, abort B", "123", batched=True),
    Play("parts of a batch by two", "ack A 0, ack B 1, commit A, commit B", "23", batched=True),
    Play("a part of a batch twice", "ack A 0, ack B 0, commit A", "123", 1, batched=True),
    Play(
        "consumed and produced", "ack A 0, send A x, ack B 1, send B y, commit A, abort B", "123x"
    ),
    Play("its time is up", "ack a 0, send a x, late", "0123"),
    Play("its time is up, another's is not", "ack a 0, send A x, late, commit A", "0123x"),
)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.name.replace(" ", "-"))
def test_transactions_interleave(transacting_url: str, play: Play, name: Named) -> None:
    topic = f"persistent://public/default/{name('interleaved')}"
    got, conflicts = anyio.run(played, transacting_url, topic, play)
    assert (sorted(got), conflicts) == (sorted(play.gets), play.conflicts)


@dataclass(slots=True)
class Stage:
    """The client, consumer and producer of one play."""

    client: Client
    consumer: Any
    producer: Any
    received: dict[str, Any]
    options: ConsumerOptions
    topic: str
    open: dict[str, Any] = field(default_factory=dict)

    async def transaction(self, letter: str) -> Any:
        """The transaction of a letter, which is opened when it is first used."""
        if letter not in self.open:
            timeout_s = SHORT_S if letter.islower() else 120.0
            self.open[letter] = await self.client.begin_transaction(timeout_s=timeout_s)
        return self.open[letter]

    async def do(self, step: str) -> None:
        """Carry out one step. Raises :class:`TransactionConflict`."""
        verb, *words = step.split()
        match verb:
            case "again":
                await self.consumer.close()
                self.consumer = await self.client.subscribe(self.topic, "s", self.options)
            case "late":
                await anyio.sleep(SHORT_S + 2.0)
            case "open":
                await self.transaction(words[0])
            case "commit":
                await self.open[words[0]].commit()
            case "abort":
                await self.open[words[0]].abort()
            case "send" if words[0] == "-":
                await self.producer.send(words[1].encode())
            case "send":
                await (await self.transaction(words[0])).send(self.producer, words[1].encode())
            case "ack" if words[0] == "-":
                await self.consumer.acknowledge_stored(self.received[words[1]])
            case "ack":
                transaction = await self.transaction(words[0])
                await transaction.acknowledge(self.consumer, self.received[words[1]])
            case "till":
                transaction = await self.transaction(words[0])
                message = self.received[words[1]]
                await transaction.acknowledge(self.consumer, message, cumulative=True)


async def played(url: str, topic: str, play: Play) -> tuple[str, int]:
    """What a consumer receives after all steps, and how many conflicts there were."""
    options = ConsumerOptions(type=play.kind, initial_position=InitialPosition.EARLIEST)
    conflicts = 0
    async with connect(url) as client:
        consumer = await client.subscribe(topic, "s", options)
        first = await client.create_producer(topic, ProducerOptions(batching=Batching()))
        if play.batched:
            async with anyio.create_task_group() as group:
                for text in BEFORE:
                    group.start_soon(first.send, text.encode())
        else:
            for text in BEFORE:
                await first.send(text.encode())
        await first.close()
        messages = [await consumer.receive(RECEIVED_WITHIN_S) for _ in BEFORE]
        producer = await client.create_producer(
            topic, ProducerOptions(transactions=True, send_timeout_s=0)
        )
        received = {each.data.decode(): each for each in messages}
        stage = Stage(client, consumer, producer, received, options, topic)
        for step in play.steps.split(", "):
            try:
                await stage.do(step)
            except TransactionConflict:
                conflicts += 1
        for each in stage.open.values():
            with suppress(PulsarError):  # most have ended already
                await each.abort()
        await stage.consumer.close()
        consumer = await client.subscribe(topic, "s", options)
        got = (await consumer.receive(RECEIVED_WITHIN_S)).data.decode()
        with suppress(TimedOut):
            while True:
                got += (await consumer.receive(SILENCE_S)).data.decode()
        return got, conflicts
