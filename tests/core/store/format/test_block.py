"""The block codec: whole, cut, mutated, trailing bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.format.block import (
    BLOCK_BYTES_MAX,
    HEADER_BYTES,
    BlockCorrupt,
    BodyLost,
    block_references,
    block_span,
    decode_block,
    encode_block,
    encode_shared_block,
    pick_entries,
    split_run,
)
from arneb_core.store.format.schema import BodyKey, TopicId, entry_key

positions = st.builds(position_at, st.integers(1, 2**31 - 1), st.integers(0, 2**32 - 1000))
runs = st.lists(st.binary(max_size=60), min_size=1, max_size=30)


@given(positions, runs)
def test_a_block_decodes_to_what_was_encoded(first: Position, entries: list[bytes]) -> None:
    value = bytes(encode_block(first, entries))
    assert decode_block(value) == (first, entries)
    assert block_span(value) == (first, len(entries))


def with_references(
    first: Position, entries: list[bytes], mask: int
) -> tuple[bytes, list[BodyKey]]:
    """A block in which the entries of ``mask`` are references, and their keys."""
    keys = [
        BodyKey(entry_key(TopicId(7), Position(first + index))) if mask >> index & 1 else None
        for index in range(len(entries))
    ]
    return bytes(encode_shared_block(first, entries, keys)), [key for key in keys if key]


@given(positions, runs, st.integers(0, 2**30 - 1))
def test_references_are_found_again(first: Position, entries: list[bytes], mask: int) -> None:
    value, keys = with_references(first, entries, mask)
    bodies = dict(zip(keys, [e for i, e in enumerate(entries) if mask >> i & 1], strict=True))
    assert block_references(value) == keys
    assert decode_block(value, bodies.__getitem__) == (first, entries)
    assert block_span(value) == (first, len(entries))
    assert keys or value == bytes(encode_block(first, entries))
    if keys:
        with pytest.raises(BlockCorrupt, match="without references"):
            decode_block(value)
        with pytest.raises(BodyLost):
            decode_block(value, lambda key: bodies[key] + b"x")


@given(positions, runs, st.integers(0, 2**30 - 1), st.integers(0, 2**30 - 1))
def test_what_is_picked_is_what_stands_there(
    first: Position, entries: list[bytes], mask: int, wanted: int
) -> None:
    value, keys = with_references(first, entries, mask)
    bodies = dict(zip(keys, [e for i, e in enumerate(entries) if mask >> i & 1], strict=True))
    indices = [index for index in range(len(entries)) if wanted >> index & 1]
    picked = pick_entries(value, indices, bodies.__getitem__)
    assert list(picked) == [entries[index] for index in indices]
    with pytest.raises(BlockCorrupt):
        list(pick_entries(value[:-1], indices, bodies.__getitem__))


@given(positions, runs, st.integers(1, 2**30 - 1), st.data())
def test_a_block_with_references_that_is_cut_or_flipped_is_corrupt(
    first: Position, entries: list[bytes], mask: int, data: st.DataObject
) -> None:
    whole, _ = with_references(first, entries, mask)
    value = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    if len(value) == len(whole):
        value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BlockCorrupt):
        decode_block(bytes(value), lambda key: b"")


@given(positions, runs, st.data())
def test_a_truncated_block_is_corrupt(
    first: Position, entries: list[bytes], data: st.DataObject
) -> None:
    value = bytes(encode_block(first, entries))
    size = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(BlockCorrupt):
        decode_block(value[:size])


@given(positions, runs, st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_corrupt(first: Position, entries: list[bytes], more: bytes) -> None:
    with pytest.raises(BlockCorrupt):
        decode_block(bytes(encode_block(first, entries)) + more)


@given(positions, runs, st.data())
def test_a_flipped_bit_is_corrupt(
    first: Position, entries: list[bytes], data: st.DataObject
) -> None:
    value = encode_block(first, entries)
    value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BlockCorrupt):
        decode_block(bytes(value))


@given(st.binary(max_size=200))
def test_random_bytes_are_corrupt(value: bytes) -> None:
    with pytest.raises(BlockCorrupt):
        decode_block(value)


def test_a_count_that_the_bytes_cannot_hold_is_corrupt_even_with_a_right_checksum() -> None:
    from crc32c import crc32c

    value = bytearray(HEADER_BYTES)
    value[0] = 1
    value[16:20] = (2**32 - 1).to_bytes(4, "big")
    value[4:8] = crc32c(bytes(value[8:])).to_bytes(4, "big")
    with pytest.raises(BlockCorrupt, match="4294967295 entries"):
        decode_block(bytes(value))


def test_a_block_of_another_format_is_corrupt() -> None:
    value = encode_block(position_at(1, 0), [b"x"])
    value[0] = 3
    with pytest.raises(BlockCorrupt, match="expected block format 1"):
        block_span(bytes(value))


@given(positions, runs, st.integers(1, 300))
def test_a_split_run_is_the_run_in_pieces(
    first: Position, entries: list[bytes], bytes_max: int
) -> None:
    pieces = split_run(first, entries, bytes_max)
    at = first
    for position, piece, lengths in pieces:
        assert position == at
        assert lengths == list(map(len, piece))
        assert encode_block(position, piece, lengths) == encode_block(position, piece)
        assert len(piece) == 1 or sum(map(len, piece)) <= bytes_max
        at = Position(at + len(piece))
    assert [body for _, piece, _ in pieces for body in piece] == entries


def test_a_split_is_not_finer_than_needed() -> None:
    pieces = split_run(position_at(1, 0), [bytes(1000)] * 600)
    assert [len(piece) for _, piece, _ in pieces] == [262, 262, 76]
    assert BLOCK_BYTES_MAX // 1000 == 262


def test_an_empty_run_gives_no_block() -> None:
    assert split_run(position_at(1, 0), []) == []


def test_a_run_across_a_ledger_boundary_is_refused() -> None:
    with pytest.raises(AssertionError, match="crosses a ledger"):
        encode_block(position_at(1, 2**32 - 1), [b"a", b"b"])
