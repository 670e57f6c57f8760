"""Delivery by group: entries that are useless without one another go to one consumer.

The rule: while some entry of a group is in flight at a consumer, the rest of the group goes there
and nowhere else, in order; entries that cannot go there now are set aside in the replay set, so
that they hold up no others. Only Shared subscriptions with groups use this; Key_Shared keeps groups
together as it does keys, and with all other types everything goes to one consumer anyway.

Source: Pulsar ``SharedConsumerAssignor``, which keeps chunks of a message together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.entries.expiry import NEVER, expires_ms
from arneb_core.api.entries.position import Position
from arneb_core.dispatch import Receiver
from arneb_core.dispatch.groups import hints_of
from arneb_core.dispatch.held_keys import HeldKeys
from arneb_core.subscription.departures.limit_enforcer import LimitEnforcer
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.ready import Ready, Source
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state.effects import WakeAt
from arneb_core.subscription.state.state import SubscriptionState

LOOK_AHEAD_MAX: Final = 2_000
"""Entries set aside for their group's consumer beyond which nothing new is read."""


@dataclass(slots=True, eq=False)
class GroupedDelivery:
    """Hands out a Shared subscription's entries while some of them are grouped."""

    _state: SubscriptionState
    _ready: Ready
    _delivery: Delivery
    _enforcer: LimitEnforcer
    _held: HeldKeys = field(default_factory=HeldKeys, init=False)
    _aside: dict[int, list[Position]] = field(default_factory=dict, init=False)
    """By group, entries set aside because their consumer had no room."""
    _expires_ms: int = field(default=NEVER, init=False)
    """When the first of those expires."""
    is_active: bool = field(default=False, init=False)
    """Some group is in flight, or may be at hand."""

    def __repr__(self) -> str:
        return f"<GroupedDelivery {'active' if self.is_active else 'idle'}, {self._held!r}>"

    def begin_if_needed(self, entries: Sequence[bytes]) -> bool:
        """Become active if some of ``entries``, about to be handed out, are grouped; return
        whether."""
        if not any(hints_of(entries)):
            return False
        self.is_active = True
        for consumer in self._state.consumers.values():
            consumer.keys = self
        return True

    def left(self, positions: Iterable[Position]) -> None:
        """Note that these are in flight nowhere any more."""
        self._held.left(positions)

    def hand_out(self) -> int:
        """Take one step; return how many entries it dealt with, 0 if there was nothing to do."""
        replay = self._state.replay
        self._bring_back(replay)
        taken = self._hand_out_of(replay) if replay else 0
        held_up = isinstance(replay, ReplaySet) and not replay.has_ready
        if taken is None and not held_up:
            return 0  # what goes first is being read
        if not taken and isinstance(replay, ReplaySet) and replay.aside < LOOK_AHEAD_MAX:
            taken = self._hand_out_of(self._ready.after_replays())
        taken = taken or 0
        if not taken and not self._held.holders:
            self._end()
        return taken

    def end(self) -> None:
        """Bring back everything set aside: the last consumer left, or something expired."""
        replay = self._state.replay
        for positions in self._aside.values():
            replay.bring_back(positions)
        self._aside.clear()
        self._expires_ms = NEVER

    def _bring_back(self, replay: ReplaySet | PrioritySource) -> None:
        """Bring back entries whose group is in flight nowhere any more, or whose consumer has room.
        The others would only be set aside again and again."""
        if self._expires_ms < NEVER and self._expires_ms <= self._state.now_ms():
            self.end()
        holders = self._held.holders
        for group in list(self._aside):
            receiver = holders.get(group)
            if receiver is None or receiver.room > 0:
                replay.bring_back(self._aside.pop(group))

    def _end(self) -> None:
        self.end()
        self.is_active = False
        for consumer in self._state.consumers.values():
            consumer.keys = None

    def _hand_out_of(self, source: Source) -> int | None:
        """Hand out what can be handed out of ``source``; return how many entries were looked at,
        None when nothing is at hand."""
        if isinstance(source, PrioritySource) and source.aside >= LOOK_AHEAD_MAX:
            return 0
        at_hand = source.peek()
        if at_hand is None:
            return None
        positions, entries = at_hand
        if self._state.is_expiring:
            is_replay = isinstance(source, ReplaySet)
            positions, entries = self._enforcer.living(positions, entries, may_be_new=not is_replay)
            if not positions:
                return self._enforcer.take_expired(source, spares_new=not is_replay) or 0
        looked_at, held_up = self._share(positions, entries)
        for position, group in held_up.items():
            self._aside.setdefault(group, []).append(position)
        if held_up and self._state.is_expiring:
            self._expect_expiry(
                [e for p, e in zip(positions, entries, strict=True) if p in held_up]
            )
        if isinstance(source, ReplaySet):
            given = [position for position in positions[:looked_at] if position not in held_up]
            if given:
                source.take(given)
            source.set_aside(held_up)
        elif looked_at:
            source.take(positions[:looked_at])
            replay = self._state.replay
            if isinstance(replay, ReplaySet):
                replay.add(held_up)
            replay.set_aside(held_up)
        return looked_at

    def _expect_expiry(self, entries: list[bytes]) -> None:
        """Have these, which are set aside, looked at again when the first of them expires."""
        ttl = self._state.limits.message_ttl_ms
        soonest_ms = min(expires_ms(entry, ttl) for entry in entries)
        if soonest_ms < self._expires_ms:
            self._expires_ms = soonest_ms
            self._state.outbox.put(WakeAt(soonest_ms))

    def _share(
        self, positions: list[Position], entries: list[bytes]
    ) -> tuple[int, dict[Position, int]]:
        """Hand out what can be handed out; return how many entries were looked at, and by entry the
        groups whose consumer has no room."""
        groups = hints_of(entries)
        held_up: dict[Position, int] = {}
        at = 0
        while at < len(positions):
            if groups[at]:
                is_out = self._give(positions[at], entries[at], groups[at])
                if is_out is None:
                    break
                if not is_out:
                    held_up[positions[at]] = groups[at]
                at += 1
                continue
            stop = at + 1
            while stop < len(positions) and not groups[stop]:
                stop += 1
            batches = self._state.log.has_batches
            taken = self._delivery.hand_out(positions[at:stop], entries[at:stop], batches=batches)
            at += taken
            if at < stop:
                break
        return at, held_up

    def _give(self, position: Position, entry: bytes, group: int) -> bool | None:
        """Deliver one entry of a group; return False if its consumer has no room, None if no
        consumer has."""
        receiver: Receiver | None = self._held.holders.get(group)
        if receiver is None:
            receiver = self._delivery.choose()
            if receiver is None:
                return None
        elif receiver.room > 0:
            receiver.given(1)
        else:
            return False
        self._held.took(receiver, [position], [group])
        self._delivery.deliver(self._state.consumers[receiver], [position], [entry])
        return True
