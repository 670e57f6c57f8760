"""A cursor: what one subscription has acknowledged, and how that gets to disk.

The rule: memory may be ahead of the disk by a tenth of a second, and is never behind it. A commit
writes only what has changed; if it fails, the next one writes the same keys with their values then.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from arneb_core.api.entries.position import Position, before, ledger_of, position_at, render
from arneb_core.cursor.acks import AckState, Changes
from arneb_core.log.memory_log import Log
from arneb_core.store.format.records import CursorRecord
from arneb_core.store.format.schema import (
    PLACE_SUFFIX,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CursorChanges:
    """What a commit writes of one cursor, and what to take again if it fails."""

    acks: Changes
    puts: list[tuple[Table, bytes, bytes]] = field(default_factory=list)
    deletes: list[tuple[Table, bytes]] = field(default_factory=list)


class Cursor:
    """The acknowledgements of one subscription over ``log``."""

    def __init__(
        self,
        log: Log,
        acks: AckState,
        *,
        furthest: Position | None = None,
        label: str = "",
        is_stored: bool = False,
    ) -> None:
        """``label`` names it in logs. ``is_stored``: the disk has it as it is here."""
        self._log = log
        self._label = label
        self.acks = acks
        self._furthest = acks.mark_delete if furthest is None else furthest
        self._stored_mark = acks.mark_delete if is_stored else None
        """Mark-delete as last written; None if the disk has another, or none."""
        self.acknowledged_total = 0
        self.lost_total = 0
        """Entries passed over because they are lost."""

    def __repr__(self) -> str:
        return f"<Cursor {self.acks!r}>"

    def acknowledge(self, positions: Sequence[Position]) -> None:
        """Acknowledge whole entries."""
        self.acknowledged_total += self.acks.acknowledge(positions)

    def acknowledge_messages(self, position: Position, mask: int, size: int) -> bool:
        """Acknowledge messages of a batch of ``size``; return True when those were the rest."""
        is_whole = self.acks.acknowledge_messages(position, mask, size)
        self.acknowledged_total += is_whole
        return is_whole

    def acknowledge_until(self, position: Position) -> None:
        """Acknowledge everything up to ``position``."""
        self.acknowledged_total += self.acks.acknowledge_until(position)

    def acknowledge_all_but(
        self,
        positions: Sequence[Position],
        masks: Mapping[Position, int],
        sizes: Mapping[Position, int],
    ) -> None:
        """Acknowledge the whole log but ``positions``; of those in ``masks``, whose ``sizes`` are
        given, leave only these messages. Partly acknowledged batches stay so."""
        last = self._log.ledgers.last
        if last is None or last <= self.acks.mark_delete:
            return
        left = self.acks.only_unacked(positions)
        held = self.acks.masks_of(left)
        masks = {
            position: mask for position, mask in masks.items() if mask + 1 != 1 << sizes[position]
        }
        self.acknowledged_total += self.acks.acknowledge_until(last) - len(left)
        self.acks.restore(left, {**held, **masks})

    def restore(self, positions: Sequence[Position], masks: Mapping[Position, int]) -> None:
        """Undo the acknowledgement of ``positions``; of those in ``masks``, only these messages
        become unacknowledged."""
        self.acknowledged_total -= self.acks.restore(positions, masks)

    def reset(self, position: Position, mask: int | None) -> None:
        """Make ``position`` the next entry, and forget acknowledgements beyond it. ``mask``: its
        messages still unacknowledged."""
        self.acks.reset(position, mask)
        self.skip_missing()
        self._furthest = self.acks.mark_delete

    def skip_missing(self) -> None:
        """Acknowledge entries that cannot be read any more: in a memory log, those already dropped
        where a cursor begins or goes back to; in a durable one, lost entries."""
        for gap in self._log.missing(self.acks.mark_delete):
            count = self.acks.acknowledge(cast(Sequence[Position], gap))
            if count and self._log.durable:
                self.lost_total += count
                first, last = render(Position(gap[0])), render(Position(gap[-1]))
                logger.warning("%s skips lost entries %s to %s", self._label, first, last)

    def take_changes(
        self, topic_id: TopicId, subscription_id: SubscriptionId, read_after: Position
    ) -> CursorChanges:
        """Return what has to be written now. ``read_after``: nothing beyond it was handed out."""
        prefix = cursor_prefix(topic_id, subscription_id)
        changes = CursorChanges(self.acks.take_changes())
        self._furthest = max(self._furthest, read_after, self.acks.mark_delete)
        record = CursorRecord(self.acks.mark_delete, Position(self._furthest + 1))
        changes.puts.append((Table.CURSORS, prefix + PLACE_SUFFIX, record.pack()))
        self._stored_mark = self.acks.mark_delete
        for suffix, value in changes.acks:
            if value is None:
                changes.deletes.append((Table.CURSORS, prefix + suffix))
            else:
                changes.puts.append((Table.CURSORS, prefix + suffix, value))
        return changes

    def changes_failed(self, changes: CursorChanges) -> None:
        """Have ``changes``, which did not reach the disk, written again."""
        self._stored_mark = None
        self.acks.mark_dirty_again(changes.acks)

    def is_stored(self, read_after: Position) -> bool:
        """Whether :meth:`take_changes` would only repeat what was written. So the cursors of idle
        queues, of which there may be very many, are not written again when the broker stops."""
        mark = self.acks.mark_delete
        is_same = mark == self._stored_mark and max(mark, read_after) <= self._furthest
        return is_same and not self.acks.has_changes

    @property
    def backlog_messages(self) -> int:
        """Messages not acknowledged. With batches, the entries left of a partly acknowledged ledger
        count with that ledger's average, except for half-acknowledged ones: an exact number would
        need the size of every entry ever written, in memory."""
        if not self._log.has_batches:
            return self.acks.backlog
        ledgers = self._log.ledgers
        total = 0.0
        averages: dict[int, float] = {}
        for info in ledgers:
            low = max(before(position_at(info.id, 0)), self.acks.mark_delete)
            left = ledgers.count_between(low, info.last)
            if left:
                left -= self.acks.acknowledged_between(low, info.last)
                averages[info.id] = info.messages / info.entries
                total += left * averages[info.id]
        for position, mask in self.acks.masks.items():
            total += mask.bit_count() - averages[ledger_of(position)]
        return round(total)
