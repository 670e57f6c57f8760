"""Invariants: what must hold of the core's state at any time, whatever happened before.

The rule: these checks look at private state, change nothing, and raise :class:`AssertionError` with
what they found.
"""

from arneb_core.api.entries.position import AFTER_ALL, Position, before, position_at, render
from arneb_core.cursor.acks import AckState
from arneb_core.cursor.holes import CHUNK_BITS, CHUNK_MASK
from arneb_core.log.ledgers import LedgerIndex


def check_ledgers(ledgers: LedgerIndex) -> None:
    """Check that ids ascend, only the last ledger is open, and all counts agree."""
    infos = list(ledgers)
    ids = [info.id for info in infos]
    assert ids == sorted(set(ids)), f"ledger ids do not ascend: {ids}"
    assert all(info.closed_ms for info in infos[:-1]), f"an open ledger before the last: {infos}"
    assert ledgers.current == (infos[-1] if infos and not infos[-1].closed_ms else None)
    assert all(info.entries <= info.messages for info in infos), f"empty entries: {infos}"
    assert ledgers.entries == sum(info.entries for info in infos)
    assert ledgers.entries == ledgers.count_after(ledgers.floor)
    assert not ledgers.count_after(before(ledgers.next_append))
    filled = [info for info in infos if info.entries]
    assert ledgers.first == (position_at(filled[0].id, 0) if filled else None)
    assert ledgers.last == (filled[-1].last if filled else None)
    assert [position_at(info.id, 0) for info in filled] == [
        first for first, _ in ledgers.runs(ledgers.floor, AFTER_ALL)
    ]


def check_ack_state(state: AckState) -> None:
    """Check the invariants of :class:`~arneb_core.cursor.acks.AckState` and of its parts."""
    ledgers, mark_delete = state._ledgers, state.mark_delete
    assert mark_delete >= ledgers.floor, f"{state!r} lies below {ledgers!r}"
    following = ledgers.after(mark_delete)
    assert following is None or following not in state._holes, f"{state!r} is behind a hole"
    _check_holes(state)
    for position, mask in state.masks.items():
        assert mask > 0, f"{state!r} has the mask {mask} at {render(position)}"
        assert ledgers.contains(position), f"{state!r} has a mask at {render(position)}, no entry"
        assert not state.is_acknowledged(position), (
            f"{state!r} has a mask at acked {render(position)}"
        )
    chunks, unsaved = state._holes._chunks, state._holes._unsaved
    assert unsaved.dirty.keys() <= chunks.keys() | unsaved._stored.keys(), (
        f"{state!r} remembers what is gone"
    )
    masks = state._unsaved_masks
    assert masks.dirty.keys() <= state.masks.keys() | masks._stored.keys(), (
        f"{state!r} remembers what is gone"
    )


def _check_holes(state: AckState) -> None:
    count = 0
    for key, chunk in state._holes._chunks.items():
        assert chunk, f"{state!r} keeps the empty chunk {key:#x}"
        first, last = (Position((key << CHUNK_BITS) + low) for low in (chunk.min(), chunk.max()))
        assert chunk.max() <= CHUNK_MASK, f"{state!r} has {chunk.max()} in the chunk {key:#x}"
        assert first > state.mark_delete, f"{state!r} has a hole at {render(first)}, passed"
        # A ledger is dense: if it has the last, it has all below.
        assert state._ledgers.contains(last), f"{state!r} has a hole at {render(last)}, no entry"
        count += len(chunk)
    assert state.holes == count, f"{state!r} counts {state.holes} holes, has {count}"
