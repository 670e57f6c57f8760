"""Entries: what the core keeps of a message that a Pulsar producer sent.

The rule: headers and payload are stored as they came; only the number of messages, the key and the
time of delivery are looked at.
"""

from collections.abc import Sequence
from operator import is_
from typing import Final

from arneb_core.api.encoding.checksum import crc32c
from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.due_key import DELIVER_AT_OFFSET, STAMP_BYTES
from arneb_core.api.entries.entry import (
    ENTRY_FORMAT,
    HEADER,
    HEADER_BYTES,
    EntryFlag,
    Origin,
    messages_in,
)
from arneb_pulsar.packing.metadata_pattern import (
    KEY_BYTES_GROUP,
    KEY_GROUP,
    TIME_GROUP,
    MetadataPattern,
    name_field_of,
)
from arneb_pulsar.packing.timed import timed_entries
from arneb_pulsar.wire.checksum import VIEW_BYTES_MIN, split_body, verify_body
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.metadata import (
    BATCH_MESSAGES_MAX,
    ENVELOPE,
    MAGIC_NUMBER,
    ordering_key_of,
    parse_metadata,
)
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata
from arneb_pulsar.wire.varint import six_bytes_varint

PULSAR: Final = int(Origin.PULSAR)

GROUPS_MAX: Final = 0xFFFF
"""Two messages may share a group without harm: both go to one consumer."""

DELIVER_AT: Final = slice(DELIVER_AT_OFFSET, DELIVER_AT_OFFSET + STAMP_BYTES)
AT_ONCE: Final = bytes(STAMP_BYTES)
"""The deliver-at time in an entry's header that means at once."""

NOT_KNOWN: Final = MetadataPattern()


def make_entries(
    bodies: Sequence[bytes], publish_time_ms: int, pattern: MetadataPattern = NOT_KNOWN
) -> tuple[list[bytes], int, bool]:
    """Return the entries of a run of SENDs, how many messages they hold, and whether some are to be
    delivered later. ``pattern``: learnt from earlier messages of the same producer, if there were
    any; without it the first message is parsed, and so every message if each is a run of its own.

    Hot path: a producer's plain messages are recognised by the pattern of their metadata, without
    parsing it. Those without a key share one header except for the time of delivery, which is put
    in at the end; :func:`make_entry` makes all others.
    Raises as :func:`make_entry`, without saying which body was wrong.
    """
    plain = HEADER.pack(ENTRY_FORMAT, PULSAR, 0, 1, publish_time_ms, 0, 0, 0, 0, 0)
    times: list[bytes] = []
    is_some_delayed = False
    unpack, magic, offset = ENVELOPE.unpack_from, MAGIC_NUMBER, ENVELOPE.size
    name_field, form, skipped = pattern.name_field, pattern.fullmatch, pattern.skipped
    named = offset + skipped
    entries: list[bytes] = []
    special: list[bytes] = []
    append, add_time = entries.append, times.append
    for body in bodies:
        size = len(body)
        if offset <= size <= VIEW_BYTES_MIN:
            number, checksum, metadata_bytes = unpack(body)
            end = offset + metadata_bytes
            if (
                number == magic
                and end <= size
                and (not skipped or body.startswith(name_field, offset))
                and (found := form(body, named, end))
                and crc32c(body[6:]) == checksum
            ):
                last = found.lastindex
                if last is None:
                    append(plain + body)
                    continue
                if last == TIME_GROUP:
                    add_time(found[TIME_GROUP])
                    append(body)  # its place; no entry is a body
                    continue
                at_ms = 0 if last == KEY_GROUP else six_bytes_varint(found[last])
                key = found[KEY_GROUP]
                if found[KEY_BYTES_GROUP][0] == len(key):
                    append(_header(1, publish_time_ms, at_ms, key) + body)
                    is_some_delayed |= at_ms > 0
                    continue
        entry = make_entry(body, publish_time_ms)
        append(entry)
        special.append(entry)
        if not name_field or not body.startswith(name_field, offset):
            other = MetadataPattern(name_field_of(body))
            name_field, form, skipped = other.name_field, other.fullmatch, other.skipped
            named = offset + skipped
    if times:
        is_some_delayed = True
        # Mostly all but the first, which was parsed for the producer's name, have a time.
        start = len(bodies) - len(times)
        if not any(map(is_, entries[:start], bodies)):
            entries[start:] = timed_entries(plain, times, bodies[start:])
        else:
            places = [at for at, body in enumerate(bodies) if entries[at] is body]
            made = timed_entries(plain, times, [bodies[at] for at in places])
            for at, entry in zip(places, made, strict=True):
                entries[at] = entry
    if not special:
        return entries, len(entries), is_some_delayed
    messages = len(entries) - len(special) + sum(map(messages_in, special))
    return entries, messages, is_some_delayed or any(map(is_delayed, special))


def make_entry(body: bytes, publish_time_ms: int) -> bytes:
    """Make the entry that keeps the headers and payload of one SEND.

    Raises :class:`ChecksumMismatch` and :class:`PayloadError`.
    """
    verify_body(body)
    return _entry_of(parse_metadata(split_body(body)[0]), body, publish_time_ms)


def is_delayed(entry: bytes) -> bool:
    """Return whether the entry is not to be delivered at once."""
    return entry[DELIVER_AT] != AT_ONCE


def deliver_at_ms(entry: bytes) -> int:
    """Return when the entry is to be delivered; 0 = at once."""
    return int.from_bytes(entry[DELIVER_AT])


def without_delay(entry: bytes) -> bytes:
    """Return the entry, to be delivered at once."""
    return entry[: DELIVER_AT.start] + AT_ONCE + entry[DELIVER_AT.stop :]


def _entry_of(metadata: MessageMetadata, body: bytes, publish_time_ms: int) -> bytes:
    messages = metadata.num_messages_in_batch
    if not 0 < messages <= BATCH_MESSAGES_MAX:
        raise PayloadError(f"expected 1 to {BATCH_MESSAGES_MAX} messages, got {messages}")
    key = ordering_key_of(metadata) or b""
    deliver_at_ms = max(metadata.deliver_at_time, 0)
    if metadata.num_chunks_from_msg > 1 and metadata.uuid:
        return _chunk_header(metadata, publish_time_ms, deliver_at_ms, key) + body
    return _header(messages, publish_time_ms, deliver_at_ms, key) + body


def _header(messages: int, publish_time_ms: int, deliver_at_ms: int, key: bytes) -> bytes:
    return HEADER.pack(
        ENTRY_FORMAT, PULSAR, 0, messages, publish_time_ms, deliver_at_ms, 0, key_hash(key), 0, 0
    )


def _chunk_header(
    metadata: MessageMetadata, publish_time_ms: int, deliver_at_ms: int, key: bytes
) -> bytes:
    """Make the header of a chunk, which goes where the other chunks of its message go. Without a
    key it gets one that they all have, as in Pulsar."""
    if not key:
        key = f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    group = key_hash(metadata.uuid.encode()) & GROUPS_MAX or 1
    return HEADER.pack(
        ENTRY_FORMAT, PULSAR, EntryFlag.GROUPED, 1, publish_time_ms, deliver_at_ms, 0,
        key_hash(key), group, 0,
    )  # fmt: skip


def batch_size_of(entry: bytes) -> int:
    """Return how many messages the batch in a Pulsar entry has; -1 when it is not a batch.

    A batch of one is a batch: its message has the index 0.
    """
    metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
    if metadata.HasField("num_messages_in_batch"):
        return metadata.num_messages_in_batch
    return -1
