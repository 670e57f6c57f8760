"""The codec: every message of an entry, whatever form its producer chose."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of
from tests.pulsar_frontend.wire.strategies import mutated
from tests.pulsar_frontend.wire.test_compression import COMPRESS

from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_pulsar.codec import CODEC, LARGE_BATCH, encode_message, encode_messages
from arneb_pulsar.packing.entries import make_entry
from arneb_pulsar.wire.batch import join_batch
from arneb_pulsar.wire.checksum import join_body, split_body, verify_body
from arneb_pulsar.wire.metadata import parse_metadata
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata, SingleMessageMetadata

TEXT = st.text(max_size=10)
KEYS = st.one_of(st.none(), st.binary(max_size=10))
TIMES = st.integers(0, 1 << 42)


def entry_of(body: bytes) -> bytes:
    return make_entry(body, 1)


@st.composite
def messages(draw: st.DrawFn, batch_index: int = -1) -> Message:
    """Any message that both protocols can carry."""
    return Message(
        value=draw(st.binary(max_size=40)),
        key=draw(KEYS),
        ordering_key=draw(st.one_of(st.none(), st.binary(min_size=1, max_size=10))),
        properties=draw(st.dictionaries(TEXT, TEXT, max_size=3)),
        publish_time_ms=draw(TIMES),
        event_time_ms=draw(TIMES),
        producer_name=draw(st.text(min_size=1, max_size=10)),
        sequence_id=draw(st.integers(0, 1 << 40)),
        batch_index=batch_index,
    )


@given(messages())
def test_a_message_survives_encoding(message: Message) -> None:
    body = encode_message(message)
    verify_body(body)
    assert CODEC.decode(entry_of(body)) == [message]


@given(st.lists(messages(), min_size=1, max_size=5), TIMES)
def test_several_messages_survive_as_a_batch(found: list[Message], now: int) -> None:
    """A batch has one producer and one publish time."""
    batch = [
        Message(
            message.value, message.key, message.ordering_key, message.properties, now,
            message.event_time_ms, "p", message.sequence_id, index,
        )
        for index, message in enumerate(found)
    ]  # fmt: skip
    assert CODEC.decode(entry_of(encode_messages(batch))) == batch


def test_a_translated_message_has_a_producer_and_a_sequence_id() -> None:
    (message,) = CODEC.decode(entry_of(encode_messages([Message(b"x")])))
    assert (message.producer_name, message.sequence_id) == ("arneb", 0)


@pytest.mark.parametrize("compression", [0, *COMPRESS])
def test_every_compression_is_read(compression: int) -> None:
    payload = b"some text, some text, some text"
    metadata = MessageMetadata(
        producer_name="p",
        sequence_id=5,
        publish_time=6,
        compression=compression,
        uncompressed_size=len(payload),
    )
    data = COMPRESS[compression](payload) if compression else payload
    (message,) = CODEC.decode(entry_of(join_body(metadata.SerializeToString(), data)))
    assert message.value == payload


def test_what_a_batch_says_once_counts_for_each_message() -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=10, publish_time=6, num_messages_in_batch=2, event_time=7
    )
    singles = [
        (SingleMessageMetadata(payload_size=0), b"a"),
        (SingleMessageMetadata(payload_size=0, event_time=9, sequence_id=99), b"b"),
    ]
    body = join_body(metadata.SerializeToString(), join_batch(singles))
    first, second = CODEC.decode(entry_of(body))
    assert (first.sequence_id, first.event_time_ms, first.batch_index) == (10, 7, 0)
    assert (second.sequence_id, second.event_time_ms, second.batch_index) == (99, 9, 1)


def test_a_batch_of_one_has_an_index() -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=10, publish_time=6, num_messages_in_batch=1
    )
    single = (SingleMessageMetadata(payload_size=0), b"a")
    body = join_body(metadata.SerializeToString(), join_batch([single]))
    (message,) = CODEC.decode(entry_of(body))
    assert (message.value, message.batch_index) == (b"a", 0)


def test_keys_that_are_no_text_travel_as_base64() -> None:
    body = encode_message(Message(b"", key=b"\xff\x00", publish_time_ms=1))
    metadata = parse_metadata(split_body(body)[0])
    assert metadata.partition_key_b64_encoded
    assert metadata.partition_key == "/wA="


def test_a_null_key_is_no_key() -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, partition_key="", null_partition_key=True
    )
    (message,) = CODEC.decode(entry_of(join_body(metadata.SerializeToString(), b"")))
    assert message.key is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"encryption_algo": "AES"}, "encrypted"),
        ({"encryption_keys": [{"key": "k", "value": b"v"}]}, "encrypted"),
        ({"num_chunks_from_msg": 3, "chunk_id": 1}, "chunk 1 of 3"),
    ],
)
def test_what_no_broker_can_read_is_refused(fields: dict[str, object], reason: str) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **fields)
    with pytest.raises(ValueError, match=reason):
        CODEC.decode(entry_of(join_body(metadata.SerializeToString(), b"")))


@given(messages(), st.data())
def test_a_damaged_entry_is_read_or_refused(message: Message, data: st.DataObject) -> None:
    damaged = data.draw(mutated(encode_message(message)))
    try:
        found = CODEC.decode(EntryHeader(Origin.PULSAR).pack() + damaged)
    except ValueError:
        return
    assert all(isinstance(each.value, bytes) for each in found)
    for each in found:
        assert all(isinstance(text, str) for pair in each.properties.items() for text in pair)


def large_entry(count: int) -> bytes:
    singles = [(SingleMessageMetadata(sequence_id=n), b"%d" % n) for n in range(count)]
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=7, num_messages_in_batch=count
    )
    return entry_of(join_body(metadata.SerializeToString(), join_batch(singles)))


def test_the_messages_of_a_large_batch_are_the_same_and_made_when_asked_for() -> None:
    count = LARGE_BATCH + 50
    entry, small = large_entry(count), CODEC.decode(large_entry(LARGE_BATCH))
    found: list[Sequence[Message]] = []
    calls = calls_of(lambda: found.append(CODEC.decode(entry)))
    [large] = found
    assert calls < 5 * count, "too many calls for each message"
    assert len(large) == count
    assert list(large[:LARGE_BATCH]) == list(small)
    assert list(large) == [large[index] for index in range(count)]
    assert (large[-1].value, large[-1].batch_index) == (b"%d" % (count - 1), count - 1)


def test_a_large_batch_that_is_damaged_is_refused_as_a_whole() -> None:
    entry = large_entry(LARGE_BATCH + 50)
    with pytest.raises(ValueError, match="expected"):
        CODEC.decode(entry[:-1])
