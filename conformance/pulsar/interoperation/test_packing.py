"""Every compression in every packing, unencrypted and encrypted, in both directions.

| | single | batch | key batch | chunks |
|---|---|---|---|---|
| none, LZ4, ZLIB, ZSTD, SNAPPY | ✓ | ✓ | ✓ | ✓ |
| each of them encrypted | ✓ | ✓ | ✓ | ✓ |

The rule: the receiver gets what was sent, and a third consumer, of our library, checks that the
messages are packed in the topic as requested.
"""

from random import Random
from typing import Final

import pytest
from conformance.pulsar.interoperation.conftest import WAYS, Libraries
from conformance.pulsar.interoperation.libraries import Keys, Outgoing, Receiving, Sending, take
from conformance.pulsar.interoperation.ours import OurReceiver

from arneb_pulsar.client import Message

COMPRESSIONS: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
PACKINGS: Final = ("single", "batch", "key batch", "chunks")
BODY: Final = bytes(range(256)) * 20
LARGE: Final = Random(1).randbytes(5_500_000) + bytes(1_000_000)
"""Over the broker's limit of 5 MiB, however well it is compressed."""

FEW: Final = (
    Outgoing(BODY, key="a", properties={"n": "0"}),
    Outgoing(b"", key="b"),
    Outgoing(b"x"),
    Outgoing(BODY[::-1], key="a", event_time_ms=77),
    Outgoing(b"last", key="b"),
    Outgoing(b"y"),
)


@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "encrypted"])
@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
def test_it_comes_as_it_was_sent(
    libraries: Libraries,
    topic: str,
    keys: Keys,
    sender: str,
    receiver: str,
    compression: str,
    packing: str,
    encrypted: bool,
) -> None:
    known = keys if encrypted else None
    consumer = libraries[receiver].receiver(topic, Receiving(keys=known))
    witness = libraries["ours"].receiver(topic, Receiving("witness", on_crypto_failure="CONSUME"))
    assert isinstance(witness, OurReceiver)
    producer = libraries[sender].sender(topic, Sending(compression, packing, keys=known))
    messages = [Outgoing(LARGE, key="k")] if packing == "chunks" else list(FEW)
    producer.send(messages)
    found = [each.outgoing() for each in take(consumer, len(messages))]
    if packing == "key batch":
        # Each library decides which key's batch it sends first.
        found, messages = sorted(found, key=by_key), sorted(messages, key=by_key)
    assert found == messages
    seen = witness.receive_message()
    assert seen is not None
    _assert_travelled(seen, compression, packing, encrypted=encrypted)


def by_key(message: Outgoing) -> str:
    """A sort key that keeps the order of messages with the same key."""
    return str(message.key or "")


def _assert_travelled(
    seen: "Message[bytes]", compression: str, packing: str, *, encrypted: bool
) -> None:
    metadata = seen.encryption
    assert seen.is_encrypted == encrypted
    assert len(metadata.encryption_keys) == (1 if encrypted else 0)
    assert (
        metadata.DESCRIPTOR.fields_by_name["compression"]
        .enum_type.values_by_number[metadata.compression]
        .name
        == compression
    )
    in_batch = {"batch": len(FEW), "key batch": 2}
    assert metadata.num_messages_in_batch == in_batch.get(packing, 1)
    assert metadata.HasField("num_messages_in_batch") == (packing in in_batch)
    assert (metadata.num_chunks_from_msg > 1) == (packing == "chunks")
