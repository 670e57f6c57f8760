"""A busy topic on one broker, and every document that the broker shows about it.

The rule: everything for which a document has a figure takes place: each subscription type, with
consumers that came and left; messages in batches, returned, delayed and expired; transactions
committed, aborted and open; keys that move. Every message has a key that its entry has too, as what
has none goes to other consumers of Key_Shared on the two brokers.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
from conformance.pulsar.admin import Admin

from arneb_pulsar.client import (
    Batching,
    Client,
    ConsumerOptions,
    InitialPosition,
    KeyShared,
    Message,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.errors import TimedOut

MESSAGES: Final = 60
KEYS: Final = 12
RECEIVED_WITHIN_S: Final = 30.0
BUSY_S: Final = 2.5
"""Longer than one statistics interval, for brokers that update their statistics every second."""

PLAIN: Final = "plain"
PARTED: Final = "parted"

Documents = Mapping[str, Any]


def options(kind: SubscriptionType, name: str, **more: Any) -> ConsumerOptions:
    """Options of a consumer for these topics."""
    return ConsumerOptions(
        type=kind,
        name=name,
        initial_position=InitialPosition.EARLIEST,
        negative_ack_delay_s=0.1,
        batch_index_acks=True,
        properties={"who": name},
        subscription_properties={"of": "documents"},
        **more,
    )


async def documents(url: str, admin: Admin, suffix: str) -> Documents:
    """All documents of two busy topics, one of them partitioned."""
    topics = {kind: f"documents-{kind}-{suffix}" for kind in (PLAIN, PARTED)}
    await anyio.to_thread.run_sync(lambda: admin.put(f"{topics[PARTED]}/partitions", 2))
    async with connect(url) as client:
        found: dict[str, Any] = {}
        for kind in (PLAIN, PARTED):
            found |= await _of_one(client, admin, kind, topics[kind])
        return found


async def _of_one(client: Client, admin: Admin, kind: str, topic: str) -> dict[str, Any]:
    shared, keys, over = (
        SubscriptionType.SHARED,
        SubscriptionType.KEY_SHARED,
        SubscriptionType.FAILOVER,
    )
    consumers = {
        "shared": await client.subscribe(topic, "shared", options(shared, "a")),
        "keys": await client.subscribe(topic, "keys", options(keys, "a")),
        "over": await client.subscribe(topic, "over", options(over, "a")),
        "alone": await client.subscribe(topic, "alone", options(SubscriptionType.EXCLUSIVE, "a")),
        "sticky": await client.subscribe(
            topic,
            "sticky",
            options(keys, "a", key_shared=KeyShared([(0, 32_767), (40_000, 65_535)])),
        ),
        "free": await client.subscribe(
            topic, "free", options(keys, "a", key_shared=KeyShared(allow_out_of_order=True))
        ),
    }
    plain = await client.create_producer(
        topic, ProducerOptions(name="plain", batching=None, properties={"p": "q"})
    )
    batched = await client.create_producer(
        topic, ProducerOptions(name="batched", batching=Batching(by_key=True), send_timeout_s=0)
    )
    transacting = await client.create_producer(
        topic,
        ProducerOptions(name="transacting", batching=None, transactions=True, send_timeout_s=0),
    )
    for number in range(MESSAGES):
        await plain.send(b"x" * 100, key=f"k{number % KEYS}")
    async with anyio.create_task_group() as group:
        for number in range(MESSAGES):
            group.start_soon(partial(batched.send, b"y" * 50, key=f"k{number % KEYS}"))
    for ends in ("commit", "abort", "commit"):
        transaction = await client.begin_transaction(timeout_s=120)
        await transaction.send(transacting, b"of " + ends.encode(), key="k0")
        message = await consumers["shared"].receive(RECEIVED_WITHIN_S)
        await transaction.acknowledge(consumers["shared"], message)
        await getattr(transaction, ends)()
    for name in ("shared", "over", "alone"):
        for count in range(9):
            message = await consumers[name].receive(RECEIVED_WITHIN_S)
            if count % 3 == 0:
                consumers[name].acknowledge(message)
            elif count % 3 == 1 and name == "shared":
                consumers[name].negative_acknowledge(message)
    held = await _one_of_each_key(consumers["keys"])
    # Keys move while the first consumer holds messages of each of them.
    more = [
        await client.subscribe(topic, name, options(kinds, "b"))
        for name, kinds in (("shared", shared), ("keys", keys), ("over", over))
    ]
    # Of what it returns, messages whose keys have moved wait for the others that it holds.
    for message in held:
        consumers["keys"].negative_acknowledge(message)
    await plain.send(b"later", key="k0", deliver_after_s=3_600.0)
    answers = [consumers["shared"].acknowledge, consumers["shared"].negative_acknowledge]
    ends_at = time.monotonic() + BUSY_S
    while time.monotonic() < ends_at:
        await plain.send(b"z" * 100, key="k1")
        with suppress(TimedOut):
            message = await consumers["shared"].receive(0.05)
            answers.reverse()
            answers[0](message)
    found = await anyio.to_thread.run_sync(lambda: shown(admin, kind, topic))
    for each in (*more, *consumers.values(), plain, batched, transacting):
        await each.close()
    return found


async def _one_of_each_key(consumer: Consuming[bytes]) -> list[Message[bytes]]:
    """Receive until there is a message of each key, and acknowledge all others, of which there is
    at least one."""
    found: dict[str | None, Message[bytes]] = {}
    acknowledged = 0
    while len(found) < KEYS or not acknowledged:
        message = await consumer.receive(RECEIVED_WITHIN_S)
        if found.setdefault(message.key, message) is not message:
            consumer.acknowledge(message)
            acknowledged += 1
    return list(found.values())


def shown(admin: Admin, kind: str, topic: str) -> dict[str, Any]:
    """The documents of one topic."""
    if kind == PARTED:
        asked = {
            "partitioned-stats": {"perPartition": "true", "getPreciseBacklog": "true"},
            "partitioned-internalStats": {},
        }
    else:
        asked = {"stats": {"getEarliestTimeInBacklog": "true"}, "internalStats": {}}
    found = {
        f"{kind} {path}": admin.get(f"{topic}/{path}", **query) for path, query in asked.items()
    }
    text = json.dumps(found).replace(topic, f"the {kind} topic")
    return dict(json.loads(text))
