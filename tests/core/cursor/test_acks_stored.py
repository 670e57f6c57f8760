"""What of a cursor is stored: what changed, nothing else, and the same state after loading.

Random programs with failing commits and crashes are in ``test_acks_model.py``.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, LedgerId, position_at
from arneb_core.cursor.acks import KIND_CHUNK, KIND_MASK, AckState
from arneb_core.cursor.holes import CHUNK_SIZE
from arneb_core.testing.invariants import check_ack_state
from arneb_core.testing.model import reloaded
from arneb_core.testing.strategies import everything, log_of

ALL = 1 << 40
CHUNK_KEY = KIND_CHUNK + bytes.fromhex("000000010000")
MASK_KEY = KIND_MASK + bytes.fromhex("0000000100000001")


def test_no_number_of_holes_is_dropped() -> None:
    """Pulsar keeps 10,000 of them over a restart. Here: 200,000, in a store of 50 KiB."""
    ledgers = log_of(*[50_000] * 8)
    every = everything(ledgers)
    state = AckState(ledgers)
    assert state.acknowledge(every[1::2]) == state.holes == 200_000
    loaded = reloaded(state, ledgers)
    assert loaded.holes == 200_000
    assert loaded.unacknowledged(BEFORE_ALL, AFTER_ALL, ALL) == every[::2]
    assert loaded.acknowledge(every[::2]) == 200_000
    assert loaded.mark_delete == every[-1]


def test_one_stuck_entry_is_stored_in_few_bytes() -> None:
    ledgers = log_of(60_000)
    state = AckState(ledgers)
    every = everything(ledgers)
    state.acknowledge(every[1::2])
    state.acknowledge(every[2::2])
    ((suffix, value),) = state.take_changes()
    assert suffix == KIND_CHUNK + bytes.fromhex("000000010000")
    assert value is not None
    assert len(value) < 40


def test_only_the_chunks_that_changed_are_written() -> None:
    ledgers = log_of(CHUNK_SIZE * 3)
    state = AckState(ledgers)
    state.acknowledge([position_at(1, 5 + chunk * CHUNK_SIZE) for chunk in range(3)])
    assert len(state.take_changes()) == 3
    state.acknowledge([position_at(1, 7 + CHUNK_SIZE)])
    assert [suffix for suffix, _ in state.take_changes()] == [
        KIND_CHUNK + bytes.fromhex("000000010001")
    ]
    assert state.take_changes() == []


def test_what_comes_and_goes_between_two_commits_is_not_written() -> None:
    ledgers = log_of(10)
    state = AckState(ledgers)
    state.take_changes()
    state.acknowledge([position_at(1, 1)])
    state.acknowledge_messages(position_at(1, 0), 1, 2)
    state.acknowledge([position_at(1, 0)])
    assert state.take_changes() == []


def test_a_failed_commit_is_written_by_the_next_one() -> None:
    """Without another change; and what came and went meanwhile is deleted to be sure."""
    ledgers = log_of(20)
    state = AckState(ledgers)
    state.acknowledge([position_at(1, 0), position_at(1, 5)])
    state.acknowledge_messages(position_at(1, 8), 1, 2)
    failed = state.take_changes()
    assert len(failed) == 2
    state.mark_dirty_again(failed)
    assert state.take_changes() == failed
    state.mark_dirty_again(failed)
    state.acknowledge_until(position_at(1, 9))
    assert state.take_changes() == [(suffix, None) for suffix, _ in failed]


def test_a_chunk_is_written_again_when_mark_delete_took_holes_from_it() -> None:
    ledgers = log_of(20)
    state = AckState(ledgers)
    state.acknowledge([position_at(1, entry) for entry in (1, 2, 7)])
    state.take_changes()
    state.acknowledge([position_at(1, 0)])
    assert state.mark_delete == position_at(1, 2)
    assert state.take_changes() == [(CHUNK_KEY, bytes(BitMap([7]).serialize()))]


def test_the_keys_and_values_on_disk_do_not_change() -> None:
    state = AckState(log_of(10))
    state.acknowledge([position_at(1, 3)])
    state.acknowledge_messages(position_at(1, 9), 0b1, 10)
    assert state.take_changes() == [
        (KIND_CHUNK + bytes.fromhex("000000010000"), bytes(BitMap([3]).serialize())),
        (KIND_MASK + bytes.fromhex("0000000100000009"), bytes.fromhex("fe03")),
    ]


def test_a_cursor_below_the_log_is_lifted_to_it() -> None:
    ledgers = log_of(3, 3, 3)
    state = AckState(ledgers)
    state.acknowledge([position_at(1, 2), position_at(3, 0)])
    state.acknowledge_messages(position_at(2, 0), 1, 2)
    state.take_changes()
    ledgers.drop_through(LedgerId(2))
    state.log_trimmed()
    assert state.mark_delete == position_at(3, 0)
    assert sorted(suffix[:1] for suffix, value in state.take_changes() if value is None) == [
        KIND_CHUNK, KIND_CHUNK, KIND_MASK
    ]  # fmt: skip
    assert not state.masks


def test_a_seek_deletes_what_was_stored_beyond_it() -> None:
    ledgers = log_of(20)
    state = AckState(ledgers)
    state.acknowledge([position_at(1, entry) for entry in (0, 5, 6)])
    state.acknowledge_messages(position_at(1, 8), 1, 2)
    state.take_changes()
    state.reset(position_at(1, 0))
    assert [value for _, value in state.take_changes()] == [None, None]


def test_a_unit_taken_back_is_taken_back_on_disk() -> None:
    ledgers = log_of(20)
    state = AckState(ledgers)
    state.acknowledge([position_at(1, 5), position_at(1, 7)])
    state.take_changes()
    state.restore([position_at(1, 5)])
    assert state.take_changes() == [(CHUNK_KEY, bytes(BitMap([7]).serialize()))]
    state.restore([position_at(1, 7)])
    assert state.take_changes() == [(CHUNK_KEY, None)]


# Loading what someone else wrote


@pytest.mark.parametrize(
    ("suffix", "value"),
    [
        (CHUNK_KEY, b""),
        (CHUNK_KEY, b"nonsense"),
        (CHUNK_KEY, bytes(BitMap().serialize())),
        (CHUNK_KEY, bytes(BitMap([CHUNK_SIZE]).serialize())),
        (CHUNK_KEY[:-1], bytes(BitMap([1]).serialize())),
        (CHUNK_KEY + b"\0", bytes(BitMap([1]).serialize())),
        (MASK_KEY, b""),
        (MASK_KEY, b"\0\0"),
        (MASK_KEY[:-1], b"\1"),
        (KIND_MASK, b"\1"),
    ],
)
def test_records_that_were_never_written_are_refused(suffix: bytes, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        AckState.load(log_of(5), BEFORE_ALL, [(suffix, value)])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([CHUNK_KEY, MASK_KEY]) | st.binary(max_size=9), st.binary(max_size=30)
        )
    )
)
def test_random_records_are_refused_or_give_a_sound_state(pairs: list[tuple[bytes, bytes]]) -> None:
    try:
        state = AckState.load(log_of(5), BEFORE_ALL, pairs)
    except ValueError:
        return
    check_ack_state(state)


@given(
    st.lists(st.integers(0, CHUNK_SIZE + 500), min_size=1, max_size=9, unique=True),
    st.integers(0, 60), st.binary(min_size=1, max_size=1), st.booleans(),
)  # fmt: skip
def test_mutated_records_are_refused_or_give_a_sound_state(
    entries: list[int], offset: int, byte: bytes, cut: bool
) -> None:
    ledgers = log_of(CHUNK_SIZE + 1_000)
    state = AckState(ledgers)
    state.acknowledge([position_at(1, entry) for entry in entries])
    pairs = []
    for suffix, value in state.take_changes():
        assert value is not None
        at = offset % len(value)
        pairs.append((suffix, value[:at] + (b"" if cut else byte + value[at + 1 :])))
    try:
        loaded = AckState.load(ledgers, state.mark_delete, pairs)
    except ValueError:
        return
    check_ack_state(loaded)


def test_a_stored_cursor_whose_next_ledger_was_dropped_moves_past_the_holes_after_it() -> None:
    ledgers = log_of(2, 5)
    state = AckState(ledgers)
    state.acknowledge([position_at(2, 0), position_at(2, 1)])
    pairs = [(suffix, value) for suffix, value in state.take_changes() if value is not None]
    ledgers.drop_through(LedgerId(1))
    loaded = AckState.load(ledgers, state.mark_delete, pairs)
    assert loaded.mark_delete == position_at(2, 1)
    check_ack_state(loaded)
    assert [value for _, value in loaded.take_changes()] == [None]


def test_stored_acks_that_say_nothing_are_left_out_and_deleted() -> None:
    """Below mark-delete, or of entries that the log does not have."""
    ledgers = log_of(5)
    pairs = [
        (CHUNK_KEY, bytes(BitMap([1, 4, 5, 900]).serialize())),
        (KIND_CHUNK + bytes.fromhex("000000090000"), bytes(BitMap([0]).serialize())),
        (MASK_KEY, b"\1"),
        (KIND_MASK + bytes.fromhex("0000000100000003"), b"\2"),
        (b"\0", b"the engine's own record"),
    ]
    state = AckState.load(ledgers, position_at(1, 1), pairs)
    check_ack_state(state)
    assert state.unacknowledged(BEFORE_ALL, AFTER_ALL, 9) == [position_at(1, 2), position_at(1, 3)]
    assert dict(state.masks) == {position_at(1, 3): 2}
    assert [(suffix, value is None) for suffix, value in state.take_changes()] == [
        (CHUNK_KEY, False),
        (KIND_CHUNK + bytes.fromhex("000000090000"), True),
        (MASK_KEY, True),
    ]
