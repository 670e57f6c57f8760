"""Which messages are superseded, held against a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.codec import Message
from arneb_core.api.entry import EntryHeader, Origin
from arneb_core.api.position import Position, position
from arneb_pulsar.codec import encode_messages
from arneb_pulsar.namespaces.compaction import Compaction, keys_in

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
        (place, index)
        for place, mask in masks.items()
        for index in range(mask.bit_length())
        if mask >> index & 1
    }


@given(st.lists(entries, max_size=12))
def test_what_stays_is_what_a_dictionary_would_keep(log: list[list[tuple[bytes, bytes]]]) -> None:
    found = Compaction()
    kept: dict[bytes | None, tuple[Position, int]] = {}
    everything: set[tuple[Position, int]] = set()
    for number, messages in enumerate(log):
        place = position(1, number)
        found.add(place, entry_of(messages))
        for index, (key, value) in enumerate(messages):
            everything.add((place, index))
            kept.pop(key, None)
            if key is not None and value:
                kept[key] = place, index
    gone = places_of(found.superseded) | places_of(found.spent)
    assert gone == everything - set(kept.values())
    assert not places_of(found.superseded) & places_of(found.spent)
    for masks in (found.superseded, found.spent):
        for place, mask in masks.items():
            assert found.is_whole(place, mask) == (mask.bit_count() == len(log[place & 0xFF]))


@given(st.binary(max_size=40))
def test_what_cannot_be_read_stays(body: bytes) -> None:
    found = Compaction()
    entry = EntryHeader(Origin.PULSAR).pack() + b"\x0e\x01" + body
    if not keys_in(entry):
        found.add(position(1, 0), entry)
        assert not found.superseded
        assert not found.spent
