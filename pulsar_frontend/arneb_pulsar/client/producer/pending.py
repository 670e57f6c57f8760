"""What is sent and has no receipt.

The rule: it is named by its sequence id, which all pieces of one message share.
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
    """Empty for all but the last piece of a chunked message."""
    sent_at: float
    early: CommandSendReceipt | None = None
    """Its receipt, which came before those of others that were sent before it."""

    def __repr__(self) -> str:
        return f"<Pending {len(self.messages)} messages since {self.sent_at:.3f}>"


def with_pieces(pending: Iterable[Pending], sequence_id: int) -> list[Pending]:
    """The SEND of that number, with those behind it that are pieces of the same message."""
    found: list[Pending] = []
    for each in pending:
        if found and not found[-1].packed.is_followed_by(each.packed):
            break
        if found or each.packed.first == sequence_id:
            found.append(each)
    return found


def place_of(receipt: CommandSendReceipt) -> EntryId:
    """Where it says that the entry stands."""
    return receipt.message_id.ledgerId, receipt.message_id.entryId
