"""Written ahead: ledgers that are written before the commit that makes them part of their log.

The rule: a ledger without a record is invisible, so blocks may be written at its positions at any
pace, while the log grows below it. One free ledger is left for what comes meanwhile; a log that
needs a second opens it after the ledgers written ahead, which are then useless.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from arneb_core.api.core import CountedRun
from arneb_core.api.entries.position import ENTRY_MASK, LedgerId, ledger_of, position_at
from arneb_core.log.planning import LEDGER_ENTRIES_MAX
from arneb_core.store.format.changes import Trim
from arneb_core.store.format.schema import TopicId


class AheadState(Enum):
    """What became of ledgers written ahead."""

    HELD = "nothing else comes there"
    OVERTAKEN = "the log has gone on behind it"
    STORED = "it is part of the log"


MOVES: Final = {
    AheadState.HELD: {AheadState.OVERTAKEN, AheadState.STORED},
    AheadState.OVERTAKEN: set[AheadState](),
    AheadState.STORED: set[AheadState](),
}


@dataclass(slots=True)
class Ahead:
    """Ledgers of one log that are written ahead."""

    ledgers: range
    state: AheadState = AheadState.HELD

    def becomes(self, state: AheadState) -> None:
        """Move to ``state``."""
        assert state in MOVES[self.state], f"expected one of {MOVES[self.state]}, got {state}"
        self.state = state

    def trim(self, topic_id: TopicId) -> Trim:
        """Return the trim that removes them."""
        first, last = self.ledgers[0], self.ledgers[-1]
        return topic_id, position_at(first, 0), position_at(last, ENTRY_MASK)


def placed_from(
    ledger: LedgerId, runs: Iterable[CountedRun], bytes_max: int
) -> tuple[list[CountedRun], Ahead]:
    """Place the runs of one topic from the start of ``ledger`` on, in ledgers that are filled like
    any others."""
    placed: list[CountedRun] = []
    at, size = position_at(ledger, 0), 0
    for run in runs:
        if at & ENTRY_MASK >= LEDGER_ENTRIES_MAX or size >= bytes_max:
            at, size = position_at(ledger_of(at) + 1, 0), 0
        placed.append(replace(run, first=at))
        at, size = (
            position_at(ledger_of(at), (at & ENTRY_MASK) + len(run.entries)),
            size + run.bytes,
        )
    return placed, Ahead(range(ledger, ledger_of(at) + 1))
