"""Which messages are superseded, held against a dictionary."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position, position_at
from arneb_pulsar.codec import encode_messages
from arneb_pulsar.namespaces.compaction import Compaction, keys_in
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata

keys = st.none() | st.sampled_from([b"a", b"b", b"c", b"\x00\xff"])
values = st.sampled_from([b"", b"1", b"2"])
entries = st.lists(st.tuples(keys, values), min_size=1, max_size=4)


def entry_of(messages: list[tuple[bytes | None, bytes]]) -> bytes:
    batch = len(messages) > 1
    made = [
        Message(value=value, key=key, batch_index=index if batch else -1)
        for index, (key, value) in enumerate(messages)
    ]
    return EntryHeader(Origin.PULSAR, messages=len(messages)).pack() + encode_messages(made)


def places_of(masks: dict[Position, int]) -> set[tuple[Position, int]]:
    return {
        (position, index)
        for position, mask in masks.items()
        for index in range(mask.bit_length())
        if mask >> index & 1
    }


@given(st.lists(entries, max_size=12))
def test_what_stays_is_what_a_dictionary_would_keep(log: list[list[tuple[bytes, bytes]]]) -> None:
    found = Compaction()
    kept: dict[bytes | None, tuple[Position, int]] = {}
    everything: set[tuple[Position, int]] = set()
    for number, messages in enumerate(log):
        position = position_at(1, number)
        found.add(position, entry_of(messages))
        for index, (key, value) in enumerate(messages):
            everything.add((position, index))
            kept.pop(key, None)
            if key is not None and value:
                kept[key] = position, index
    gone = places_of(found.superseded) | places_of(found.spent)
    assert gone == everything - set(kept.values())
    assert not places_of(found.superseded) & places_of(found.spent)
    for masks in (found.superseded, found.spent):
        for position, mask in masks.items():
            assert found.is_whole(position, mask) == (mask.bit_count() == len(log[position & 0xFF]))


def encrypted(value: bytes, **fields: Any) -> bytes:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, uncompressed_size=len(value), **fields
    )
    metadata.encryption_keys.add(key="k", value=b"secret")
    return EntryHeader(Origin.PULSAR).pack() + join_body(metadata.SerializeToString(), b"sealed")


def test_encrypted_messages_are_superseded_by_the_keys_that_stand_outside() -> None:
    found = Compaction()
    log = [
        entry_of([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]),
        encrypted(b"2", partition_key="a"),
        encrypted(b"3", partition_key="a"),
        encrypted(b"", partition_key="b"),
        encrypted(b"4"),
        # The key of a batch is that of its first message, and tells nothing of the others.
        encrypted(b"5", partition_key="c", num_messages_in_batch=2),
        encrypted(b"6", partition_key="c", num_chunks_from_msg=2),
    ]
    for number, entry in enumerate(log):
        found.add(position_at(1, number), entry)
    assert places_of(found.superseded) == {
        (position_at(1, 0), 0),
        (position_at(1, 0), 1),
        (position_at(1, 1), 0),
        (position_at(1, 4), 0),
    }
    assert places_of(found.spent) == {(position_at(1, 3), 0)}
    assert found.latest == {b"a": (position_at(1, 2), 0), b"c": (position_at(1, 0), 2)}


@given(st.binary(max_size=40))
def test_what_cannot_be_read_stays(body: bytes) -> None:
    found = Compaction()
    entry = EntryHeader(Origin.PULSAR).pack() + b"\x0e\x01" + body
    if not keys_in(entry):
        found.add(position_at(1, 0), entry)
        assert not found.superseded
        assert not found.spent
