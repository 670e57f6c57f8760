"""What Pulsar scenarios do again and again."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import pulsar
import pytest
from conformance.brokers.process import Address
from conformance.wire.pulsar import PulsarClient
from conformance.wire.running import run

WITHIN_MS = 30_000
"""For what must come; machines are busy."""

FIRST_MS = 3_000
"""For the first of what may come; a client that was sent away comes back in its own time."""

TURN_MS = 20
"""For each of several consumers, before the next is asked."""

SILENCE_MS = 300
"""For what must not come."""

GAP_MS = 1_000
"""For the next of what comes together: a Java process may stop for a while to look for garbage."""

ACKS_SENT_S = 0.6
"""The client gathers acknowledgements for 100 ms, and more on a busy machine; other commands
overtake them."""


def numbers(count: int, first: int = 0) -> list[bytes]:
    """So many different payloads."""
    return [b"%d" % number for number in range(first, first + count)]


def send(producer: pulsar.Producer, payloads: Iterable[bytes]) -> list[pulsar.MessageId]:
    """Send and wait for every receipt; the ids in the order of sending."""
    ids: list[pulsar.MessageId] = []
    for payload in payloads:
        producer.send_async(payload, lambda result, message_id: ids.append(message_id))
    producer.flush()
    return ids


def take(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    """The next messages, not acknowledged."""
    return [consumer.receive(WITHIN_MS) for _ in range(count)]


def payloads(messages: Sequence[pulsar.Message]) -> list[bytes]:
    """What they say."""
    return [message.data() for message in messages]


def gather(
    consumers: Sequence[pulsar.Consumer], count: int, *, acknowledge: bool = False
) -> list[list[pulsar.Message]]:
    """So many messages and no more, whoever of ``consumers`` gets them; for each what it got."""
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
    """The consumer gets, and acknowledges, what is expected and nothing more."""
    (found,) = gather([consumer], len(expected), acknowledge=True)
    assert payloads(found) == list(expected)


def drain(consumer: pulsar.Consumer, *, acknowledge: bool = True) -> list[bytes]:
    """Everything that comes until it is silent."""
    found: list[bytes] = []
    while True:
        try:
            # After a seek the client may take a while to come back.
            message = consumer.receive(GAP_MS if found else FIRST_MS)
        except pulsar.Timeout:
            return found
        found.append(message.data())
        if acknowledge:
            consumer.acknowledge(message)


def assert_silent(consumer: pulsar.Consumer) -> None:
    """Nothing comes."""
    with pytest.raises(pulsar.Timeout):
        raise AssertionError(f"expected nothing, got {consumer.receive(SILENCE_MS).data()!r}")


def played(pulsar_url: str, topic: str, play: Callable[[PulsarClient], Awaitable[None]]) -> None:
    """Have a connection that is driven by hand take part."""
    host, _, port = pulsar_url.removeprefix("pulsar://").rpartition(":")

    async def connected() -> None:
        client = await PulsarClient.open(Address(host, int(port)))
        await client.look_up(topic)
        await play(client)

    run(connected())
