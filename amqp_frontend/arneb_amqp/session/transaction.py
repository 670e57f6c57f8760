"""A transaction: what a channel in transactional mode has published and answered so far.

The rule: nothing of it reaches the core before ``tx.commit``, which then commits all of it in one
unit; ``tx.rollback`` forgets the publishes and restores the answered deliveries. The transactions
of one connection are bounded in bytes.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final

from arneb_amqp.errors import resource_error
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId, Pending
from arneb_amqp.session.effects import Commit
from arneb_amqp.wire.deliver import Chunk

ITEM_BYTES: Final = 512
"""Counted for a message or an answer besides its octets. It takes less than half of that here
(objects, lists), and about as much again in the commit, which is one whatever is in it."""


class TransactionBytes:
    """The bytes held by the open transactions of one connection. RabbitMQ has no such bound, so one
    client can make it hold whatever it sends.

    Invariant: ``held`` is at most ``most``, unless a single message is all that is held: one
    message of any size fits.
    """

    __slots__ = ("held", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def __repr__(self) -> str:
        return f"<TransactionBytes {self.held} of {self.most}>"

    def hold(self, size: int) -> None:
        """Count ``size`` more octets. Raises 506 when they exceed the bound."""
        wanted = self.held + size
        if wanted > self.most and self.held:
            raise resource_error(
                f"expected at most {self.most} octets in the transactions of a connection, "
                f"got {wanted}"
            )
        self.held = wanted


class Answer(Enum):
    """A client's answer to a delivery."""

    ACKNOWLEDGE = "done"
    RELEASE = "again"
    REJECT = "never again"


class Transaction:
    """One transaction of one channel; a new one begins when it ends.

    Invariant: ``_size`` is this transaction's share of ``_held``.
    """

    __slots__ = (
        "_appends",
        "_delayed",
        "_held",
        "_size",
        "answers",
        "mandatory",
        "pending",
    )

    def __init__(self, held: TransactionBytes) -> None:
        self._held = held
        self._size = 0
        self._appends: list[tuple[tuple[str, ...], list[bytes]]] = []
        self._delayed: list[tuple[tuple[str, ...], list[bytes]]] = []
        self.mandatory: deque[tuple[tuple[str, ...], bytes]] = deque()
        """Mandatory messages with their queues; without queues, as the encoded ``basic.return``."""
        self.answers: dict[Answer, dict[ConsumerId, AnsweredDeliveries]] = {
            each: {} for each in Answer
        }
        """By consumer: few objects, however many methods brought the answers."""
        self.pending: deque[Pending] = deque()
        """The deliveries that a rollback restores to the channel."""

    def __repr__(self) -> str:
        return f"<Transaction of {self._size} bytes, {len(self.pending)} answers>"

    @property
    def messages(self) -> int:
        """The number of messages published in it."""
        return sum(len(entries) for _, entries in (*self._appends, *self._delayed))

    def publish(self, queues: tuple[str, ...], entries: list[bytes]) -> None:
        """Add messages for ``queues``. Raises 506, as everything that adds does."""
        if not queues:
            return
        self._hold(sum(map(len, entries)), len(entries))
        _extend(self._appends, queues, entries)

    def delay(self, exchanges: tuple[str, ...], entry: bytes) -> None:
        """Add a message that ``exchanges`` delay."""
        self._hold(len(entry))
        _extend(self._delayed, exchanges, [entry])

    def give_back(self, chunks: list[Chunk]) -> None:
        """Add a ``basic.return``, encoded now so that the commit need not encode all of them."""
        self._hold(sum(map(len, chunks)))
        self.mandatory.append(((), b"".join(chunks)))

    def require(self, queues: tuple[str, ...], entry: bytes) -> None:
        """Require that one of ``queues`` exists at the commit, for the last published message."""
        self._hold(0)
        self.mandatory.append((queues, entry))

    def expect(self, answers: int) -> None:
        """Reserve room for answers to ``answers`` deliveries."""
        self._hold(0, answers)

    def add_answers(
        self, answered: Sequence[AnsweredDeliveries], pending: list[Pending], answer: Answer
    ) -> None:
        """Add answers for which :meth:`expect` reserved room."""
        answers = self.answers[answer]
        for each in answered:
            before = answers.setdefault(each.consumer, each)
            if before is not each:
                before.join(each)
        self.pending += pending

    def commit(self, now_ms: int) -> Commit:
        """Return the request that makes it durable."""
        acknowledged = list(self.answers[Answer.ACKNOWLEDGE].values())
        return Commit(self._appends, self._delayed, acknowledged, now_ms)

    def end(self) -> None:
        """Release what it held: it is committed, rolled back or dropped with its channel."""
        self._held.held -= self._size
        self._size = 0

    def _hold(self, octets: int, items: int = 1) -> None:
        size = octets + items * ITEM_BYTES
        self._held.hold(size)
        self._size += size


def _extend(
    runs: list[tuple[tuple[str, ...], list[bytes]]], names: tuple[str, ...], entries: list[bytes]
) -> None:
    if runs and runs[-1][0] == names:
        runs[-1][1].extend(entries)
    else:
        runs.append((names, entries))
