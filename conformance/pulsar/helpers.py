"""Steps that many Pulsar scenarios share."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import pulsar
import pytest
from conformance.brokers.process import Address
from conformance.wire.pulsar import PulsarClient
from conformance.wire.running import run

WITHIN_MS = 30_000
"""How long to wait for something that must come, in milliseconds; machines are busy."""

FIRST_MS = 3_000
"""How long to wait for the first of what may come; a disconnected client reconnects after a delay
of its own."""

TURN_MS = 20
"""How long to wait for each of several consumers before the next one."""

SILENCE_MS = 300
"""How long to wait for something that must not come."""

GAP_MS = 1_000
"""How long to wait for the next of several messages that come together; a Java process may pause
for garbage collection."""

ACKS_SENT_S = 0.6
"""How long to wait until acknowledgements have been sent: the client collects them for 100 ms, or
longer on a busy machine, and other commands overtake them."""


def numbers(count: int, first: int = 0) -> list[bytes]:
    """``count`` different payloads."""
    return [b"%d" % number for number in range(first, first + count)]


def send(producer: pulsar.Producer, payloads: Iterable[bytes]) -> list[pulsar.MessageId]:
    """Send the payloads and wait for all receipts; the result is the message ids in the order of
    sending."""
    ids: list[pulsar.MessageId] = []
    for payload in payloads:
        producer.send_async(payload, lambda result, message_id: ids.append(message_id))
    producer.flush()
    return ids


def take(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    """Receive the next messages without acknowledging them."""
    return [consumer.receive(WITHIN_MS) for _ in range(count)]


def payloads(messages: Sequence[pulsar.Message]) -> list[bytes]:
    """The payloads of messages."""
    return [message.data() for message in messages]


def gather(
    consumers: Sequence[pulsar.Consumer], count: int, *, acknowledge: bool = False
) -> list[list[pulsar.Message]]:
    """Receive exactly ``count`` messages, whichever of ``consumers`` gets them; the result is a
    list for each consumer."""
    found: list[list[pulsar.Message]] = [[] for _ in consumers]
    end = time.monotonic() + WITHIN_MS / 1000
    while (so_far := sum(map(len, found))) < count:
        assert time.monotonic() < end, f"expected {count} messages, got {so_far}"
        for own, consumer in zip(found, consumers, strict=True):
            with suppress(pulsar.Timeout):
                while True:
                    own.append(consumer.receive(TURN_MS))
                    end = time.monotonic() + WITHIN_MS / 1000
                    if acknowledge:
                        consumer.acknowledge(own[-1])
    for consumer in consumers:
        assert_silent(consumer)
    return found


def assert_gets(consumer: pulsar.Consumer, expected: Sequence[bytes]) -> None:
    """The consumer gets exactly the expected payloads, and acknowledges them."""
    (found,) = gather([consumer], len(expected), acknowledge=True)
    assert payloads(found) == list(expected)


def drain(consumer: pulsar.Consumer, *, acknowledge: bool = True) -> list[bytes]:
    """Receive until nothing more comes; the result is the payloads."""
    found: list[bytes] = []
    while True:
        try:
            # After a seek the client may take a while to reconnect.
            message = consumer.receive(GAP_MS if found else FIRST_MS)
        except pulsar.Timeout:
            return found
        found.append(message.data())
        if acknowledge:
            consumer.acknowledge(message)


def assert_silent(consumer: pulsar.Consumer) -> None:
    """Check that nothing comes."""
    with pytest.raises(pulsar.Timeout):
        raise AssertionError(f"expected nothing, got {consumer.receive(SILENCE_MS).data()!r}")


def played(pulsar_url: str, topic: str, play: Callable[[PulsarClient], Awaitable[None]]) -> None:
    """Run ``play`` with a client that sends raw commands."""
    host, _, port = pulsar_url.removeprefix("pulsar://").rpartition(":")

    async def connected() -> None:
        client = await PulsarClient.open(Address(host, int(port)))
        await client.look_up(topic)
        await play(client)

    run(connected())
