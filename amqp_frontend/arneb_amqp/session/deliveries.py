"""Deliveries as a session and the broker speak of them: to which consumer, and what was answered.

The rule: values only. Who counts delivery tags is :mod:`arneb_amqp.session.consume.unacked`.
"""

from dataclasses import dataclass, field
from typing import Final, NewType

from arneb_core.api.position import Position

ConsumerId = NewType("ConsumerId", int)
"""Names a consumer inside one connection, as it is attached now; never used twice. A consumer that
a seek put out comes again by another one (:func:`attached_again`): what was delivered before the
seek is not to be answered after it, though the very same entries come again."""

NOBODY = ConsumerId(0)

_EPOCH_SHIFT: Final = 32
"""The number of the attachment stands above that of the consumer."""

_CONSUMER_MASK: Final = (1 << _EPOCH_SHIFT) - 1


def consumer_of(id_: ConsumerId) -> ConsumerId:
    """The id by which the consumer was attached first, and is known to its channel."""
    return ConsumerId(id_ & _CONSUMER_MASK)


def attached_again(id_: ConsumerId) -> ConsumerId:
    """The id of the next attachment of the same consumer."""
    return ConsumerId(id_ + (1 << _EPOCH_SHIFT))


@dataclass(slots=True)
class Settled:
    """Deliveries of one consumer that the client has answered."""

    consumer: ConsumerId
    positions: list[Position]
    """Whole entries."""
    masks: dict[Position, int] = field(default_factory=dict)
    """Single messages of batches: bit *i* is message *i*."""

    @property
    def messages(self) -> int:
        """How many deliveries these are."""
        return len(self.positions) + sum(mask.bit_count() for mask in self.masks.values())

    @property
    def entries(self) -> int:
        """How many entries they are of: as much work it is to answer them."""
        return len(self.positions) + len(self.masks)

    def join(self, later: "Settled") -> None:
        """Add what was answered after these."""
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
