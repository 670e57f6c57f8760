"""Pending sends: messages whose producers still wait for an answer, in send order.

A producer's receipts must leave in send order, whatever becomes of each message. So they wait in a
queue and are answered when their frames are known; only answered ones at its head are sent.
"""

from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position
from arneb_pulsar.packing.receipts import pack_receipts, receipt
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.wire.commands import send_error

STRETCHES_PER_TURN: Final = 100
"""Stretches of SENDs handled before others have their turn, some 2 ms. A SEND that does not follow
the one before begins a stretch, and may begin a run, which is handed over and stored by itself."""


@dataclass(slots=True)
class PendingSends:
    """Messages that one producer sent one after the other, and their answer.

    Either they are part of a run that is being appended (one entry each), or ``frames`` was set at
    once because they were refused.
    """

    producer_id: int
    sequences: list[int] = field(default_factory=list)
    highest: dict[int, int] = field(default_factory=dict)
    """``highest_sequence_id`` by index, where a client sent one."""
    frames: bytes | None = None
    """The answer to the producer; None until it is known."""
    key: int = 0
    """The producer's key, for as long as the connection lives."""
    chunks: set[int] = field(default_factory=set)
    """Indexes of chunks of larger messages."""
    duplicates: set[int] = field(default_factory=set)
    """Indexes of messages that were stored before and are not stored again."""

    def __repr__(self) -> str:
        state = "pending" if self.frames is None else "answered"
        return f"<PendingSends {len(self.sequences)} of producer {self.producer_id}, {state}>"

    @property
    def entries(self) -> int:
        """How many entries of the run are from here."""
        return len(self.sequences) - len(self.duplicates)

    def stored(self, first: Position, ids: LedgerIds) -> None:
        """Settle it: message *i* is at ``first + i``, duplicates not counted. ``ids``: those of
        the topic."""
        if not (self.highest or self.duplicates):
            self.frames = pack_receipts(self.producer_id, self.sequences, first, ids)
            return
        highest, producer_id, position = self.highest.get, self.producer_id, first
        receipts = []
        for index, sequence in enumerate(self.sequences):
            if index in self.duplicates:
                receipts.append(receipt(producer_id, sequence, highest(index, 0), None))
                continue
            receipts.append(receipt(producer_id, sequence, highest(index, 0), position, ids))
            position = Position(position + 1)
        self.frames = b"".join(receipts)

    def refused(self, failure: Failure) -> None:
        """Settle it: none of the messages was stored."""
        self.frames = b"".join(
            send_error(self.producer_id, sequence, failure.code, failure.text)
            for sequence in self.sequences
        )
