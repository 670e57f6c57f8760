"""Entries: what is parsed is what was written, or is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_cluster.protocol import entries
from arneb_cluster.protocol.entries import (
    OVERHEAD_BYTES,
    VERSION,
    EntryCorrupt,
    Kind,
    Record,
    UnknownVersion,
    _sealed,
    encode_record,
    encode_take,
    parse_entry,
)
from arneb_cluster.protocol.values import FOUNDATION, Link, Place, Take

U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 63) - 1)
PLACES = st.builds(Place, U64, U64)
LINKS = st.builds(Link, U64, U32)
TEXTS = st.text(max_size=20)
TAKES = st.builds(Take, TEXTS, TEXTS, U64, TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3))
KINDS = st.sampled_from([Kind.CHANGES, Kind.PART, Kind.HEARTBEAT, Kind.RESIGNATION])


@given(TAKES)
def test_a_take_is_parsed_as_it_was_written(take: Take) -> None:
    assert parse_entry(encode_take(take)) == take


@given(KINDS, U64, LINKS, U64, U64, PLACES, st.binary(max_size=200))
def test_a_record_is_parsed_as_it_was_written(
    kind: Kind, epoch: int, before: Link, stored: int, stamp_ms: int, place: Place, body: bytes
) -> None:
    data, link = encode_record(kind, epoch, before, stored, stamp_ms, place, body)
    assert len(data) == OVERHEAD_BYTES + len(body)
    assert parse_entry(data) == Record(
        kind,
        epoch,
        before.number + 1,
        before.checksum,
        stored,
        stamp_ms,
        place,
        body,
        link.checksum,
    )
    assert link.number == before.number + 1


@given(st.binary(max_size=40), st.data())
def test_one_changed_bit_is_always_noticed(body: bytes, data: st.DataObject) -> None:
    made, _ = encode_record(Kind.CHANGES, 1, FOUNDATION, 0, 5, Place(1, 2), body)
    bit = data.draw(st.integers(0, 8 * len(made) - 1))
    changed = bytearray(made)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises((EntryCorrupt, UnknownVersion)):
        parse_entry(bytes(changed))


@given(st.binary(max_size=80), st.integers(0, 80))
def test_a_truncated_entry_is_not_an_entry(body: bytes, left: int) -> None:
    made, _ = encode_record(Kind.CHANGES, 1, FOUNDATION, 0, 5, Place(1, 2), body)
    if left < len(made):
        with pytest.raises(EntryCorrupt):
            parse_entry(made[:left])


@given(st.binary(max_size=60))
def test_other_writers_bytes_are_garbage(data: bytes) -> None:
    if not data.startswith(b"aRl"):
        with pytest.raises(EntryCorrupt):
            parse_entry(data)


def test_the_checksum_covers_all_earlier_records() -> None:
    _, one = encode_record(Kind.CHANGES, 1, FOUNDATION, 0, 5, Place(1, 2), b"one")
    _, other = encode_record(Kind.CHANGES, 1, FOUNDATION, 0, 5, Place(1, 2), b"other")
    _, after_one = encode_record(Kind.HEARTBEAT, 1, one, 0, 6, Place(1, 2))
    _, after_other = encode_record(Kind.HEARTBEAT, 1, other, 0, 6, Place(1, 2))
    assert after_one.number == after_other.number
    assert after_one.checksum != after_other.checksum


def test_an_earlier_version_is_written_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "VERSION", 3)
    for version in (1, 2, 3):
        made, _ = encode_record(Kind.PART, 1, FOUNDATION, 0, 5, Place(1, 2), b"body", version)
        assert made[3] == version
        assert isinstance(parse_entry(made), Record)


def test_a_later_version_is_not_skipped() -> None:
    made, _ = encode_record(Kind.CHANGES, 1, FOUNDATION, 0, 5, Place(1, 2), b"body")
    with pytest.raises(UnknownVersion, match="version 1, got version 2"):
        parse_entry(made[:3] + b"\2" + made[4:])


@pytest.mark.parametrize(
    "fields",
    [
        b"[]",
        b'{"shard": "s"}',
        b'{"shard": 1, "history": "h", "epoch": 1, "node": "n", "nonce": "x", "addresses": {}}',
        b'{"shard": "s", "history": "h", "epoch": "1", "node": "n", "nonce": "x", "addresses": {}}',
        b'{"shard": "s", "history": "h", "epoch": 1, "node": "n", "nonce": "x", "addresses": [1]}',
        b"\xff",
    ],
)
def test_a_take_with_other_content_is_garbage(fields: bytes) -> None:
    with pytest.raises(EntryCorrupt, match="TAKE"):
        parse_entry(_sealed(Kind.TAKE, fields, VERSION)[0])
