"""In flight: the entries that one consumer of a subscription holds unacknowledged.

The rule: an entry that leaves this state (acknowledged, returned, acknowledged by another consumer)
is counted back into the windows exactly once. What happens to it then is not decided here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import UnackedWindow, consumer_window
from arneb_core.cursor.acks import AckState
from arneb_core.dispatch import Receiver


class Watching(Protocol):
    """Keeps track of which entries are in flight at which consumer."""

    def left(self, positions: Iterable[Position]) -> None:
        """Note that these are not in flight any more, if they were."""
        ...


class Noting(Protocol):
    """Notes at which consumer entries are in flight, while that is asked for."""

    is_kept: bool
    """It is asked for."""

    def took(self, consumer: "InFlight", whole: Iterable[Position]) -> None:
        """Note that ``consumer`` has these as a whole."""
        ...

    def divided(self, positions: Iterable[Position]) -> None:
        """Note that several consumers may have parts of these."""
        ...


class InFlight:
    """What is in flight at one consumer, and how much more it may get."""

    def __init__(self, spec: ConsumerSpec, shared: UnackedWindow | None = None) -> None:
        """``shared``: the window of all consumers of the subscription together."""
        self.name = spec.name
        self.spec = spec
        unacked = () if shared is None else (shared,)
        self._shared = shared
        self._unacked = consumer_window(spec.unacked_max) if spec.unacked_max else None
        if self._unacked is not None:
            unacked = (self._unacked, *unacked)
        self.receiver = Receiver(spec, unacked)
        self._windows = (*spec.windows, *unacked)
        self.keys: Watching | None = None
        """Told of what is no longer in flight here, if anything must be."""
        self.holders: Noting | None = None
        """Told of what is in flight here, while that is asked for."""
        self.attached = True
        self.delivered_messages_total = 0
        """Messages ever delivered here."""
        self.whole: set[Position] = set()
        """Entries in flight here that were delivered whole."""
        self.sizes: dict[Position, int] = {}
        """Messages delivered, for entries of ``whole`` with other than one."""
        self.masks: dict[Position, int] = {}
        """Divided batches: bit *i* set = message *i* is in flight here."""
        for window in self._windows:
            window.sharers[self] = None

    def __repr__(self) -> str:
        state = f"{self.in_flight} in flight" if self.attached else "detached"
        return f"<InFlight at {self.name}, {state}>"

    def wake(self) -> None:
        """A window that was full has room again."""

    def limit_unacked(self, most: int) -> None:
        """Change the limit of unacknowledged messages here, if there is one."""
        if self._unacked is not None:
            self._unacked.change(consumer_window(most))

    @property
    def is_shut_off(self) -> bool:
        """It met its limit of unacknowledged messages, and has not answered enough since."""
        return self._unacked is not None and self._unacked.is_shut

    @property
    def subscription_is_shut_off(self) -> bool:
        """The same for all consumers of the subscription together."""
        return self._shared is not None and self._shared.is_shut

    @property
    def in_flight(self) -> int:
        """Messages delivered here and neither acknowledged nor released."""
        batches = sum(self.sizes.values()) - len(self.sizes)
        return len(self.whole) + batches + sum(map(int.bit_count, self.masks.values()))

    @property
    def entries_in_flight(self) -> int:
        """Entries of which something is in flight here."""
        return len(self.whole) + len(self.masks)

    @property
    def positions(self) -> set[Position]:
        """Entries of which something is in flight here."""
        return {*self.whole, *self.masks}

    def took(
        self, run: Deliveries, messages: int, sizes: Sequence[int] | None, *, is_divided: bool
    ) -> None:
        """Note that ``run`` is on its way here; windows and permits are counted already."""
        self.delivered_messages_total += messages
        if not self.spec.acks:
            self.freed(messages)
        elif is_divided and run.masks is not None:
            self._note_divided(run.masks)
            for position, mask in run.masks.items():
                self.masks[position] = self.masks.get(position, 0) | mask
        else:
            self._note_whole(run.positions)
            self.whole.update(run.positions)
            if sizes is not None:
                held = zip(run.positions, sizes, strict=True)
                self.sizes.update((position, size) for position, size in held if size != 1)

    def discard(self, positions: Sequence[Position]) -> None:
        """Drop entries that another consumer acknowledged (our client, attached again)."""
        self.remove([each for each in positions if each in self.whole])
        for position in [each for each in positions if each in self.masks]:
            self.remove_messages(position, self.masks[position])

    def remove(self, positions: Sequence[Position]) -> int:
        """Take ``positions`` out of ``whole``; return how many were in it."""
        whole = self.whole
        before = len(whole)
        whole.difference_update(positions)
        messages = taken = before - len(whole)
        if self.sizes and taken:
            for position in positions:
                size = self.sizes.pop(position, None)
                if size is not None:
                    messages += size - 1
        if messages:
            self.freed(messages)
        if taken and self.keys is not None:
            self.keys.left(positions)
        return taken

    def remove_messages(self, position: Position, mask: int) -> int:
        """Take messages out of ``masks``; return those that were in flight here."""
        held = self.masks[position]
        taken = held & mask
        if taken == held:
            del self.masks[position]
            if self.keys is not None:
                self.keys.left([position])
        else:
            self.masks[position] = held & ~taken
        self.freed(taken.bit_count())
        return taken

    def shrink(self, position: Position, mask: int, acks: AckState) -> int | None:
        """Take messages out of a whole batch in flight here; return the batch's size if known."""
        held = self.sizes.get(position, 1)
        unacked = acks.unacked_mask(position)
        size = None
        if unacked is None:  # none of it was acknowledged before: all of it was delivered
            size = held
            unacked = (1 << held) - 1
        left = (unacked & ~mask).bit_count()
        if left:
            self.sizes[position] = left
            self.freed(held - left)
        else:
            self.remove([position])
        return size

    def restored(self, held: "Held") -> None:
        """Put ``held`` in flight here again: the commit that acknowledged it failed."""
        self._note_whole(held.whole)
        self._note_divided(held.masks)
        self.whole.update(held.whole)
        self.sizes.update((position, size) for position, size in held.whole.items() if size != 1)
        for position, mask in held.masks.items():
            self.masks[position] = self.masks.get(position, 0) | mask
        for window in self.receiver.windows:
            window.in_flight += held.messages

    def freed(self, messages: int) -> None:
        """Count ``messages`` as no longer in flight here. All sharers of a window that was full
        continue, on whatever subscription; this consumer last, so that none is left behind."""
        full = [each for each in self.receiver.windows if 0 < each.limit <= each.in_flight]
        self.receiver.freed(messages)
        for window in full:
            sharers = window.sharers
            if len(sharers) > 1:
                if self in sharers:
                    del sharers[self]
                    sharers[self] = None
                for other in sharers:
                    other.wake()

    def _note_whole(self, positions: Iterable[Position]) -> None:
        if self.holders is not None and self.holders.is_kept:
            self.holders.took(self, positions)

    def _note_divided(self, masks: Iterable[Position]) -> None:
        if self.holders is not None and self.holders.is_kept:
            self.holders.divided(masks)

    def leave_windows(self) -> None:
        """Stop sharing any window."""
        for window in self._windows:
            window.sharers.pop(self, None)


@dataclass(frozen=True, slots=True)
class Held:
    """Entries in flight at one consumer, as they were when a unit took them."""

    whole: dict[Position, int]
    """Entries delivered whole: how many messages were delivered."""
    masks: dict[Position, int]
    """Divided batches: the messages."""

    @property
    def messages(self) -> int:
        """Messages in flight."""
        return sum(self.whole.values()) + sum(map(int.bit_count, self.masks.values()))
