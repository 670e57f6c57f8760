"""Runs of Pulsar entries field by field, for readers of whole logs.

The rule: the columns have the same values as the messages of :mod:`arneb_pulsar.codec`, but no
message objects are made; an entry that cannot be read becomes raw bytes, never an error. A property
test compares the two.

Hot path of Spark's scans: each pass of the loop in :func:`_add_piece` is one message of a batch, so
the bytes of many messages are searched at once for fields that most messages do not have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from struct import Struct, error
from types import MappingProxyType
from typing import Final

from google.protobuf.message import DecodeError

from arneb_core.api.entries.codec import MessageColumns
from arneb_core.api.entries.entry import HEADER_BYTES, messages_in, read_header
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

_METADATA_AT: Final = HEADER_BYTES + ENVELOPE.size
_ENVELOPE: Final = slice(HEADER_BYTES, _METADATA_AT)
_MAGIC: Final = MAGIC_NUMBER.to_bytes(2, "big")

SEARCHED_BYTES_MAX: Final = 1024
"""The longest metadata that is searched in many entries at once; if it is longer, which is rare,
each entry is searched by itself."""

BATCH_TAG: Final = b"\x58"
"""The tag of the field ``num_messages_in_batch``: metadata without it belongs to no batch."""

PROPERTIES_TAG: Final = b"\x0a"
KEY_TAG: Final = b"\x12"
EVENT_TIME_TAG: Final = b"\x28"
BASE64_TAG: Final = b"\x30"
ORDERING_KEY_TAG: Final = b"\x3a"
SEQUENCE_ID_TAG: Final = b"\x40"
NULL_VALUE_TAG: Final = b"\x48"
"""The tags of fields in the metadata of one message of a batch. The byte may occur for another
reason, but every encoder writes it before its field."""

PIECE: Final = 1000
"""How many messages of a batch are read at once, which bounds the metadata in memory."""

_KEY: Final = attrgetter("partition_key")
_IN_BASE64: Final = attrgetter("partition_key_b64_encoded")
_SEQUENCE_ID: Final = attrgetter("sequence_id")
_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


def read_columns(entries: Sequence[bytes], *, properties: bool, bytes_max: int) -> MessageColumns:
    """Return the entries' fields, as :class:`arneb_core.api.entries.codec.ColumnCodec` promises."""
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
    """Return for each entry whether its messages have batch indexes; False if it is damaged.

    Metadata without the field's tag need not be parsed."""
    found = [False] * len(entries)
    for index in _perhaps_batches(entries):
        found[index] = _is_batch(entries[index])
    return found


def _perhaps_batches(entries: Sequence[bytes]) -> Iterator[int]:
    """Yield the indexes of entries with the tag in their metadata, or shortly after it. The same
    range of all entries is joined into one stretch of bytes, so that no step is done per entry; the
    range is as long as the first entry's metadata, which is mostly the length of all."""
    first = entries[0] if entries else b""
    most = _longest(first[_ENVELOPE], ENVELOPE.size) if len(first) >= _METADATA_AT else 0
    stretch = _stretch(entries, most)
    longest = _longest(stretch, ENVELOPE.size + most)
    if longest > most:
        most = longest
        stretch = _stretch(entries, most)
    if not stretch:
        yield from _each_perhaps_batch(entries)
        return
    width = ENVELOPE.size + most
    at = stretch.find(BATCH_TAG)
    while at >= 0:
        index, place = divmod(at, width)
        if place < ENVELOPE.size:  # in a checksum, for example
            at = stretch.find(BATCH_TAG, index * width + ENVELOPE.size)
            continue
        yield index
        at = stretch.find(BATCH_TAG, (index + 1) * width)


def _stretch(entries: Sequence[bytes], metadata_bytes: int) -> bytes:
    """Return the entries' envelopes, each with ``metadata_bytes`` bytes after it, joined; empty if
    an entry is shorter or begins differently."""
    if not 0 < metadata_bytes <= SEARCHED_BYTES_MAX:
        return b""
    width = ENVELOPE.size + metadata_bytes
    cut = itemgetter(slice(HEADER_BYTES, HEADER_BYTES + width))
    stretch = b"".join(map(cut, entries))
    whole = len(stretch) == width * len(entries) and all(
        stretch[at::width].count(byte) == len(entries) for at, byte in enumerate(_MAGIC)
    )
    return stretch if whole else b""


def _longest(stretch: bytes, width: int) -> int:
    """Return the largest size of metadata that the stretch's envelopes have; 0 if it is empty."""
    columns = [stretch[at::width] for at in range(ENVELOPE.size - _SIZE.size, ENVELOPE.size)]
    if all(column.count(column[:1]) == len(column) for column in columns):
        return int.from_bytes(b"".join(column[:1] for column in columns), "big")
    sizes = (bytes(size) for size in zip(*columns, strict=True))
    return max((int.from_bytes(size, "big") for size in set(sizes)), default=0)


def _each_perhaps_batch(entries: Sequence[bytes]) -> Iterator[int]:
    """Yield the same for entries of any form, looking at them one by one."""
    unpack, start = ENVELOPE.unpack_from, _METADATA_AT
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
    """Add the messages of an entry; return how many bytes they have."""
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
    for first in range(0, count, PIECE):
        at = _add_piece(
            columns, metadata, payload, at, first, min(count - first, PIECE), properties
        )
    if at != end:
        raise PayloadError(f"expected the end after {count} messages, got {end - at} bytes")
    columns.publish_times_ms += [metadata.publish_time] * count
    columns.producer_names += [text_of(metadata.producer_name)] * count
    columns.schema_versions += [metadata.schema_version or None] * count
    columns.batch_indexes += range(count)


def _add_piece(
    columns: MessageColumns,
    metadata: MessageMetadata,
    payload: bytes,
    at: int,
    first: int,
    count: int,
    properties: bool,
) -> int:
    """Add ``count`` messages of a batch, from index ``first`` and byte ``at`` on; return where they
    end. A field whose tag does not occur in their metadata is not read from any of them."""
    read, size_at, end = SingleMessageMetadata.FromString, _SIZE.unpack_from, len(payload)
    singles: list[SingleMessageMetadata] = []
    heads: list[bytes] = []
    values: list[bytes | None] = []
    for index in range(first, first + count):
        start = at + 4
        at = start + size_at(payload, at)[0]
        head = payload[start:at]
        single = read(head)
        start = at
        size = single.payload_size
        at += size
        if size < 0 or at > end:
            raise PayloadError(f"expected {size} bytes of message {index}, got {end - start}")
        singles.append(single)
        heads.append(head)
        values.append(payload[start:at])
    joined = b"".join(heads)
    if NULL_VALUE_TAG in joined:
        pairs = zip(singles, values, strict=True)
        values = [None if single.null_value else value for single, value in pairs]
    columns.values += values
    columns.keys += _keys(singles, joined)
    ordered = ORDERING_KEY_TAG in joined
    columns.ordering_keys += (
        [single.ordering_key or None for single in singles] if ordered else [None] * count
    )
    time, timed = metadata.event_time, EVENT_TIME_TAG in joined
    columns.event_times_ms += (
        [single.event_time or time for single in singles] if timed else [time] * count
    )
    columns.sequence_ids += _sequence_ids(singles, joined, metadata.sequence_id + first)
    if properties:
        known = PROPERTIES_TAG in joined and PROPERTIES_TAG in b"".join(map(_after_key, heads))
        columns.properties += (
            [properties_of(single.properties) for single in singles]
            if known
            else [_NO_PROPERTIES] * count
        )
    return at


def _after_key(head: bytes) -> bytes:
    """Return metadata without a key at its beginning, as a key's length or letters may be any
    byte."""
    return head[2 + head[1] :] if head[:1] == KEY_TAG and head[1] < 0x80 else head


def _keys(singles: Sequence[SingleMessageMetadata], joined: bytes) -> Iterable[bytes | None]:
    if KEY_TAG not in joined:
        return [None] * len(singles)
    keys = list(map(_KEY, singles))
    in_base64 = BASE64_TAG in joined and any(map(_IN_BASE64, singles))
    # A field that is not UTF-8 is returned as bytes, and an empty one may be missing.
    if in_base64 or not all(keys) or bytes in set(map(type, keys)):
        return map(key_of, singles)
    return map(str.encode, keys)


def _sequence_ids(
    singles: Sequence[SingleMessageMetadata], joined: bytes, first: int
) -> Iterable[int]:
    """Return the messages' own sequence ids; a missing one is counted on from the batch's."""
    counted = range(first, first + len(singles))
    if SEQUENCE_ID_TAG not in joined:
        return counted
    own = list(map(_SEQUENCE_ID, singles))
    if 0 not in own:
        return own
    return [
        number if number or single.HasField("sequence_id") else instead
        for single, number, instead in zip(singles, own, counted, strict=True)
    ]
