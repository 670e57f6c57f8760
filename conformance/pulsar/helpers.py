"""What Pulsar scenarios do again and again."""

from collections.abc import Iterable, Sequence

import pulsar
import pytest

WITHIN_MS = 5_000
"""For what must come."""

FIRST_MS = 1_000
"""For the first of what may come."""

SILENCE_MS = 300
"""For what must not come."""

ACKS_SENT_S = 0.3
"""The client gathers acknowledgements for 100 ms; other commands overtake them."""


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


def drain(consumer: pulsar.Consumer, *, acknowledge: bool = True) -> list[bytes]:
    """Everything that comes until it is silent."""
    found: list[bytes] = []
    while True:
        try:
            # After a seek the client may take a while to come back.
            message = consumer.receive(SILENCE_MS if found else FIRST_MS)
        except pulsar.Timeout:
            return found
        found.append(message.data())
        if acknowledge:
            consumer.acknowledge(message)


def assert_silent(consumer: pulsar.Consumer) -> None:
    """Nothing comes."""
    with pytest.raises(pulsar.Timeout):
        raise AssertionError(f"expected nothing, got {consumer.receive(SILENCE_MS).data()!r}")
