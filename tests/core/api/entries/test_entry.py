"""An entry's header: what was packed is read, and what was never packed is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.entry import (
    ENTRY_FORMAT,
    HEADER_BYTES,
    TIME_MS_MAX,
    EntryFlag,
    EntryHeader,
    Origin,
    messages_in,
    published_at,
    read_header,
)
from arneb_core.testing.strategies import entries, entry_headers

GOLDEN = EntryHeader(
    origin=Origin.PULSAR,
    messages=3,
    flags=EntryFlag.TRANSIENT,
    publish_time_ms=0x0102030405060708,
    deliver_at_ms=9,
    expires_at_ms=10,
    key_hash=0x7FFFFFFF,
    hint=0x1122,
)


@given(entry_headers(), st.binary(max_size=50))
def test_a_header_is_read_as_it_was_packed(header: EntryHeader, body: bytes) -> None:
    entry = header.pack() + body
    assert read_header(entry) == header
    assert messages_in(entry) == header.messages
    assert entry[HEADER_BYTES:] == body


def test_the_layout_on_disk_does_not_change() -> None:
    """Stores outlive the code: this is what format 1 looks like."""
    assert GOLDEN.pack() == bytes.fromhex(
        "01 02 0001 00000003 0102030405060708 0000000000000009 000000000000000a7fffffff 1122 0000"
    )


def test_a_header_has_defaults_for_a_plain_message() -> None:
    header = read_header(EntryHeader(Origin.AMQP).pack())
    assert header.messages == 1
    assert header == EntryHeader(Origin.AMQP)


@given(entry_headers(), st.integers(0, HEADER_BYTES - 1))
def test_a_header_cut_short_is_refused(header: EntryHeader, length: int) -> None:
    with pytest.raises(ValueError, match=f"at least 40 bytes, got {length}"):
        read_header(header.pack()[:length])


@given(entries(), st.integers(0, HEADER_BYTES - 1), st.integers(1, 255))
def test_a_mutated_header_is_refused_or_says_what_it_says(
    entry: bytes, offset: int, flip: int
) -> None:
    """No mutation is read as something that would be packed differently."""
    mutated = bytearray(entry)
    mutated[offset] ^= flip
    try:
        header = read_header(bytes(mutated))
    except ValueError:
        return
    assert header.pack() == mutated[:HEADER_BYTES]
    assert header != read_header(entry)


@given(st.binary(max_size=80))
def test_random_bytes_never_raise_anything_but_value_error(data: bytes) -> None:
    try:
        header = read_header(data)
    except ValueError:
        return
    assert header.pack() == data[:HEADER_BYTES]


@pytest.mark.parametrize(
    ("offset", "value", "complaint"),
    [
        (0, ENTRY_FORMAT + 1, "expected entry format 1, got 2"),
        (0, 0, "expected entry format 1, got 0"),
        (1, 0, "0 is not a valid Origin"),
        (1, 4, "4 is not a valid Origin"),
        (7, 0, "at least one message"),
        (39, 1, "reserved field 1"),
    ],
)
def test_what_is_wrong_is_named(offset: int, value: int, complaint: str) -> None:
    entry = bytearray(EntryHeader(Origin.AMQP).pack())
    entry[offset] = value
    with pytest.raises(ValueError, match=complaint):
        read_header(bytes(entry))


def test_headers_are_values() -> None:
    assert replace(GOLDEN, messages=4) != GOLDEN
    assert hash(replace(GOLDEN)) == hash(GOLDEN)


@given(
    entry_headers(),
    st.integers(0, 1 << 62),
    st.sampled_from([0, 500]),
    st.sampled_from([0, 300]),
    st.binary(max_size=50),
)
def test_what_is_published_later_waits_and_lives_as_long(
    header: EntryHeader, later_ms: int, waits: int, lives: int, body: bytes
) -> None:
    def at(now_ms: int) -> EntryHeader:
        return replace(
            header,
            publish_time_ms=now_ms,
            deliver_at_ms=waits and now_ms + waits,
            expires_at_ms=lives and now_ms + lives,
        )

    moved = published_at(at(1 << 40).pack() + body, later_ms)
    assert read_header(moved) == at(later_ms)
    assert moved[HEADER_BYTES:] == body


@given(st.integers(0, TIME_MS_MAX), st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_no_time_of_delivery_is_out_of_bounds(deliver: int, published: int, later: int) -> None:
    header = EntryHeader(Origin.PULSAR, publish_time_ms=published, deliver_at_ms=deliver)
    moved = read_header(published_at(header.pack(), later)).deliver_at_ms
    if not deliver or later == published:
        assert moved == deliver
    else:
        assert moved == min(max(later + deliver - published, 0), TIME_MS_MAX)
