"""SENDs without a receipt.

The rule: a SEND is identified by its sequence id, which all chunks of a message share.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.packing import Packed
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSendReceipt


@dataclass(slots=True, eq=False)
class Pending:
    """One SEND without a receipt."""

    packed: Packed
    messages: Sequence[OutgoingMessage]
    """Empty for all chunks of a message but the last."""
    sent_at: float
    early: CommandSendReceipt | None = None
    """Its receipt, if that came before those of earlier SENDs."""

    def __repr__(self) -> str:
        return f"<Pending {len(self.messages)} messages since {self.sent_at:.3f}>"


def with_chunks(pending: Iterable[Pending], sequence_id: int) -> list[Pending]:
    """Return the SEND with a sequence id and the following ones that are chunks of its message."""
    found: list[Pending] = []
    for each in pending:
        if found and not found[-1].packed.is_followed_by(each.packed):
            break
        if found or each.packed.first == sequence_id:
            found.append(each)
    return found


def entry_of(receipt: CommandSendReceipt) -> EntryId:
    """Return the entry that a receipt names."""
    return receipt.message_id.ledgerId, receipt.message_id.entryId
