"""Records of open transactions: what was packed comes back, and whatever is damaged is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_pulsar.transactions.records import Acked, Opened, Sent, pack, pack_sent, unpack

NUMBERS = st.integers(0, (1 << 64) - 1)
PLACES = st.integers(0, (1 << 63) - 1).map(Position)
PARTS = st.dictionaries(
    PLACES, st.tuples(st.integers(1, 1 << 200), st.integers(1, 1000)), max_size=5
)
OPENED = st.builds(
    Opened, st.integers(0, 1 << 50), st.integers(0, 1 << 50), st.tuples(st.text(), st.text())
)
ACKED = st.builds(
    Acked,
    st.integers(1, (1 << 32) - 1),
    st.text(),
    st.none() | st.integers(1, 1 << 31),
    st.sets(PLACES, max_size=20).map(sorted),
    PARTS,
    st.booleans(),
)
ENTRY = EntryHeader(Origin.PULSAR, publish_time_ms=1).pack() + b"metadata and payload"


@given(NUMBERS, OPENED | ACKED)
def test_what_was_packed_comes_back(number: int, record: Opened | Acked) -> None:
    assert unpack(pack(number, record, 1)) == (number, record)


@given(NUMBERS, st.integers(1, (1 << 32) - 1), st.lists(st.binary(min_size=1), max_size=5))
def test_messages_come_back_byte_by_byte(number: int, topic: int, entries: list[bytes]) -> None:
    packed = pack_sent(number, topic, entries, 1)
    assert [unpack(each) for each in packed] == [(number, Sent(topic, each)) for each in entries]


@given(st.data())
def test_what_is_damaged_is_refused_or_is_another_record(data: st.DataObject) -> None:
    """Never anything but :class:`ValueError`."""
    record: Opened | Acked = data.draw(OPENED | ACKED)
    whole = bytearray(pack(7, record, 1))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_BYTES, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        unpack(damaged)
    except ValueError:
        return


@pytest.mark.parametrize("length", [0, HEADER_BYTES, HEADER_BYTES + 8, HEADER_BYTES + 9])
def test_what_is_cut_off_is_refused(length: int) -> None:
    record = pack_sent(7, 1, [ENTRY], 1)[0]
    with pytest.raises(ValueError, match="expected"):
        unpack(record[:length])
