"""Rows: messages that come as rows from elsewhere, made into Pulsar entries.

The rule: a batch holds messages of one key, so that a Key_Shared subscription can share entries out
by key; the rows of a key keep their order. The publish time in the header is left at 0: it is set
when the entries are committed.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import ENTRY_FORMAT, HEADER, Origin
from arneb_pulsar.codec import encode_messages

_PULSAR: Final = int(Origin.PULSAR)

BATCH_MESSAGES_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 128 * 1024
"""The bounds that Pulsar's clients have for a batch."""

PRODUCER: Final = "arneb-data"
"""The producer name of messages that came as rows."""


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key, by the hash that Pulsar's clients call Murmur3_32."""
    return key_hash(key) % partitions


def make_entries(messages: Iterable[Message]) -> list[bytes]:
    """Make entries of messages for one topic that are to be delivered at once."""
    by_key: dict[bytes | None, list[Message]] = {}
    for message in messages:
        key = message.key if message.ordering_key is None else message.ordering_key
        by_key.setdefault(key, []).append(message)
    return [make_entry(batch, key) for key, each in by_key.items() for batch in _batches(each)]


def make_entry(batch: Sequence[Message], key: bytes | None, deliver_at_ms: int = 0) -> bytes:
    """Make one entry of messages of one key; a delayed one may hold a single message only."""
    head = HEADER.pack(
        ENTRY_FORMAT, _PULSAR, 0, len(batch), 0, deliver_at_ms, 0, key_hash(key or b""), 0, 0
    )
    return head + encode_messages(batch)


def _batches(messages: Sequence[Message]) -> Iterable[Sequence[Message]]:
    start = size = 0
    for index, message in enumerate(messages):
        full = size >= BATCH_BYTES_MAX or index - start >= BATCH_MESSAGES_MAX
        if full:
            yield messages[start:index]
            start, size = index, 0
        size += len(message.value)
    if start < len(messages):
        yield messages[start:]
