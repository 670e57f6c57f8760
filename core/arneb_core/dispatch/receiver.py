"""A receiver: how much one consumer may be given now.

The rule: room is counted in messages, never in entries, and every message that is handed out is
counted here before another receiver is asked.
"""

from typing import Final

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.windows import UnackedWindow, Window

UNBOUNDED: Final = 1 << 40
"""More messages than a run can ever hold: the room of a consumer without limits."""


class Receiver:
    """The dispatcher's view of a consumer.

    ``permits`` count messages and may go below zero, because an entry is given whole to a
    consumer that has any permit left (Pulsar, ``PersistentDispatcherMultipleConsumers``).
    """

    __slots__ = (
        "line",
        "message_level",
        "name",
        "permits",
        "priority",
        "ranges",
        "shared_windows",
        "turn",
        "unacked",
        "unlimited",
        "windows",
        "writable",
    )

    def __init__(self, spec: ConsumerSpec, unacked: tuple[UnackedWindow, ...] = ()) -> None:
        self.name = spec.name
        self.permits = 0
        self.unlimited = spec.unlimited
        self.windows: tuple[Window, ...] = (*spec.windows, *unacked) if spec.acks else ()
        self.unacked = unacked
        self.shared_windows: tuple[Window, ...] = () if spec.acks else spec.windows
        """Windows of a receiver without acknowledgements: it waits while others fill one."""
        self.line = Window() if spec.line is None else spec.line
        """Receivers with the same line get their entries in log order across all of them."""
        self.priority = spec.priority
        self.turn = max(1, spec.entries_per_turn_max)
        self.message_level = spec.message_level
        self.ranges = spec.sharing.ranges
        """Its ranges of key hashes, if the subscription shares keys out by ranges."""
        self.writable = True

    def __repr__(self) -> str:
        return f"<Receiver {self.name!r}, {self.permits} permits, writable {self.writable}>"

    @property
    def room(self) -> int:
        """Messages that it may be given now; 0 or less means none."""
        if not self.writable:
            return 0
        room = UNBOUNDED if self.unlimited else self.permits
        for window in self.windows:
            if window.limit and window.limit - window.in_flight < room:
                room = window.limit - window.in_flight
        for window in self.shared_windows:
            if 0 < window.limit <= window.in_flight:
                return 0
        return room

    @property
    def common_room(self) -> int:
        """Messages that it and all others of its subscription may be given together."""
        left = [each.limit - each.in_flight for each in self.unacked if len(each.sharers) > 1]
        return min(left, default=UNBOUNDED)

    def given(self, messages: int) -> None:
        """Count ``messages`` that are on their way to it."""
        if not self.unlimited:
            self.permits -= messages
        for window in self.windows:
            window.in_flight += messages
        for each in self.unacked:
            each.counted()

    def freed(self, messages: int) -> None:
        """Count ``messages`` as no longer in flight here; permits do not come back with them."""
        for window in self.windows:
            window.in_flight -= messages
        for each in self.unacked:
            each.counted()
