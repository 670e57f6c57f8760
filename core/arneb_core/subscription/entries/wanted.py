"""Wanted: which of the entries that came due a subscription still has to deliver.

The rule: those that are neither acknowledged, nor withheld by a transaction, nor out already.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.delayed.due_batch import DueBatch
from arneb_core.subscription.state.state import SubscriptionState

FREE_MAX: Final = 8_192
"""Entries set free in one turn, when the subscription stops holding back."""


def wanted_of_batch(state: SubscriptionState, batch: DueBatch, out: BitMap64) -> BitMap64:
    """Return which of a batch's entries are wanted, as a bitmap that the caller owns."""
    wanted, mark_delete = batch.members.copy(), state.acks.mark_delete
    if wanted and wanted.min() <= mark_delete:
        wanted.remove_range(0, mark_delete + 1)
    wanted.difference_update(BitMap64(state.acks.acknowledged_in(batch.chunks)), out)
    if state.withheld is not None:
        wanted.difference_update(BitMap64(state.withheld.whole))
    return wanted


def wanted_of(
    state: SubscriptionState, positions: Sequence[Position], out: BitMap64
) -> list[Position]:
    """Return which of ``positions``, which ascend, are wanted."""
    wanted = state.acks.unacked_of(positions)
    if state.withheld is not None:
        wanted = [each for each in wanted if each not in state.withheld.whole]
    return [each for each in wanted if each not in out] if out else wanted


def set_free(
    state: SubscriptionState, held: BitMap64, after: Position, through: Position
) -> Position | None:
    """Put the wanted entries of ``held`` beyond ``after`` and up to ``through`` into the replay
    set; return how far that got, None when it is complete."""
    found = [Position(each) for each in islice(held.iter_equal_or_larger(after + 1), FREE_MAX)]
    free = [each for each in found if each <= through]
    if free:
        out = set(state.positions_in_flight())
        state.replay.add(each for each in state.acks.only_unacked(free) if each not in out)
    return free[-1] if len(free) == FREE_MAX else None
