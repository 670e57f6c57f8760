"""Key_Shared dispatch: every key at one receiver at a time, and in order.

The rule: an entry goes to the owner of its slot, if no earlier entry of that slot waits and no
other receiver holds the slot. Else it waits, and only what has its slot waits behind it: when a
slot moves to another receiver it drains first, and a slow receiver holds up nobody else's keys.

Sources: Pulsar ``PersistentStickyKeyDispatcherMultipleConsumers`` and ``DrainingHashesTracker``
(PIP-379). A slot drains here as long as its holder is not its owner, whatever has happened in
between.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.position import Position
from arneb_core.dispatch.held_keys import HeldKeys
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import Selector
from arneb_core.dispatch.waiting_keys import WaitingKeys

LOOK_AHEAD_PER_RECEIVER: Final = 2_000
LOOK_AHEAD_MAX: Final = 20_000
"""Entries that may wait for their keys' turn before nothing new is read (Pulsar's
``keySharedLookAheadMsgInReplayThresholdPerConsumer`` and ``…PerSubscription``)."""


@dataclass(slots=True)
class Decision:
    """What becomes of the first ``looked_at`` entries of a run, by their indexes."""

    looked_at: int = 0
    given: dict[Receiver, list[int]] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)


class Owners(dict[int, Receiver | None]):
    """Whose each slot is, as the selector said since somebody came or left."""

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self._selector = selector

    def __missing__(self, slot: int) -> Receiver | None:
        owner = self[slot] = self._selector.select(slot)
        return owner


class KeySharedDispatcher:
    """Decides by key who gets what."""

    def __init__(self, selector: Selector, *, in_order: bool = True) -> None:
        self._selector = selector
        self.in_order = in_order
        """A slot waits for its former owner."""
        self._receivers: list[Receiver] = []
        self._owners = Owners(selector)
        self._held = HeldKeys()
        self._draining: set[int] = set()
        """The slots whose holder is not their owner."""
        self._waiting = WaitingKeys()
        self._lately: dict[Position, int] = {}
        """The slots of what has left since :meth:`wait_again`: some of it comes back."""

    def __repr__(self) -> str:
        return f"<KeySharedDispatcher {self._selector!r}, {self._held!r}, {self._waiting!r}>"

    # Coming and going

    def add(self, receiver: Receiver) -> None:
        """Let ``receiver`` take part."""
        self._receivers.append(receiver)
        self._selector.add(receiver)
        self._owners_changed()

    def remove(self, receiver: Receiver) -> None:
        """Take ``receiver`` out, if it is there; it holds nothing any more."""
        if receiver in self._receivers:
            self._receivers.remove(receiver)
            self._selector.remove(receiver)
            self._owners_changed()

    @property
    def has_room(self) -> bool:
        """Somebody could be given a message now."""
        return any(receiver.room > 0 for receiver in self._receivers)

    @property
    def receivers(self) -> Iterable[Receiver]:
        """Those who take part."""
        return self._receivers

    @property
    def may_look_ahead(self) -> bool:
        """Not too much waits yet."""
        most = min(LOOK_AHEAD_MAX, LOOK_AHEAD_PER_RECEIVER * len(self._receivers))
        return len(self._waiting) < most

    def slots(self, hashes: Sequence[int]) -> list[int]:
        """The slots of keys."""
        return self._selector.slots(hashes)

    # New entries

    def share(self, slots: Sequence[int], costs: Sequence[int] | None = None) -> Decision:
        """Share out a run of entries, told by their slots; counts what is given.

        ``costs[i]`` is the number of messages in entry *i*; None means one each. Ends before
        the end of the run when nobody has room any more.
        """
        decision = Decision()
        rooms = {each: room for each in self._receivers if (room := each.room) > 0}
        common_room = min((each.common_room for each in rooms), default=0)
        waiting, draining = self._waiting.slots, self._draining if self.in_order else ()
        owners = map(self._owners.__getitem__, slots)
        for index, (slot, owner) in enumerate(zip(slots, owners, strict=True)):
            if not rooms or common_room <= 0:
                break
            decision.looked_at = index + 1
            # None of the reasons to wait ends inside a run, so nothing overtakes its like here.
            if owner is None or owner not in rooms or slot in waiting or slot in draining:
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

    def took(self, receiver: Receiver, positions: Sequence[Position], slots: Sequence[int]) -> None:
        """``positions`` are in flight at ``receiver``."""
        assert not (self.in_order and self._draining.intersection(slots)), "one receiver a key"
        self._held.took(receiver, positions, slots)

    def left(self, positions: Iterable[Position]) -> None:
        """These are in flight nowhere any more, answered or given back."""
        found = self._held.left(positions)
        if not found:
            return
        self._lately.update(found)
        waiting, holders, draining = self._waiting.slots, self._held.holders, self._draining
        if waiting or draining:
            for slot in set(found.values()):
                if slot not in holders:
                    draining.discard(slot)
                    if slot in waiting:
                        self._let_on(slot)

    # Waiting entries

    def wait(self, positions: Sequence[Position], slots: Sequence[int]) -> None:
        """These wait for their keys' turn."""
        for slot in self._waiting.add(positions, slots):
            self._let_on(slot)

    def wait_again(self, ready: BitMap64) -> None:
        """Of ``ready``, what was in flight a moment ago waits again."""
        lately, self._lately = self._lately, {}
        known = [place for place in lately if place in ready]
        if known:
            self.wait(known, [lately[place] for place in known])

    @property
    def waiting(self) -> WaitingKeys:
        """What waits; not to be changed by others."""
        return self._waiting

    def next_due(self, receiver: Receiver) -> Position | None:
        """The lowest waiting entry that ``receiver`` may be given now, save that it may have no
        room."""
        waiting = self._waiting
        while (slot := waiting.front(receiver)) is not None:
            if self._may_go(slot):
                return waiting.first(slot)
            waiting.hold_up(slot)
        return None

    def take_due(self, receiver: Receiver) -> tuple[Position, int]:
        """The entry of :meth:`next_due` and its slot: it waits no more."""
        slot = self._waiting.front(receiver)
        assert slot is not None, "next_due() had something"
        place = self._waiting.take(slot)
        if slot in self._waiting.slots:
            self._let_on(slot)
        return place, slot

    @property
    def due_receivers(self) -> list[Receiver]:
        """Those that have room, and something waiting that they may be given now."""
        return [
            each
            for each in self._receivers
            if self._waiting.front(each) is not None and each.room > 0
        ]

    # Inside

    def _may_go(self, slot: int) -> bool:
        return not self.in_order or slot not in self._draining

    def _let_on(self, slot: int) -> None:
        """The slot may have its turn, if its owner may have it."""
        owner = self._owners[slot]
        if owner is not None and self._may_go(slot):
            self._waiting.line_up(slot, owner)

    def _owners_changed(self) -> None:
        self._owners.clear()
        held = self._held.holders.items()
        self._draining = {slot for slot, holder in held if self._owners[slot] is not holder}
        self._waiting.disperse()
        for slot in self._waiting.slots:
            self._let_on(slot)
