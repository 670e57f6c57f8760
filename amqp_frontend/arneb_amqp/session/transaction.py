"""A transaction: what a channel in transactional mode has published and answered so far.

The rule: nothing of it reaches the core before ``tx.commit``, and then all of it does in one
unit; ``tx.rollback`` forgets the publishes and puts the answers back.
"""

from collections.abc import Sequence
from enum import Enum

from arneb_amqp.session.effects import Commit
from arneb_amqp.session.unacked import Pending, Settled
from arneb_core.entry import published_at


class Answer(Enum):
    """What a client says to a delivery."""

    ACKNOWLEDGE = "done"
    RELEASE = "again"
    REJECT = "never again"


class Transaction:
    """One transaction of one channel; a new one begins when it ends."""

    __slots__ = (
        "_appends",
        "_delayed",
        "acknowledged",
        "pending",
        "rejected",
        "released",
        "returns",
    )

    def __init__(self) -> None:
        self._appends: list[tuple[tuple[str, ...], list[bytes]]] = []
        self._delayed: list[tuple[tuple[str, ...], bytes]] = []
        self.returns: list[tuple[bytes, bytes]] = []
        """Route and body of mandatory messages that go nowhere."""
        self.acknowledged: list[Settled] = []
        self.released: list[Settled] = []
        self.rejected: list[Settled] = []
        self.pending: list[Pending] = []
        """What a rollback gives back to the channel."""

    def publish(self, queues: tuple[str, ...], entries: list[bytes]) -> None:
        """Add messages for ``queues``."""
        if not queues:
            return
        if self._appends and self._appends[-1][0] == queues:
            self._appends[-1][1].extend(entries)
        else:
            self._appends.append((queues, entries))

    def delay(self, exchanges: tuple[str, ...], entry: bytes) -> None:
        """Add a message that ``exchanges`` keep."""
        self._delayed.append((exchanges, entry))

    def settle(self, settled: Sequence[Settled], pending: list[Pending], answer: Answer) -> None:
        """Add answers."""
        match answer:
            case Answer.ACKNOWLEDGE:
                self.acknowledged.extend(settled)
            case Answer.RELEASE:
                self.released.extend(settled)
            case Answer.REJECT:
                self.rejected.extend(settled)
        self.pending += pending

    def commit(self, now_ms: int) -> Commit:
        """The request that makes it durable. The messages come into their queues now, and so
        their times begin now."""
        for _, entries in self._appends:
            entries[:] = [published_at(each, now_ms) for each in entries]
        delayed = [(names, published_at(each, now_ms)) for names, each in self._delayed]
        return Commit(self._appends, delayed, self.acknowledged)
