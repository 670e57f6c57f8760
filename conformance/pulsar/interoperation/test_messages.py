"""What a message carries besides its value, and when it is delivered, in both directions.

| | single | batch |
|---|---|---|
| key, binary key (not the wheel), ordering key, properties, event time, null value | ✓ | ✓ |
| delayed delivery | ✓ (never in batches) | |
| an id serialized by one library, used by another to seek | ✓ | ✓ |
"""

import time
from collections.abc import Iterator
from typing import Final

import pytest
from conformance.pulsar.interoperation.conftest import OTHERS, WAYS, Libraries
from conformance.pulsar.interoperation.libraries import (
    Incoming,
    Outgoing,
    Receiver,
    Receiving,
    Sending,
    take,
)

PACKINGS: Final = ("single", "batch")
DELAY_S: Final = 1.0

CARRIED: Final = {
    "nothing": Outgoing(b"v"),
    "a key": Outgoing(b"v", key="k\N{SNOWMAN}"),
    "an ordering key": Outgoing(b"v", key="k", ordering_key="o"),
    "properties": Outgoing(b"v", properties={"a": "b", "": "", "\N{SNOWMAN}": "x" * 1_000}),
    "an event time": Outgoing(b"v", event_time_ms=1_700_000_000_123),
    "a null value": Outgoing(None, key="k"),
    "an empty value": Outgoing(b"", key="k"),
    "all of it": Outgoing(b"v", "k", "o", {"a": "b", "c": "d"}, 77),
}


@pytest.mark.parametrize("what", CARRIED)
@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
def test_a_message_brings(
    libraries: Libraries, topic: str, sender: str, receiver: str, packing: str, what: str
) -> None:
    consumer = libraries[receiver].receiver(topic, Receiving())
    producer = libraries[sender].sender(topic, Sending(packing=packing))
    producer.send([CARRIED[what], Outgoing(b"next")])
    found = take(consumer, 2)
    assert [each.outgoing() for each in found] == [CARRIED[what], Outgoing(b"next")]
    assert [each.is_null for each in found] == [CARRIED[what].value is None, False]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(("sender", "receiver"), [("ours", "java"), ("java", "ours")])
def test_keys_are_any_bytes(
    libraries: Libraries, topic: str, sender: str, receiver: str, packing: str
) -> None:
    """The wheel supports only text keys."""
    consumer = libraries[receiver].receiver(topic, Receiving())
    producer = libraries[sender].sender(topic, Sending(packing=packing))
    messages = [Outgoing(b"1", key=b"\xff\x00"), Outgoing(b"2", key=b"text")]
    producer.send(messages)
    assert [each.outgoing() for each in take(consumer, 2)] == messages


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
def test_nothing_comes_before_its_time(
    libraries: Libraries, topic: str, sender: str, receiver: str, packing: str
) -> None:
    consumer = libraries[receiver].receiver(topic, Receiving())
    producer = libraries[sender].sender(topic, Sending(packing=packing))
    began = time.monotonic()
    producer.send([Outgoing(b"later", deliver_after_s=DELAY_S)])
    producer.send([Outgoing(b"now")])
    came_after_s = {each.value: time.monotonic() - began for each in _one_by_one(consumer, 2)}
    assert came_after_s[b"later"] >= DELAY_S * 0.9
    if came_after_s[b"now"] < DELAY_S * 0.9:
        assert list(came_after_s) == [b"now", b"later"]


def _one_by_one(consumer: Receiver, count: int) -> Iterator[Incoming]:
    for _ in range(count):
        yield take(consumer, 1)[0]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("other", OTHERS)
def test_ids_are_read_by_all(libraries: Libraries, topic: str, other: str, packing: str) -> None:
    """The ids from receipts, and those of received messages."""
    first, second = libraries["ours"], libraries[other]
    for writer, reader in ((first, second), (second, first)):
        producer = writer.sender(topic, Sending(packing=packing))
        ids = producer.send([Outgoing(b"%d" % number) for number in range(4)])
        seen = writer.receiver(topic, Receiving(f"of-{writer.name}", "Exclusive"))
        last = take(seen, 8 if writer is second else 4)[-2]
        consumer = reader.receiver(topic, Receiving(f"by-{reader.name}", "Exclusive"))
        for where in (ids[2], last.id):
            consumer.seek(where)
            assert take(consumer, 1)[0].value == b"3"
