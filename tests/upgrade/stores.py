"""Stores of every format that was ever released, and what was in them.

The rule: a store is made once, by the version whose format it has, from a broker that was killed
at once after its last confirms, so that its journal has what LMDB lacks; it is never made again.
Later versions are to find in it what was found by the one that made it.

``python -m tests.upgrade.stores NAME`` makes ``NAME.tar.xz`` and ``NAME.json`` beside this module.
"""

import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import anyio
import lmdb
import pika
import pika.exceptions
from conformance.brokers.arneb import ALL_PROTOCOLS, Arneb
from conformance.management.client import Client as Management
from conformance.toolbox import extract

from arneb_core.api.entries.ledger_ids import LOW_MASK
from arneb_core.store.format.records import JournalState
from arneb_core.store.format.schema import META_JOURNAL
from arneb_core.store.journal.file import Reading, read_journal
from arneb_pulsar.client import (
    EARLIEST,
    Batching,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.codec.schemas.json_schema import JsonSchema
from arneb_pulsar.client.codec.schemas.schema import StringSchema
from arneb_pulsar.client.errors import TimedOut

HERE: Final = Path(__file__).parent
VOLATILE: Final = (
    "rabbit_version",
    "rabbitmq_version",
    "product_name",
    "product_version",
    "arneb_version",
)
"""Of definitions: who exported them."""
SILENCE_S: Final = 1.0
LAST_WORDS: Final = 20
SHOWN_BYTES: Final = 1_000


def named() -> list[str]:
    """The stores that are kept."""
    return sorted(each.name.removesuffix(".tar.xz") for each in HERE.glob("*.tar.xz"))


def unpack(name: str, directory: Path) -> None:
    """A store, as a broker's data directory below ``directory``."""
    with tarfile.open(HERE / f"{name}.tar.xz") as packed:
        extract(packed, directory)


def recorded(name: str) -> Any:
    """What was found in it by those who made it."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def state_of(directory: Path) -> JournalState:
    """What LMDB knows of the journal of a store below ``directory``."""
    path = str(directory / "data")
    with lmdb.open(path, max_dbs=32, readonly=True, lock=False) as environment:
        meta = environment.open_db(b"meta", create=False)
        with environment.begin() as txn:
            return JournalState.unpack(txn.get(META_JOURNAL, db=meta))


def journaled(directory: Path) -> Reading:
    """What that journal holds which LMDB does not have."""
    return read_journal(directory / "data", state_of(directory))


@contextmanager
def running(directory: Path) -> Iterator[Arneb]:
    """A broker on the data below ``directory``; killed at the end."""
    broker = Arneb(directory, listeners=ALL_PROTOCOLS).start()
    try:
        yield broker
    finally:
        broker.kill()


# What is there


def observed(broker: Arneb) -> dict[str, Any]:
    """Everything that clients can find; it takes nothing away."""
    definitions = Management(broker.http_address).call("GET", "definitions").json
    for each in VOLATILE:
        definitions.pop(each, None)
    # A store is given an id when it is opened, unless it has one.
    definitions["global_parameters"] = [
        each for each in definitions["global_parameters"] if each["name"] != "internal_cluster_id"
    ]
    return {
        "definitions": definitions,
        "queues": {name: _gotten(broker, name) for name in ("orders", "alerts", "dead", "big")},
        "pulsar": anyio.run(_pulsar, broker.pulsar_url, broker.admin_url, backend="trio"),
    }


def _gotten(broker: Arneb, queue: str) -> list[dict[str, Any]]:
    """The messages of a queue, each given back."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    found = []
    while True:
        method, properties, body = channel.basic_get(queue)
        if method is None:
            break
        found.append(
            {
                "exchange": method.exchange,
                "key": method.routing_key,
                "redelivered": method.redelivered,
                "body": _shown(body),
                "id": properties.message_id,
                "priority": properties.priority,
                "headers": json.loads(json.dumps(properties.headers, default=str)),
            }
        )
    connection.close()
    return found


def _shown(body: bytes) -> str:
    """The bytes, or of many of them what tells them apart."""
    return body.decode("latin-1") if len(body) < SHOWN_BYTES else sha256(body).hexdigest()


def _as_recorded(found: MessageId) -> MessageId:
    """The id as the brokers that made the stores showed it: without the topic's number."""
    return replace(found, ledger_id=found.ledger_id & LOW_MASK)


async def _pulsar(url: str, admin_url: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with connect(url) as client, administer(admin_url) as admin:
        passing, kept = [await admin.policies(f"public/{each}") for each in ("passing", "kept")]
        found["policies"] = [
            passing["message_ttl_in_seconds"],
            kept["retention_policies"],
            kept["deduplicationEnabled"],
        ]
        found["topics"] = sorted(await admin.topics("public/kept"))
        schema = await admin.schema("persistent://public/kept/people")
        found["schema"] = {"type": schema.type, "data": json.loads(schema.data)}
        for topic in ("events", "people", "orders-compacted"):
            found[topic] = []
            reader = await client.create_reader(f"persistent://public/kept/{topic}", EARLIEST)
            try:
                while True:
                    message = await reader.read(SILENCE_S)
                    found[topic].append(
                        {
                            "id": str(_as_recorded(message.id)),
                            "key": message.key,
                            "value": _shown(message.data),
                            "properties": dict(message.properties),
                            "sequence": message.sequence_id,
                            "producer": message.producer_name,
                        }
                    )
            except TimedOut:
                await reader.close()
        for subscription in ("audit", "keyed"):
            statistics = await admin.statistics("persistent://public/kept/events")
            found[f"backlog of {subscription}"] = statistics.subscriptions[
                subscription
            ].messages_backlog
        options = ProducerOptions(name="numbered", batching=None)
        producer = await client.create_producer("persistent://public/kept/events", options)
        found["last sequence"] = producer.last_sequence_id
    return found


# How one is made


def fill(broker: Arneb) -> None:
    """Something of everything that a store can hold."""
    management = Management(broker.http_address)

    def put(path: str, body: Any) -> None:
        answer = management.call("PUT", path, body)
        assert answer.status in (201, 204), answer

    put("vhosts/other", {"description": "kept", "tags": ["a"]})
    put("users/app", {"password": "secret", "tags": "monitoring"})
    put("permissions/other/app", {"configure": "^app", "write": ".*", "read": ""})
    put("topic-permissions/%2F/app", {"exchange": "facts", "write": "^a", "read": ".*"})
    put("policies/%2F/ttl", {"pattern": "^al", "definition": {"max-length": 100}, "priority": 3})
    put("operator-policies/%2F/top", {"pattern": ".*", "definition": {"max-length": 9_999}})
    put("vhost-limits/other/max-queues", {"value": 7})
    put("global-parameters/colour", {"value": {"name": "red"}})
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("facts", "topic", durable=True)
    channel.exchange_declare(
        "side", "headers", durable=True, arguments={"alternate-exchange": "facts"}
    )
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("orders", durable=True, arguments=dead)
    channel.queue_declare("alerts", durable=True, arguments={"x-max-priority": 5})
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("big", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("orders", "facts", "orders.#")
    channel.queue_bind("alerts", "facts", "*.urgent")
    channel.exchange_bind("facts", "side", "", {"x-match": "all", "kind": 7})
    for number in range(40):
        headers = {"n": number, "text": "é", "list": [1, "two"], "table": {"deep": True}}
        properties = pika.BasicProperties(
            delivery_mode=2, message_id=f"m{number}", headers=headers, priority=number % 6
        )
        key = "orders.urgent" if number % 3 == 0 else "orders.plain"
        channel.basic_publish("facts", key, b"order %d" % number, properties)
        channel.basic_publish("", "stream", b"line %d" % number)
    channel.basic_publish("", "big", bytes(range(256)) * 800)
    channel.basic_publish("", "orders", b"delayed", pika.BasicProperties(delivery_mode=2))
    for number in range(9):  # some are gone, one is dead, and some were given out before
        method, _, _ = channel.basic_get("orders")
        assert method is not None
        if number == 4:
            channel.basic_reject(method.delivery_tag, requeue=False)
        elif number % 2:
            channel.basic_ack(method.delivery_tag)
    connection.close()
    anyio.run(_fill_pulsar, broker.pulsar_url, broker.admin_url, backend="trio")


def kill_after_last_words(broker: Arneb) -> None:
    """It is killed as soon as the last of some messages is confirmed: they are in its journal."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(LAST_WORDS):
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": number})
        channel.basic_publish("facts", "orders.urgent", b"last word %d" % number, properties)
    broker.kill()
    with suppress(pika.exceptions.AMQPError):
        connection.close()


async def _fill_pulsar(url: str, admin_url: str) -> None:
    namespace = "public/kept"
    async with connect(url) as client, administer(admin_url) as admin:
        await admin.create_namespace(namespace)
        # Not where messages are, which would be gone when somebody looks in a year.
        await admin.create_namespace("public/passing")
        await admin.set_policy("public/passing", "messageTTL", 600)
        await admin.set_policy(
            namespace, "retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        )
        await admin.set_policy(namespace, "deduplication", True)
        await admin.create_topic(f"persistent://{namespace}/parted", 3)
        events = f"persistent://{namespace}/events"
        shared = ConsumerOptions(
            type=SubscriptionType.SHARED,
            initial_position=InitialPosition.EARLIEST,
            batch_index_acks=True,
        )
        audit = await client.subscribe(events, "audit", shared)
        keyed = ConsumerOptions(
            type=SubscriptionType.KEY_SHARED, initial_position=InitialPosition.EARLIEST
        )
        await client.subscribe(events, "keyed", keyed)
        producer = await client.create_producer(
            events, ProducerOptions(name="numbered", batching=None)
        )
        for number in range(20):
            await producer.send(b"event %d" % number, key=f"k{number % 3}", properties={"n": "1"})
        batches = await client.create_producer(
            events, ProducerOptions(name="batches", batching=Batching(messages_max=10))
        )
        await batches.send_batch([b"in a batch %d" % number for number in range(10)])
        for number in range(26):
            message = await audit.receive(10)
            if number % 2 or number < 5:
                await audit.acknowledge_stored(message)
        later = await client.create_producer(events, ProducerOptions(name="later", batching=None))
        await later.send(b"in a hundred years", deliver_at_ms=4_000_000_000_000)
        people = await client.create_producer(
            f"persistent://{namespace}/people", schema=JsonSchema(PERSON)
        )
        await people.send({"name": "Ada", "born": 1815})
        compacted = f"persistent://{namespace}/orders-compacted"
        states = await client.create_producer(compacted, schema=StringSchema())
        for number in range(12):
            await states.send(f"state {number}", key=f"o{number % 4}")
        await states.send(None, key="o0")
        await admin.compact(compacted)
        await anyio.sleep(2)


PERSON: Final = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "name", "type": "string"}, {"name": "born", "type": "int"}],
}


def main(name: str) -> None:
    """Make one."""
    kept = HERE / f"{name}.tar.xz"
    assert not kept.exists(), f"{kept} is there: what was kept is not made again"
    with tempfile.TemporaryDirectory() as directory:
        made, copy = Path(directory) / "made", Path(directory) / "copy"
        with running(made) as broker:
            fill(broker)
            kill_after_last_words(broker)
        with tarfile.open(kept, "w:xz") as packed:
            packed.add(made / "data", "data", filter=_without_owner)
        unpack(name, copy)
        assert journaled(copy).records, "expected records that LMDB lacks: make it again"
        with running(copy) as broker:
            found = observed(broker)
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (entry.isfile() or entry.isdir()):
        return None  # a socket
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(sys.argv[1])
