"""States: what a transaction is called, and where it stands.

The rule: a transaction moves along :data:`MOVES` only. One that is being committed is open again if
its commit could not be stored: nothing of it is, so whoever asked may ask again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb_core.api.position import ENTRY_BITS

COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign"
"""The topic whose partitions say, by a lookup, which broker coordinates. There is no such topic
here, and nothing can be sent to it."""

PROVISIONAL: Final = 1 << 62 << ENTRY_BITS
"""Added to the places of messages in transactions, which have none in their topics before they are
committed: an id that is told so is that of no message, and as a place to begin at means the end."""

COORDINATOR: Final = 0
"""The one coordinator of a broker: its number is the upper half of the ids of its transactions."""

ERA: Final = "pulsar/transaction/era"
"""The key of what counts the starts at which transactions were opened: numbers never come twice."""

ERA_BYTES: Final = 4

ERA_BITS: Final = 32
"""Of a transaction's number, the lower ones count."""


@dataclass(frozen=True, slots=True, order=True)
class TransactionId:
    """Tells a transaction from every other one that ever was."""

    most_bits: int
    least_bits: int

    def __str__(self) -> str:
        return f"({self.most_bits},{self.least_bits})"


class TransactionState(Enum):
    """Where it stands, by Pulsar's words."""

    OPEN = "OPEN"
    COMMITTING = "COMMITTING"
    ABORTING = "ABORTING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.OPEN: frozenset({TransactionState.COMMITTING, TransactionState.ABORTING}),
    TransactionState.COMMITTING: frozenset({TransactionState.COMMITTED, TransactionState.OPEN}),
    TransactionState.ABORTING: frozenset({TransactionState.ABORTED, TransactionState.OPEN}),
    TransactionState.COMMITTED: frozenset(),
    TransactionState.ABORTED: frozenset(),
}
"""What may follow on what."""

HOW_ENDED: Final[Mapping[TransactionState, str]] = {
    TransactionState.COMMITTED: "it was committed",
    TransactionState.ABORTED: "it was aborted, or its time was up",
}
