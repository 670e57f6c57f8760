"""The model of a cursor: a set of acknowledged messages, and a dictionary for its disk.

The rule: so short that it is obviously right. What :class:`~arneb_core.cursor.acks.AckState` says
of any entry must be what this says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from arneb_core.api.entries.position import Position
from arneb_core.cursor.acks import AckState, Changes
from arneb_core.log.ledgers import LedgerIndex

Message = tuple[Position, int]
"""An entry and the index of a message in it."""


class CursorModel:
    """The acknowledged messages of a log, which is given as the number of messages per entry.

    ``log`` is shared: it grows and is trimmed outside. A position is acknowledged when all messages
    of its entry are.
    """

    def __init__(self, log: Mapping[Position, int], acked: Iterable[Message] = ()) -> None:
        self.log = log
        self.acked = set(acked)

    def __repr__(self) -> str:
        return f"<CursorModel {len(self.acked)} acknowledged in {len(self.log)} entries>"

    def messages(self, positions: Iterable[Position]) -> set[Message]:
        """Return all messages of those ``positions`` that the log has."""
        log = self.log
        return {
            (position, index) for position in positions for index in range(log.get(position, 0))
        }

    def acknowledge(self, positions: Iterable[Position]) -> None:
        self.acked |= self.messages(positions)

    def acknowledge_until(self, position: Position) -> None:
        self.acknowledge(each for each in self.log if each <= position)

    def acknowledge_messages(self, position: Position, mask: int) -> None:
        self.acked |= {each for each in self.messages([position]) if mask >> each[1] & 1}

    def restore(self, messages: Iterable[Message]) -> None:
        self.acked -= set(messages)

    def reset(self, position: Position, mask: int | None = None) -> None:
        """``mask``: the messages of ``position`` that are still unacknowledged."""
        self.acked = self.messages(each for each in self.log if each < position)
        if mask is not None:
            self.acknowledge_messages(position, ~mask)

    def unacked_mask(self, position: Position) -> int:
        """Return a mask: bit *i*: message *i* is not acknowledged; 0 for an acknowledged entry."""
        left = self.messages([position]) - self.acked
        return sum(1 << index for _, index in left)

    def is_acknowledged(self, position: Position) -> bool:
        return not self.unacked_mask(position)

    def unacknowledged(self) -> list[Position]:
        """Return the entries that are not acknowledged, in order."""
        return sorted(position for position in self.log if not self.is_acknowledged(position))


@dataclass(slots=True)
class CursorDisk:
    """What the store would hold of one cursor."""

    mark_delete: Position
    pairs: dict[bytes, bytes] = field(default_factory=dict)
    failed: bool = False
    """Some commit has failed: then a deleted key may never have been written."""

    def write(self, mark_delete: Position, changes: Changes) -> None:
        self.mark_delete = mark_delete
        for suffix, value in changes:
            if value is None:
                assert self.failed or suffix in self.pairs, f"{suffix.hex()} was never written"
                self.pairs.pop(suffix, None)
            else:
                self.pairs[suffix] = value


def reloaded(state: AckState, ledgers: LedgerIndex) -> AckState:
    """Return the state after a commit of all of ``state`` and a restart."""
    disk = CursorDisk(state.mark_delete)
    disk.write(state.mark_delete, state.take_changes())
    return AckState.load(ledgers, disk.mark_delete, disk.pairs.items())
