"""Frames of what is sent, against protobuf and the codec that brokers read them with."""

import zlib
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.client.errors import MessageTooLarge
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.packing import Packed, Packer, single_of
from arneb_pulsar.wire.batch import split_batch
from arneb_pulsar.wire.checksum import split_body, verify_body
from arneb_pulsar.wire.commands import parse_command
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.metadata import parse_metadata
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandSend,
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
MESSAGES = st.builds(
    OutgoingMessage,
    payload=st.binary(max_size=300),
    sequence_id=st.integers(0, (1 << 63) - 1),
    key=st.none() | TEXT | st.binary(max_size=20),
    ordering_key=st.none() | st.binary(min_size=1, max_size=20),
    properties=st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=3),
    event_time_ms=st.integers(0, 1 << 50),
    null_value=st.booleans(),
)


def packer() -> Packer:
    made = Packer(7)
    made.name = "p"
    return made


def opened(packed: Packed) -> tuple[CommandSend, MessageMetadata, bytes]:
    commands, bodies = FrameReader(64 << 20).receive(packed.frame)
    verify_body(bodies[0])
    head, at = split_body(bodies[0])
    return parse_command(commands[0]).send, parse_metadata(head), bodies[0][at:]


def check(single: "SingleMessageMetadata | MessageMetadata", message: OutgoingMessage) -> None:
    key: str | bytes | None = None
    if single.HasField("partition_key"):
        key = single.partition_key
        if single.partition_key_b64_encoded:
            key = b64decode(key)
    assert key == message.key
    assert (single.ordering_key or None) == message.ordering_key
    properties = {pair.key: pair.value for pair in single.properties}
    assert (properties or None) == message.properties
    assert single.event_time == message.event_time_ms
    assert single.null_value == message.null_value


@given(MESSAGES)
def test_the_metadata_of_one_in_a_batch_is_as_protobuf_reads_it(message: OutgoingMessage) -> None:
    single = SingleMessageMetadata.FromString(single_of(message))
    assert single.payload_size == len(message.payload)
    assert single.sequence_id == message.sequence_id
    check(single, message)


@given(st.lists(MESSAGES, min_size=1, max_size=5))
def test_a_batch_is_split_into_what_it_was_made_of(messages: list[OutgoingMessage]) -> None:
    packed = packer().pack_batch(messages, 5)
    send, metadata, payload = opened(packed)
    assert (send.producer_id, send.num_messages) == (7, len(messages))
    assert send.sequence_id == messages[0].sequence_id == packed.first
    assert metadata.highest_sequence_id == messages[-1].sequence_id == packed.last
    assert (metadata.publish_time, metadata.uncompressed_size) == (5, len(payload))
    found = split_batch(payload, metadata.num_messages_in_batch)
    for (single, data), message in zip(found, messages, strict=True):
        assert data == message.payload
        check(single, message)


@given(MESSAGES, st.integers(1, 400), st.integers(0, 4_000))
def test_a_message_travels_whole_or_in_chunks_or_not_at_all(
    message: OutgoingMessage, bytes_max: int, chunk_bytes_max: int
) -> None:
    if len(message.payload) > bytes_max and not chunk_bytes_max:
        with pytest.raises(MessageTooLarge):
            packer().pack_single(message, 5, bytes_max, 0)
        return
    found = packer().pack_single(message, 5, bytes_max, chunk_bytes_max)
    chunks = [opened(each) for each in found]
    limit = min(chunk_bytes_max or bytes_max, bytes_max)
    assert (len(chunks) > 1) == (len(message.payload) > max(limit, 1))
    assert all(len(payload) <= max(limit, 1) for _, _, payload in chunks)
    assert b"".join(payload for _, _, payload in chunks) == message.payload
    for index, (send, metadata, _) in enumerate(chunks):
        assert send.sequence_id == message.sequence_id
        check(metadata, message)
        if len(chunks) > 1:
            assert send.is_chunk
            assert (metadata.chunk_id, metadata.num_chunks_from_msg) == (index, len(chunks))
            assert metadata.total_chunk_msg_size == len(message.payload)
            assert metadata.uuid == f"p-{message.sequence_id}"


@pytest.mark.parametrize("payload", [b"", b"x" * 100])
def test_nothing_is_not_compressed(payload: bytes) -> None:
    """The official C++ client cannot read nothing that was compressed."""
    made = Packer(7, compression=CompressionType.ZLIB, compress=zlib.compress)
    made.name = "p"
    message = OutgoingMessage(payload, sequence_id=1)
    (packed,) = made.pack_single(message, 0, 1_000, 0)
    _, metadata, found = opened(packed)
    if payload:
        assert metadata.compression == CompressionType.ZLIB
        assert zlib.decompress(found) == payload
    else:
        assert metadata.compression == CompressionType.NONE
        assert found == b""
    assert metadata.uncompressed_size == len(payload)
