"""Runs of Pulsar entries field by field, for readers of whole logs.

The rule: what :mod:`arneb_pulsar.codec` says of an entry is what is said here, without making a
message of each; what cannot be read is raw, never an error. A property test holds the two against
each other.

Hot path of Spark's scans: one turn of the loop in :func:`_add_batch` is one message of a batch,
so what most messages do not have is asked for once a batch, of the bytes.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from struct import Struct, error
from typing import Final

from google.protobuf.message import DecodeError

from arneb_core.api.codec import MessageColumns
from arneb_core.api.entry import HEADER_BYTES, messages_in, read_header
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.compression import decompress
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.metadata import (
    ENVELOPE,
    MAGIC_NUMBER,
    key_of,
    parse_metadata,
    properties_of,
    refuse_unreadable,
    text_of,
)
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata, SingleMessageMetadata

_SIZE: Final = Struct(">I")

_ENVELOPE: Final = itemgetter(slice(HEADER_BYTES, HEADER_BYTES + ENVELOPE.size))
_MAGIC: Final = MAGIC_NUMBER.to_bytes(2, "big")

SEARCHED_BYTES_MAX: Final = 1024
"""Where metadata is longer, which is rare, each entry is looked at by itself."""

BATCH_TAG: Final = b"\x58"
"""Begins the field ``num_messages_in_batch``: metadata without it is of no batch."""


def read_columns(entries: Sequence[bytes], *, properties: bool, bytes_max: int) -> MessageColumns:
    """What the entries say, as :class:`arneb_core.api.codec.ColumnCodec` promises it."""
    columns = MessageColumns()
    bytes_read = 0
    for entry in entries:
        messages = len(columns.values)
        try:
            bytes_read += _add_entry(columns, entry, properties)
        except (DecodeError, PayloadError, error):
            columns.cut(messages)
            count = messages_in(entry)
            indexes = range(count) if count > 1 or _is_batch(entry) else (-1,)
            columns.add_raw(entry[HEADER_BYTES:], read_header(entry).publish_time_ms, indexes)
            bytes_read += len(entry)
        columns.entries += 1
        if bytes_read >= bytes_max:
            break
    return columns


def are_batches(entries: Sequence[bytes]) -> list[bool]:
    """Of each, whether its messages have batch indexes; False if it is damaged.

    Metadata in which the field's tag does not occur need not be parsed."""
    found = [False] * len(entries)
    for index in _perhaps_batches(entries):
        found[index] = _is_batch(entries[index])
    return found


def _perhaps_batches(entries: Sequence[bytes]) -> Iterator[int]:
    """Those that have the tag in their metadata, or a little behind it. What is in the same place
    of all entries is made one stretch of bytes, so that nothing is done once an entry."""
    envelopes, width = b"".join(map(_ENVELOPE, entries)), ENVELOPE.size
    sizes = [envelopes[at::width] for at in range(width - _SIZE.size, width)]
    most = 0
    if len(envelopes) == width * len(entries) and not any(map(any, sizes[:2])):
        most = max(sizes[3], default=0) + 256 * max(sizes[2], default=0)
    start = HEADER_BYTES + width
    searched = b""
    if 0 < most <= SEARCHED_BYTES_MAX:
        searched = b"".join(map(itemgetter(slice(start, start + most)), entries))
    if not searched or len(searched) != most * len(entries):
        yield from _each_perhaps_batch(entries)
        return
    if any(set(envelopes[at::width]) != {byte} for at, byte in enumerate(_MAGIC)):
        yield from _each_perhaps_batch(entries)
        return
    at = searched.find(BATCH_TAG)
    while at >= 0:
        yield at // most
        at = searched.find(BATCH_TAG, (at // most + 1) * most)


def _each_perhaps_batch(entries: Sequence[bytes]) -> Iterator[int]:
    """The same for entries of any form, one by one."""
    unpack, start = ENVELOPE.unpack_from, HEADER_BYTES + ENVELOPE.size
    for index, entry in enumerate(entries):
        if len(entry) >= start:
            magic, _, size = unpack(entry, HEADER_BYTES)
            if magic == MAGIC_NUMBER and entry.find(BATCH_TAG, start, start + size) < 0:
                continue
        yield index


def _is_batch(entry: bytes) -> bool:
    try:
        return parse_metadata(split_body(entry, HEADER_BYTES)[0]).HasField("num_messages_in_batch")
    except PayloadError:
        return False


def _add_entry(columns: MessageColumns, entry: bytes, properties: bool) -> int:
    """Add the messages of an entry; how many bytes they are."""
    head, at = split_body(entry, HEADER_BYTES)
    metadata = parse_metadata(head)
    refuse_unreadable(metadata)
    if metadata.num_messages_in_batch != messages_in(entry):
        raise PayloadError("expected as many messages as the header counts")
    payload = entry[at:]
    if compression := metadata.compression:
        payload = decompress(payload, compression, metadata.uncompressed_size)
    if metadata.HasField("num_messages_in_batch"):
        _add_batch(columns, metadata, payload, properties)
    else:
        _add_single(columns, metadata, payload, properties)
    return len(payload)


def _add_single(
    columns: MessageColumns, metadata: MessageMetadata, payload: bytes, properties: bool
) -> None:
    columns.values.append(None if metadata.null_value else payload)
    columns.keys.append(key_of(metadata))
    columns.ordering_keys.append(metadata.ordering_key or None)
    columns.publish_times_ms.append(metadata.publish_time)
    columns.event_times_ms.append(metadata.event_time)
    columns.producer_names.append(text_of(metadata.producer_name))
    columns.sequence_ids.append(metadata.sequence_id)
    columns.schema_versions.append(metadata.schema_version or None)
    columns.batch_indexes.append(-1)
    if properties:
        columns.properties.append(properties_of(metadata.properties))


def _add_batch(
    columns: MessageColumns, metadata: MessageMetadata, payload: bytes, properties: bool
) -> None:
    count, end, at = metadata.num_messages_in_batch, len(payload), 0
    first_sequence, first_time = metadata.sequence_id, metadata.event_time
    read, size_at = SingleMessageMetadata.FromString, _SIZE.unpack_from
    add_value, add_key = columns.values.append, columns.keys.append
    add_time, add_sequence = columns.event_times_ms.append, columns.sequence_ids.append
    add_ordering_key = columns.ordering_keys.append
    for index in range(count):
        start = at + 4
        at = start + size_at(payload, at)[0]
        single = read(payload[start:at])
        start = at
        size = single.payload_size
        at += size
        if size < 0 or at > end:
            raise PayloadError(f"expected {size} bytes of message {index}, got {end - start}")
        add_value(None if single.null_value else payload[start:at])
        add_key(key_of(single))
        add_ordering_key(single.ordering_key or None)
        add_time(single.event_time or first_time)
        sequence = single.sequence_id
        if not sequence and not single.HasField("sequence_id"):
            sequence = first_sequence + index
        add_sequence(sequence)
        if properties:
            columns.properties.append(properties_of(single.properties))
    if at != end:
        raise PayloadError(f"expected the end after {count} messages, got {end - at} bytes")
    columns.publish_times_ms += [metadata.publish_time] * count
    columns.producer_names += [text_of(metadata.producer_name)] * count
    columns.schema_versions += [metadata.schema_version or None] * count
    columns.batch_indexes += range(count)
