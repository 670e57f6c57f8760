"""The loads of :mod:`.traced`: what is asked of a broker, and what its answers promise.

The rule: the things that a load asks for have numbers, from 0 on without gaps, and :data:`BODY`
with its number is in what must be on disk for each: a message's body, or a queue's name.
"""

import asyncio
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pika
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Address
from conformance.wire.protobuf import data_of, decode, integer
from conformance.wire.pulsar import Command, PulsarClient

POLL_S: Final = 0.001
"""How long pika waits for events each time."""

QUEUES: Final = ("traced", "traced-too")
EXCHANGE: Final = "traced"
KEYS: Final = 50
TOPIC: Final = "persistent://public/default/traced"
NAME: Final = b"message-%08d-of-the-trace"
"""A name that needs no escape anywhere."""

BODY: Final = NAME + b"." * 200
MESSAGE: Final = re.compile(rb"message-(\d{8})-of-the-trace")

CONFIRM: Final = re.compile(rb"\x01..\x00\x00\x00\x0d\x00\x3c\x00\x50(.{8})(.)\xce", re.DOTALL)
"""A whole frame of basic.ack."""

DECLARE_OK: Final = re.compile(rb"\x00\x32\x00\x0b." + MESSAGE.pattern)
"""queue.declare-ok as far as the name."""

COMMIT_OK: Final = b"\x01\x00\x01\x00\x00\x00\x04\x00\x5a\x00\x15\xce"
"""A whole frame of tx.commit-ok."""

TRANSACTION: Final = 10
"""Messages in each transaction."""

SIZES: Final = struct.Struct(">II")
"""Of a frame of Pulsar's and of its command."""


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of requests. ``run`` makes them of a broker, at most ``window`` at a time, and as
    many as it is told; ``answered`` finds in output the numbers that each answer is for, given the
    number below which all have been answered. ``copies``: how often each must be on disk."""

    run: Callable[[Arneb, int, int], None]
    answered: Callable[[bytes, int], Iterator[range]]
    listener: str = "amqp"
    copies: int = 1


# Answers.


def _confirmed(data: bytes, through: int) -> Iterator[range]:
    for tag_bytes, multiple in CONFIRM.findall(data):
        tag = int.from_bytes(tag_bytes, "big")
        yield range(through, tag) if multiple != b"\0" else range(tag - 1, tag)
        through = max(through, tag)


def _received(data: bytes, through: int) -> Iterator[range]:
    at = 0
    while at < len(data):
        frame, command = SIZES.unpack_from(data, at)
        base = decode(data[at + SIZES.size : at + SIZES.size + command])
        if integer(base, 1) == Command.SEND_RECEIPT:
            number = integer(decode(data_of(base, int(Command.SEND_RECEIPT))), 2)
            yield range(number, number + 1)
        at += frame + SIZES.size // 2


def _declared(data: bytes, through: int) -> Iterator[range]:
    for found in DECLARE_OK.findall(data):
        yield range(int(found), int(found) + 1)


def _committed(data: bytes, through: int) -> Iterator[range]:
    for _ in range(data.count(COMMIT_OK)):
        yield range(through, through + TRANSACTION)
        through += TRANSACTION


# Requests.


def _publish(broker: Arneb, window: int, messages: int) -> None:
    """Publish to one queue."""
    persistent = pika.BasicProperties(delivery_mode=2)
    _confirm(
        broker, window, messages,
        lambda channel, number: channel.basic_publish("", QUEUES[0], BODY % number, persistent),
    )  # fmt: skip


def _publish_mixed(broker: Arneb, window: int, messages: int) -> None:
    """Publish as applications do: mandatory, each with properties of its own, through a topic
    exchange with many keys into two queues."""

    def publish(channel: pika.adapters.blocking_connection.BlockingChannel, number: int) -> None:
        headers = {"attempt": number % 3, "trace": f"{number:016x}"}
        properties = pika.BasicProperties(
            delivery_mode=2, message_id=str(number), timestamp=number, headers=headers
        )
        key, body = f"key.{number % KEYS}", BODY % number + b"." * (number * 7 % 300)
        channel.basic_publish(EXCHANGE, key, body, properties, mandatory=True)

    _confirm(broker, window, messages, publish)


def _confirm(
    broker: Arneb,
    window: int,
    messages: int,
    publish: Callable[[pika.adapters.blocking_connection.BlockingChannel, int], None],
) -> None:
    confirmed = 0

    def confirm(frame: pika.frame.Method) -> None:
        nonlocal confirmed
        assert isinstance(frame.method, pika.spec.Basic.Ack), f"expected an ack, got {frame!r}"
        confirmed = frame.method.delivery_tag

    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        for queue in QUEUES:
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, EXCHANGE, "key.#")
        channel._impl.confirm_delivery(confirm)
        for number in range(messages):
            publish(channel, number)
            while number + 1 - confirmed >= window:
                connection.process_data_events(time_limit=POLL_S)
        while confirmed < messages:
            connection.process_data_events(time_limit=POLL_S)
    finally:
        connection.close()


def _declare(broker: Arneb, window: int, messages: int) -> None:
    """Declare durable queues, one after the other on each of ``window`` channels."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channels = [connection.channel() for _ in range(window)]
        for number in range(messages):
            channels[number % window].queue_declare((NAME % number).decode(), durable=True)
    finally:
        connection.close()


def _commit(broker: Arneb, window: int, messages: int) -> None:
    """Publish in transactions."""
    assert not messages % TRANSACTION, f"expected a multiple of {TRANSACTION}, got {messages}"
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        channel.queue_declare(QUEUES[0], durable=True)
        channel.tx_select()
        for number in range(messages):
            channel.basic_publish("", QUEUES[0], BODY % number)
            if not (number + 1) % TRANSACTION:
                channel.tx_commit()
    finally:
        connection.close()


def _send(broker: Arneb, window: int, messages: int) -> None:
    """Send over Pulsar's protocol."""
    asyncio.run(_send_all(broker.pulsar_address, window, messages))


async def _send_all(address: Address, window: int, messages: int) -> None:
    client = await PulsarClient.open(address)
    await client.create_producer(TOPIC)
    room = asyncio.Semaphore(window)
    receipts = []
    for number in range(messages):
        await room.acquire()
        receipt = client.send(number, BODY % number)
        receipt.add_done_callback(lambda _: room.release())
        receipts.append(receipt)
    await asyncio.gather(*receipts)
    await client.abort()


CONFIRMS: Final = Load(_publish, _confirmed)
MIXED: Final = Load(_publish_mixed, _confirmed, copies=len(QUEUES))
RECEIPTS: Final = Load(_send, _received, "pulsar")
DECLARES: Final = Load(_declare, _declared)
COMMITS: Final = Load(_commit, _committed)

LOADS: Final = {
    "confirms": CONFIRMS, "mixed": MIXED, "receipts": RECEIPTS, "declares": DECLARES,
    "commits": COMMITS,
}  # fmt: skip
