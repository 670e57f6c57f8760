"""States: the ids of transactions, and their state machine.

The rule: a transaction moves along :data:`MOVES` only. One that is being committed is open again if
its commit could not be stored: nothing of it is, so the client may ask again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb_core.api.entries.position import ENTRY_BITS

COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign"
"""The topic whose partitions are looked up to find the broker that coordinates. It does not exist
here, and nothing can be sent to it."""

PROVISIONAL: Final = 1 << 62 << ENTRY_BITS
"""Added to the positions of messages in open transactions, which have none in their topics yet:
such an id belongs to no message, and as a start position means the end."""

COORDINATOR: Final = 0
"""The one coordinator of a broker; its number is the upper half of its transactions' ids."""

ERA: Final = "pulsar/transaction/era"
"""The key of a counter of starts with transactions, so that no number is used twice."""

ERA_BYTES: Final = 4

ERA_BITS: Final = 32
"""Lower bits of a transaction's number, which count within an era."""


@dataclass(frozen=True, slots=True, order=True)
class TransactionId:
    """The unique id of a transaction."""

    most_bits: int
    least_bits: int

    def __str__(self) -> str:
        return f"({self.most_bits},{self.least_bits})"


class TransactionState(Enum):
    """The state of a transaction, in Pulsar's terms."""

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
"""The states that may follow each state."""

HOW_ENDED: Final[Mapping[TransactionState, str]] = {
    TransactionState.COMMITTED: "it was committed",
    TransactionState.ABORTED: "it was aborted, or its time was up",
}
