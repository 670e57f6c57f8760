"""Key_Shared dispatch: every key at one receiver at a time, and in order.

The rule: an entry goes to the owner of its slot, if no earlier entry of that slot waits and no
other receiver holds the slot. Else it waits, and only entries of its slot wait behind it: a slot
that moves to another receiver drains first, and a slow receiver holds up nobody else's keys.
Entries of a group in flight are the exception: they go to the group's holder, whoever owns the slot
meanwhile and whatever else of the slot waits, or else the slot could not drain. Such a group is a
*stray*, and its waiting entries stand in a line of their own.

Sources: Pulsar ``PersistentStickyKeyDispatcherMultipleConsumers`` and ``DrainingHashesTracker``
(PIP-379). A slot drains here as long as its holder is not its owner, whatever has happened in
between. Pulsar knows no groups here: chunks wait behind the first chunks of their message, until
the client gives these up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.key_sharing import (
    AS_PULSAR,
    DrainingSlot,
    KeyShare,
    LookAhead,
    SlotRange,
)
from arneb_core.dispatch.groups import HeldGroups, slot_of
from arneb_core.dispatch.held_keys import HeldKeys
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import Selector
from arneb_core.dispatch.waiting_keys import WaitingKeys


@dataclass(slots=True)
class Decision:
    """What becomes of the first ``looked_at`` entries of a run, by their indexes."""

    looked_at: int = 0
    given: dict[Receiver, list[int]] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)


class Owners(dict[int, Receiver | None]):
    """The owner of each slot, as the selector said since a receiver last came or left."""

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self._selector = selector

    def __missing__(self, slot: int) -> Receiver | None:
        owner = self[slot] = self._selector.select(slot)
        return owner


class KeySharedDispatcher:
    """Shares entries out by key."""

    def __init__(
        self, selector: Selector, *, in_order: bool = True, look_ahead: LookAhead = AS_PULSAR
    ) -> None:
        self._selector = selector
        self._look_ahead = look_ahead
        self.in_order = in_order
        """A slot waits for its former owner."""
        self._receivers: list[Receiver] = []
        self._owners = Owners(selector)
        self._held = HeldKeys()
        self._groups = HeldGroups()
        self._draining: dict[int, Receiver] = {}
        """The holder of each slot that its owner does not hold."""
        self._drained: dict[Receiver, int] = {}
        """How many slots that others waited for have drained from each holder."""
        self._waiting = WaitingKeys()
        self._lately: dict[Position, int] = {}
        """The slots of entries that left since :meth:`wait_again`: some of them come back."""
        self._lately_of_groups: dict[Position, int] = {}
        """The groups of those that had one."""

    def __repr__(self) -> str:
        return f"<KeySharedDispatcher {self._selector!r}, {self._held!r}, {self._waiting!r}>"

    # Coming and going

    def add(self, receiver: Receiver) -> None:
        """Let ``receiver`` take part."""
        self._receivers.append(receiver)
        self._selector.add(receiver)
        self._owners_changed()

    def remove(self, receiver: Receiver) -> None:
        """Take ``receiver``, which holds nothing any more, out if it is there."""
        if receiver in self._receivers:
            self._receivers.remove(receiver)
            self._selector.remove(receiver)
            self._drained.pop(receiver, None)
            self._owners_changed()

    @property
    def has_room(self) -> bool:
        """Some receiver could be given a message now."""
        return any(receiver.room > 0 for receiver in self._receivers)

    @property
    def receivers(self) -> Iterable[Receiver]:
        """The receivers that take part."""
        return self._receivers

    @property
    def may_look_ahead(self) -> bool:
        """Few enough entries wait."""
        return len(self._waiting) < self._look_ahead.most(len(self._receivers))

    def slots(self, hashes: Sequence[int]) -> list[int]:
        """Return the slots of keys."""
        return self._selector.slots(hashes)

    # New entries

    def share(
        self,
        slots: Sequence[int],
        costs: Sequence[int] | None = None,
        groups: Sequence[int] | None = None,
    ) -> Decision:
        """Share out a run of entries, given by their slots, and count what is given.

        ``costs[i]`` is the number of messages in entry *i*; None means one each. ``groups[i]`` is
        its group, 0 = none; None means that no entry has one. Ends before the end of the run when
        no receiver has room any more.
        """
        decision = Decision()
        rooms = {each: room for each in self._receivers if (room := each.room) > 0}
        common_room = min((each.common_room for each in rooms), default=0)
        waiting, draining = self._waiting.slots, self._draining if self.in_order else {}
        lines = self._lines(slots, groups)
        owners = map(self._owner_of if lines is not slots else self._owners.__getitem__, lines)
        for index, (line, owner) in enumerate(zip(lines, owners, strict=True)):
            if not rooms or common_room <= 0:
                break
            decision.looked_at = index + 1
            # No reason to wait ends inside a run, so nothing overtakes an entry of its line here.
            if owner is None or owner not in rooms or line in waiting or line in draining:
                decision.waiting.append(index)
                continue
            if owner in decision.given:
                decision.given[owner].append(index)
            else:
                decision.given[owner] = [index]
            cost = 1 if costs is None else costs[index]
            common_room -= cost
            room = rooms[owner] = rooms[owner] - cost
            if room <= 0:
                del rooms[owner]
        for owner, indexes in decision.given.items():
            owner.given(len(indexes) if costs is None else sum(costs[each] for each in indexes))
        return decision

    def took(
        self,
        receiver: Receiver,
        positions: Sequence[Position],
        slots: Sequence[int],
        groups: Sequence[int] | None = None,
    ) -> None:
        """Note that ``positions`` are in flight at ``receiver``."""
        assert not self.in_order or all(
            self._held.holders[slot] is receiver for slot in self._draining.keys() & slots
        ), "one receiver a key"
        self._held.took(receiver, positions, slots)
        if groups is not None:
            self._groups.took(receiver, positions, groups)

    def left(self, positions: Iterable[Position]) -> None:
        """Note that these are in flight nowhere any more, answered or given back."""
        found = self._held.left(positions)
        if not found:
            return
        self._lately.update(found)
        if self._groups:
            self._left_groups(found)
        waiting, holders, draining = self._waiting.slots, self._held.holders, self._draining
        if waiting or draining:
            for slot in set(found.values()):
                if slot not in holders:
                    holder = draining.pop(slot, None)
                    if holder is not None and self.in_order:
                        self._drained[holder] = self._drained.get(holder, 0) + 1
                    if slot in waiting:
                        self._let_on(slot)

    def _left_groups(self, positions: Iterable[Position]) -> None:
        """Put entries that wait of groups no longer in flight back into their slots' lines."""
        found = self._groups.left(positions)
        self._lately_of_groups.update(found)
        for group in self._groups.ended(found.values()):
            self._waiting.rejoin(slot_of(group), group)
            self._let_on(slot_of(group))

    # Waiting entries

    def wait(
        self,
        positions: Sequence[Position],
        slots: Sequence[int],
        groups: Sequence[int] | None = None,
    ) -> None:
        """Let these wait for their keys' turn."""
        for line in self._waiting.add(positions, self._lines(slots, groups), groups):
            self._let_on(line)

    def wait_again(self, ready: BitMap64) -> None:
        """Let those of ``ready`` that were in flight a moment ago wait again."""
        lately, self._lately = self._lately, {}
        of_groups, self._lately_of_groups = self._lately_of_groups, {}
        known = [position for position in lately if position in ready]
        if known:
            groups = [of_groups.get(position, 0) for position in known] if of_groups else None
            self.wait(known, [lately[position] for position in known], groups)

    @property
    def waiting(self) -> WaitingKeys:
        """The waiting entries; not to be changed by others."""
        return self._waiting

    def next_due(self, receiver: Receiver) -> Position | None:
        """Return the lowest waiting entry that ``receiver`` may be given now, if it has room."""
        waiting = self._waiting
        while (line := waiting.front(receiver)) is not None:
            if self._may_go(line):
                return waiting.first(line)
            waiting.hold_up(line)
        return None

    def take_due(self, receiver: Receiver) -> tuple[Position, int]:
        """Take the entry of :meth:`next_due` out of its line; return it and its slot."""
        line = self._waiting.front(receiver)
        assert line is not None, "next_due() had something"
        position = self._waiting.take(line)
        if line in self._waiting.slots:
            self._let_on(line)
        return position, slot_of(line)

    @property
    def due_receivers(self) -> list[Receiver]:
        """The receivers that have room, and a waiting entry that they may be given now."""
        return [
            each
            for each in self._receivers
            if self._waiting.front(each) is not None and each.room > 0
        ]

    def shares(self) -> dict[Receiver, KeyShare]:
        """Return each receiver's share of the keys."""
        ranges: dict[Receiver, list[SlotRange]] = {each: [] for each in self._receivers}
        for first, last, receiver in self._selector.ranges():
            ranges[receiver].append((first, last))
        draining: dict[Receiver, list[DrainingSlot]] = {}
        for slot, holder in sorted(self._draining.items(), key=itemgetter(0)):
            if self.in_order:
                found = DrainingSlot(slot, self._held.count(slot), self._waiting.count(slot))
                draining.setdefault(holder, []).append(found)
        drained = self._drained
        return {
            each: KeyShare(
                ranges=tuple(ranges[each]),
                draining=tuple(draining.get(each, ())),
                drains=self.in_order,
                drained_total=drained.get(each, 0),
            )
            for each in self._receivers
        }

    # Inside

    def _lines(self, slots: Sequence[int], groups: Sequence[int] | None) -> Sequence[int]:
        """Return the line of each entry: its slot's, or its group's if that is a stray."""
        strays = self._groups.strays
        if not strays or groups is None:
            return slots
        return [g if g in strays else slot for slot, g in zip(slots, groups, strict=True)]

    def _owner_of(self, line: int) -> Receiver | None:
        return self._groups.strays.get(line) or self._owners[line]

    def _may_go(self, line: int) -> bool:
        return not self.in_order or line not in self._draining

    def _let_on(self, line: int) -> None:
        """Let the line have its turn at its owner, unless it drains."""
        owner = self._owner_of(line)
        if owner is not None and self._may_go(line):
            self._waiting.line_up(line, owner)

    def _owners_changed(self) -> None:
        self._owners.clear()
        held = self._held.holders.items()
        owners = self._owners
        self._draining = {slot: holder for slot, holder in held if owners[slot] is not holder}
        self._waiting.disperse()
        if self._groups:
            self._sort_groups()
        for line in self._waiting.slots:
            self._let_on(line)

    def _sort_groups(self) -> None:
        before = self._groups.strays
        self._groups.sort(self._owners)
        for group in before.keys() - self._groups.strays.keys():
            self._waiting.rejoin(slot_of(group), group)
        for group in self._groups.strays.keys() - before.keys():
            self._waiting.part(slot_of(group), group)
