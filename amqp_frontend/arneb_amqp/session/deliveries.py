"""Deliveries as sessions and the broker exchange them: consumer ids and answers.

The rule: values only. Delivery tags are counted by :mod:`arneb_amqp.session.consume.unacked`.
"""

from dataclasses import dataclass, field
from typing import Final, NewType

from arneb_core.api.entries.position import Position

ConsumerId = NewType("ConsumerId", int)
"""Names one attachment of a consumer within a connection; never reused. A consumer detached by a
seek is attached again under another id (:func:`attached_again`): what was delivered before the seek
must not be answered after it, though the very same entries come again."""

NOBODY = ConsumerId(0)

_EPOCH_SHIFT: Final = 32
"""The attachment number occupies the bits above the consumer's number."""

_CONSUMER_MASK: Final = (1 << _EPOCH_SHIFT) - 1


def consumer_of(id_: ConsumerId) -> ConsumerId:
    """The id of the consumer's first attachment, by which its channel knows it."""
    return ConsumerId(id_ & _CONSUMER_MASK)


def attached_again(id_: ConsumerId) -> ConsumerId:
    """The id of the next attachment of the same consumer."""
    return ConsumerId(id_ + (1 << _EPOCH_SHIFT))


@dataclass(slots=True)
class AnsweredDeliveries:
    """Deliveries of one consumer that the client has answered."""

    consumer: ConsumerId
    positions: list[Position]
    """Whole entries."""
    masks: dict[Position, int] = field(default_factory=dict)
    """Single messages of batches: bit *i* is message *i*."""

    @property
    def messages(self) -> int:
        """The number of deliveries."""
        return len(self.positions) + sum(mask.bit_count() for mask in self.masks.values())

    @property
    def entries(self) -> int:
        """The number of entries, which is what answering them costs."""
        return len(self.positions) + len(self.masks)

    def join(self, later: "AnsweredDeliveries") -> None:
        """Add deliveries answered after these."""
        self.positions += later.positions
        for position, mask in later.masks.items():
            self.masks[position] = self.masks.get(position, 0) | mask


@dataclass(frozen=True, slots=True)
class Pending:
    """One delivery, as :meth:`Unacked.restore` puts it back."""

    tag: int
    owner: ConsumerId
    position: Position
    part: int
    """Which message of its batch; negative for a whole entry."""
