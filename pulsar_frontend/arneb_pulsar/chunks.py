"""Chunks of large messages: recognises them, and joins them into one entry.

The rule: the chunks of a message have its uuid, as in Pulsar; their payloads, joined in order, are
the message's payload, still compressed if it was.
"""

from collections.abc import Sequence

from arneb_core.api.entries.codec import Part
from arneb_core.api.entries.entry import FLAGS_OFFSET, HEADER_BYTES, HINT, HINT_OFFSET, EntryFlag
from arneb_pulsar.wire.checksum import join_body, split_body
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.metadata import parse_metadata

CHUNK_FIELDS = ("uuid", "num_chunks_from_msg", "chunk_id", "total_chunk_msg_size")


def part_of(entry: bytes) -> Part | None:
    """Return which chunk the entry is; None if it is not a chunk, or damaged."""
    try:
        metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
    except PayloadError:
        return None
    count, index = metadata.num_chunks_from_msg, metadata.chunk_id
    if count <= 1 or not metadata.uuid or not 0 <= index < count:
        return None
    return Part(metadata.uuid, index, count)


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Return the entry of the complete message, with the header and metadata of its last chunk, as
    consumers see them. Raises :class:`PayloadError` for a missing chunk or another message's."""
    found = [part_of(entry) for entry in parts]
    if not found or found[0] is None:
        raise PayloadError("expected chunks, got something else")
    expected = [Part(found[0].message, index, found[0].count) for index in range(found[0].count)]
    if found != expected:
        raise PayloadError(f"expected the {found[0].count} chunks of {found[0].message} in order")
    pieces = [entry[split_body(entry, HEADER_BYTES)[1] :] for entry in parts]
    metadata = parse_metadata(split_body(parts[-1], HEADER_BYTES)[0])
    for name in CHUNK_FIELDS:
        metadata.ClearField(name)
    head = bytearray(parts[-1][:HEADER_BYTES])
    head[FLAGS_OFFSET] &= ~EntryFlag.GROUPED & 0xFF
    HINT.pack_into(head, HINT_OFFSET, 0)
    return bytes(head) + join_body(metadata.SerializeToString(), b"".join(pieces))
