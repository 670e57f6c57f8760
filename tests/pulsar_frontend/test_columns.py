"""Runs of Pulsar entries field by field: what most messages do not have is not overlooked."""

from collections.abc import Sequence

from arneb_core.api.entries.codec import Message, MessageColumns
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin
from arneb_pulsar.codec import CODEC, encode_messages
from arneb_pulsar.columns import PIECE, SEARCHED_BYTES_MAX, are_batches, read_columns
from arneb_pulsar.wire.batch import join_batch
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata, SingleMessageMetadata

TIME_MS = 1_767_225_600_000


def entry_of(body: bytes, messages: int) -> bytes:
    """An entry as the broker keeps it."""
    header = EntryHeader(Origin.PULSAR, messages=messages, publish_time_ms=TIME_MS)
    return header.pack() + body


def said_by(entries: Sequence[bytes]) -> MessageColumns:
    """The columns, by the messages that the codec makes."""
    columns = MessageColumns()
    for entry in entries:
        for message in CODEC.decode(entry):
            columns.add(message)
        columns.entries += 1
    return columns


def batch_of(heads: Sequence[bytes]) -> bytes:
    """A batch of messages of one byte, whose metadata is given as it stands on the wire."""
    metadata = MessageMetadata(
        producer_name="p", sequence_id=7, publish_time=TIME_MS, num_messages_in_batch=len(heads)
    )
    payload = b"".join(len(head).to_bytes(4, "big") + head + b"v" for head in heads)
    return entry_of(join_body(metadata.SerializeToString(), payload), len(heads))


def test_batches_of_several_pieces_are_what_the_codec_says_of_them() -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=40, publish_time=TIME_MS, event_time=5,
        num_messages_in_batch=2 * PIECE + 500,
    )  # fmt: skip
    singles = [SingleMessageMetadata(payload_size=1) for _ in range(2 * PIECE + 500)]
    singles[3].null_value = True
    singles[PIECE].partition_key = "zwölf"
    singles[PIECE + 1].partition_key = ""
    singles[PIECE + 2].partition_key, singles[PIECE + 2].partition_key_b64_encoded = "AAE=", True
    singles[PIECE + 3].null_partition_key = True
    singles[PIECE + 4].ordering_key = b"o"
    singles[2 * PIECE].event_time = 9
    singles[2 * PIECE + 1].sequence_id = 0
    singles[2 * PIECE + 2].sequence_id = 1000
    singles[2 * PIECE + 3].properties.add(key="a", value="b")
    body = join_body(metadata.SerializeToString(), join_batch([(each, b"v") for each in singles]))
    entries = [entry_of(body, len(singles))]
    columns = read_columns(entries, properties=True, bytes_max=1 << 30)
    assert columns == said_by(entries)
    assert columns.sequence_ids[PIECE + 1] == 40 + PIECE + 1
    assert columns.properties[2 * PIECE + 3] == {"a": "b"}


def test_fields_are_found_in_whatever_order_a_client_writes_them() -> None:
    size, key, other = b"\x18\x01", b"\x12\x0a0123456789", b"\x12\x01k"
    pair = b"\x0a\x06\x0a\x01a\x12\x01b"
    fields = [
        (size, key), (key, size), (other, size, pair), (size, pair), (pair, other, size),
        (b"\x48\x01", size), (size, b"\x40\x00"), (b"\x3a\x01o", size), (b"\x28\x05", size),
        (key, size, b"\x30\x01"), (size, b"\x12\x02\xff\xfe"), (size,),
    ]  # fmt: skip
    for heads in ([b"".join(each)] for each in fields):
        entries = [batch_of(heads)]
        assert read_columns(entries, properties=True, bytes_max=1 << 30) == said_by(entries)
    together = [batch_of([b"".join(each) for each in fields])]
    assert read_columns(together, properties=True, bytes_max=1 << 30) == said_by(together)


def test_batches_of_one_are_recognised_among_entries_of_different_lengths() -> None:
    def single(sequence_id: int, name: str, *, is_batch: bool) -> bytes:
        message = Message(
            b"value", producer_name=name, sequence_id=sequence_id, publish_time_ms=TIME_MS,
            batch_index=0 if is_batch else -1,
        )  # fmt: skip
        return entry_of(encode_messages([message]), 1)

    lengths = [(1, "p"), (1 << 40, "p"), (1, "p" * 90), (3, ""), (1, "p" * 2 * SEARCHED_BYTES_MAX)]
    for first in lengths:
        for second in lengths:
            batches = [False, True, False, False, True, False]
            entries = [
                single(*(second if index else first), is_batch=is_batch)
                for index, is_batch in enumerate(batches)
            ]
            assert are_batches(entries) == batches
            assert are_batches([entries[1], entries[0]]) == [True, False]
            assert are_batches([*entries, entries[0][: HEADER_BYTES + 5]]) == [*batches, False]
    assert are_batches([]) == []
