"""Unanswered deliveries of one channel, by delivery tag.

The rule: no Python instruction is spent on a single message where the usual case allows it. The
usual case is one consumer on the channel and whole entries, so there is one dict from tag to
position, filled and emptied by C-level builtins a run at a time. A second dict names the consumer
of each tag, but only once the channel has deliveries of a second consumer; a third holds the rare
tags that stand for a single message within a batch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat, takewhile
from operator import countOf
from typing import Final

from arneb_amqp.errors import precondition_failed
from arneb_amqp.session.deliveries import (
    NOBODY,
    AnsweredDeliveries,
    ConsumerId,
    Pending,
    consumer_of,
)
from arneb_core.api.entries.position import Position

_NO_POSITION = Position(0)
"""No entry has this position, so it marks a tag that is not there."""


WHOLE: Final = -1
"""In place of a message's number in its batch: the delivery is a whole entry."""


def mask_of(parts: Sequence[int]) -> int:
    """Return a mask with bit *i* for message *i*. It is built in one go: a number of thousands of
    bits for each of thousands of messages would be hundreds of MiB."""
    bits = bytearray(max(parts) // 8 + 1)
    for part in parts:
        bits[part >> 3] |= 1 << (part & 7)
    return int.from_bytes(bits, "little")


class Unacked:
    """Delivery tags given out and not answered.

    Invariant: every tag in ``_positions`` is below ``next_tag``, and none is below ``_low``.
    ``_owners`` is None while all of them belong to ``_owner``; else it has the same keys as
    ``_positions``. The keys of ``_parts`` are among those of ``_positions``. The keys of
    ``_positions`` ascend unless ``_undone``.
    """

    __slots__ = ("_low", "_owner", "_owners", "_parts", "_positions", "_undone", "next_tag")

    def __init__(self) -> None:
        self.next_tag = 1
        self._low = 1
        self._positions: dict[int, Position] = {}
        self._owner = NOBODY
        self._owners: dict[int, ConsumerId] | None = None
        self._parts: dict[int, int] = {}
        self._undone = False

    def __repr__(self) -> str:
        return f"<Unacked {len(self)} of {self.next_tag - 1}>"

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, tag: int) -> bool:
        return tag in self._positions

    @property
    def oldest(self) -> int | None:
        """An unanswered tag: the lowest, unless answers were undone."""
        return next(iter(self._positions), None)

    def oldest_by_owner(self) -> dict[ConsumerId, int]:
        """The first tag of each consumer, its attachments taken together. Looks at every tag: not
        for hot paths."""
        if self._owners is None:
            return (
                {consumer_of(self._owner): next(iter(self._positions))} if self._positions else {}
            )
        found: dict[ConsumerId, int] = {}
        for tag in self._positions:
            found.setdefault(consumer_of(self._owners[tag]), tag)
        return found

    def count(self, owner: ConsumerId) -> int:
        """Return the number of deliveries of one consumer. Looks at every tag if there are several
        consumers."""
        if self._owners is None:
            return len(self._positions) if owner == self._owner else 0
        return countOf(self._owners.values(), owner)

    def skip(self, count: int) -> int:
        """Use up ``count`` tags for deliveries that need no answer; return the first."""
        first = self.next_tag
        self.next_tag = first + count
        return first

    def add(self, owner: ConsumerId, positions: Sequence[Position]) -> int:
        """Give out tags for deliveries of whole entries; return the first."""
        first = self.next_tag
        self.next_tag = after = first + len(positions)
        if owner != self._owner or self._owners is not None:
            self._own(owner, first, after)
        elif not self._positions:
            self._low = first
        self._positions.update(zip(range(first, after), positions, strict=True))
        return first

    def add_parts(
        self, owner: ConsumerId, positions: Sequence[Position], parts: Mapping[int, int]
    ) -> int:
        """As :meth:`add`; ``parts`` maps indexes in ``positions`` to message numbers within the
        batch, for deliveries that are not whole entries."""
        first = self.add(owner, positions)
        self._parts.update({first + index: part for index, part in parts.items()})
        return first

    def pop(self, tags: Sequence[int]) -> tuple[list[AnsweredDeliveries], int | None]:
        """Remove deliveries answered one by one, in order, up to the first unknown tag, which is
        returned as well. Those after it are lost here: the channel is about to be closed, which
        requeues everything."""
        positions = list(map(self._positions.pop, tags, repeat(_NO_POSITION)))
        unknown = None
        if not all(positions):
            count = positions.index(_NO_POSITION)
            unknown = tags[count]
            positions, tags = positions[:count], tags[:count]
        if not positions:
            return [], unknown
        return self._grouped(tags, positions), unknown

    def pop_through(self, tag: int) -> tuple[list[AnsweredDeliveries], int | None]:
        """Remove everything up to ``tag``, which must be there; 0 means all."""
        if not tag:
            return self.pop_all(), None
        if tag not in self._positions:
            return [], tag
        tags: Sequence[int] = range(self._low, tag + 1)
        if self._owners is not None or self._parts:
            tags = self.tags_through(tag)
        self._low = tag + 1
        # Tags answered one by one leave gaps. Each gap is skipped here once and never again.
        positions = list(filter(None, map(self._positions.pop, tags, repeat(_NO_POSITION))))
        return self._grouped(tags, positions), None

    def pop_all(self) -> list[AnsweredDeliveries]:
        """Remove everything."""
        tags, positions = list(self._positions), list(self._positions.values())
        self._positions.clear()
        self._low = self.next_tag
        return self._grouped(tags, positions) if positions else []

    def tags_through(self, tag: int, most: int | None = None) -> list[int]:
        """Return the tags that :meth:`pop_through` would take, the lowest ``most`` of them."""
        if not tag:
            return sorted(self._positions)[:most]
        if self._undone:
            ascending: Iterator[int] = filter(
                self._positions.__contains__, range(self._low, tag + 1)
            )
        else:
            ascending = takewhile(tag.__ge__, self._positions)
        found = list(islice(ascending, most))
        if found:
            self._low = found[0]
        return found

    def part_through(self, tag: int, limit: int) -> int | None:
        """Return a tag below ``tag`` up to which there are about ``limit``; None when there are no
        more than that, or when answers were undone and tags are out of order."""
        if len(self._positions) <= limit or self._undone:
            return None
        found = next(islice(self._positions, limit, None))
        return found if found < tag else None

    @property
    def last(self) -> int:
        """The highest unanswered tag; 0 when there is none."""
        if self._undone:
            return max(self._positions, default=0)
        return next(reversed(self._positions), 0)

    def shed(self, count: int) -> bool:
        """Forget ``count`` of them, for good; True when none is left."""
        for held in (self._parts, self._owners, self._positions):
            if held:
                for _ in range(min(count, len(held))):
                    held.popitem()
        return not self._positions

    def snapshot(self, tags: Iterable[int]) -> list[Pending]:
        """Return what :meth:`restore` needs to undo popping ``tags``, up to the first unknown
        one."""
        pending = []
        for tag in tags:
            if tag not in self._positions:
                break
            owner = self._owner if self._owners is None else self._owners[tag]
            pending.append(Pending(tag, owner, self._positions[tag], self._parts.get(tag, WHOLE)))
        return pending

    def restore(self, pending: Iterable[Pending]) -> None:
        """Put back popped deliveries (those a rolled-back transaction answered)."""
        self._undone = True
        if self._owners is None:
            self._owners = dict.fromkeys(self._positions, self._owner)
        for each in pending:
            self._positions[each.tag] = each.position
            self._owners[each.tag] = each.owner
            if each.part != WHOLE:
                self._parts[each.tag] = each.part
            self._low = min(self._low, each.tag)

    def _own(self, owner: ConsumerId, first: int, after: int) -> None:
        if not self._positions:
            self._low, self._owner, self._owners = first, owner, None
            return
        if self._owners is None:
            self._owners = dict.fromkeys(self._positions, self._owner)
        self._owners.update(dict.fromkeys(range(first, after), owner))

    def _grouped(self, tags: Sequence[int], positions: list[Position]) -> list[AnsweredDeliveries]:
        if self._owners is None and not self._parts:
            return [AnsweredDeliveries(self._owner, positions)]
        groups: dict[ConsumerId, AnsweredDeliveries] = {}
        parts: dict[tuple[ConsumerId, Position], list[int]] = {}
        for tag, position in zip(tags, positions, strict=True):
            owner = self._owners.pop(tag) if self._owners is not None else self._owner
            group = groups.get(owner)
            if group is None:
                group = groups[owner] = AnsweredDeliveries(owner, [])
            part = self._parts.pop(tag, WHOLE)
            if part == WHOLE:
                group.positions.append(position)
            else:
                parts.setdefault((owner, position), []).append(part)
        for (owner, position), found in parts.items():
            groups[owner].masks[position] = mask_of(found)
        return list(groups.values())


def unknown_tag(tag: int) -> Exception:
    """Return RabbitMQ's 406 for a tag that was never given out or is already answered."""
    return precondition_failed(f"unknown delivery tag {tag}")
