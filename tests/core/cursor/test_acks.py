"""What a subscription has acknowledged: the edges of chunks and ledgers, one at a time.

Random programs against the model are in ``test_acks_model.py``.
"""

import pytest

from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, LedgerId, position_at
from arneb_core.cursor.acks import ONE_BY_ONE_MAX, AckState
from arneb_core.cursor.holes import CHUNK_SIZE
from arneb_core.testing.invariants import check_ack_state
from arneb_core.testing.model import reloaded
from arneb_core.testing.strategies import everything, log_of

ALL = 1 << 40


@pytest.mark.parametrize("size", [1, 2, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1])
def test_a_gap_closes_over_ledgers_of_any_size(size: int) -> None:
    """All but the first entry, from the back: nothing moves; then the first: all of it."""
    ledgers = log_of(size, 1, size, 0, size)
    every = everything(ledgers)
    state = AckState(ledgers)
    assert state.acknowledge(every[: len(every) // 2 : -1]) == len(every) - len(every) // 2 - 1
    assert state.acknowledge(every[1:]) == len(every) // 2
    assert state.mark_delete == BEFORE_ALL
    assert state.holes == len(every) - 1
    check_ack_state(reloaded(state, ledgers))
    assert state.acknowledge([every[0]]) == 1
    assert (state.mark_delete, state.holes, state.backlog) == (every[-1], 0, 0)
    check_ack_state(state)


@pytest.mark.parametrize("entry", [CHUNK_SIZE - 2, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1])
@pytest.mark.parametrize("length", [1, 2, 3, ONE_BY_ONE_MAX, ONE_BY_ONE_MAX + 1, 20])
def test_a_run_moves_mark_delete_over_the_end_of_a_chunk(entry: int, length: int) -> None:
    ledgers = log_of(2 * CHUNK_SIZE)
    state = AckState(ledgers)
    state.reset(position_at(1, entry - length + 1))
    run = [position_at(1, entry - length + 1 + i) for i in range(length)]
    assert state.acknowledge(run) == length
    assert (state.mark_delete, state.holes) == (position_at(1, entry), 0)


@pytest.mark.parametrize(
    "entries",
    [
        [0, 0, 2],
        [0, 1, 1, 3],
        [0, 2, 1, 3],
        [0, 9, 9, 3],
        [0, 5, 2, 3],
        [0, 0, 0, 0, 4, 4, 6],
        [3, 2, 1, 0],
        [0, 6, 5, 4, 3, 2, 1, 7],
    ],
)
def test_what_looks_like_a_run_by_its_ends_is_looked_at(entries: list[int]) -> None:
    state = AckState(log_of(20))
    newly = state.acknowledge([position_at(1, entry) for entry in entries])
    assert newly == len(set(entries))
    assert [entry for entry in range(20) if state.is_acknowledged(position_at(1, entry))] == sorted(
        set(entries)
    )


def test_a_run_that_continues_in_the_next_ledger_is_contiguous() -> None:
    ledgers = log_of(3, 0, 2)
    state = AckState(ledgers)
    assert state.acknowledge([*everything(ledgers)[:4]]) == 4
    assert state.mark_delete == position_at(3, 0)


def test_an_open_ledger_is_not_left_behind() -> None:
    """What is appended after all was acknowledged is next, in the same ledger or another."""
    ledgers = log_of(1)
    state = AckState(ledgers)
    state.acknowledge_until(AFTER_ALL)
    ledgers.extend(2, 2, 2)
    assert state.unacknowledged(BEFORE_ALL, AFTER_ALL, 9) == [position_at(1, 1), position_at(1, 2)]
    ledgers.close(1)
    ledgers.open(LedgerId(2), 1)
    ledgers.extend(1, 1, 1)
    assert state.acknowledge([position_at(2, 0)]) == 1
    assert state.mark_delete == position_at(1, 0)
    assert state.acknowledge([position_at(1, 1), position_at(1, 2)]) == 2
    assert state.mark_delete == position_at(2, 0)


def test_what_is_not_in_the_log_yet_cannot_be_acknowledged() -> None:
    ledgers = log_of(2)
    state = AckState(ledgers)
    beyond = [position_at(1, entry) for entry in range(12)]
    assert state.acknowledge([position_at(1, 2)]) == 0
    assert state.acknowledge(beyond) == 2
    assert state.acknowledge_until(position_at(7, 0)) == 0
    assert not state.acknowledge_messages(position_at(1, 2), 1, 2)
    ledgers.extend(10, 10, 10)
    assert state.unacknowledged(BEFORE_ALL, AFTER_ALL, 99) == beyond[2:]


@pytest.mark.parametrize("size", [2, CHUNK_SIZE, CHUNK_SIZE + 2])
def test_a_run_over_the_end_of_the_log_is_cut_there(size: int) -> None:
    ledgers = log_of(size)
    state = AckState(ledgers)
    state.reset(position_at(1, size - 2))
    beyond = [position_at(1, size - 1 + step) for step in range(12)]
    assert state.acknowledge(beyond) == 1
    assert state.acknowledge(range(beyond[0], beyond[-1])) == 0  # type: ignore[arg-type]
    ledgers.extend(11, 11, 11)
    assert state.unacknowledged(BEFORE_ALL, AFTER_ALL, 99) == [
        position_at(1, size - 2),
        *beyond[1:],
    ]


def test_a_range_over_several_ledgers_counts_the_entries_that_are_there() -> None:
    """Between the ends of two ledgers lie four thousand million positions without entries."""
    state = AckState(log_of(3, 2))
    assert state.acknowledge(range(position_at(1, 0), position_at(2, 1))) == 4  # type: ignore[arg-type]
    assert state.mark_delete == position_at(2, 0)
    state = AckState(log_of(3, 2))
    assert state.acknowledge(range(position_at(1, 1), position_at(9, 1))) == 4  # type: ignore[arg-type]
    assert state.holes == 4


def test_a_batch_counts_once_and_its_last_message_makes_it_whole() -> None:
    state = AckState(log_of(2))
    position = position_at(1, 1)
    assert not state.acknowledge_messages(position, 0b011, 3)
    assert state.unacked_mask(position) == 0b100
    assert not state.acknowledge_messages(position, 0b001, 3)
    assert state.acknowledge_messages(position, 0b100, 3)
    assert state.unacked_mask(position) is None
    assert not state.acknowledge_messages(position, 0b111, 3)
    assert state.holes == 1


@pytest.mark.parametrize("batches", [1, 2, 9])
def test_a_half_acked_batch_goes_with_everything_up_to_it(batches: int) -> None:
    """Whether the masks or the places are fewer."""
    state = AckState(log_of(20))
    state.acknowledge_until(position_at(1, 9))
    for entry in range(11, 11 + batches):
        state.acknowledge_messages(position_at(1, entry), 1, 2)
    assert state.acknowledge_until(position_at(1, 11)) == 2
    assert sorted(state.masks) == [position_at(1, entry) for entry in range(12, 11 + batches)]


def test_a_stretch_below_mark_delete_is_acknowledged() -> None:
    state = AckState(log_of(20))
    state.acknowledge([*(position_at(1, entry) for entry in (0, 1, 2, 3, 4, 5, 6, 9))])
    assert state.acknowledged_between(position_at(1, 1), position_at(1, 3)) == 2
    assert state.acknowledged_between(position_at(1, 3), position_at(1, 1)) == 0
    assert state.acknowledged_between(position_at(1, 3), position_at(1, 6)) == 3
    assert state.acknowledged_between(position_at(1, 3), position_at(1, 7)) == 3
    assert state.acknowledged_between(position_at(1, 3), position_at(1, 9)) == 4


def test_messages_that_a_batch_does_not_have_mean_nothing() -> None:
    state = AckState(log_of(1))
    assert not state.acknowledge_messages(position_at(1, 0), 0b1000, 3)
    assert state.unacked_mask(position_at(1, 0)) is None
    with pytest.raises(ValueError, match="at least one message at 1:0, got 0"):
        state.acknowledge_messages(position_at(1, 0), 1, 0)


def test_a_mask_from_a_seek_with_too_many_bits_does_not_hold_the_entry() -> None:
    state = AckState(log_of(2))
    state.reset(position_at(1, 0), 0b11111)
    assert state.acknowledge_messages(position_at(1, 0), 0b111, 3)
    assert state.mark_delete == position_at(1, 0)


def test_undoing_a_unit_gives_half_acked_batches_their_masks_back() -> None:
    ledgers = log_of(3, 3)
    state = AckState(ledgers)
    every = everything(ledgers)
    state.acknowledge_messages(every[1], 0b01, 2)
    unit = every[:4]
    held = state.masks_of(unit)
    state.acknowledge(unit)
    state.acknowledge([every[4]])
    assert state.mark_delete == every[4]
    assert state.restore(unit, held) == 4
    assert state.unacknowledged(BEFORE_ALL, AFTER_ALL, 9) == [*unit, every[5]]
    assert state.unacked_mask(every[1]) == 0b10
    check_ack_state(state)


def test_a_state_says_where_it_stands() -> None:
    state = AckState(log_of(9))
    state.acknowledge([position_at(1, entry) for entry in (0, 1, 4, 5)])
    state.acknowledge_messages(position_at(1, 8), 1, 2)
    assert repr(state) == "<AckState 1:1, 2 holes, 1 half-acked>"
