"""Failover dispatch: everything goes to one active receiver, the others wait for their turn.

The rule: the active receiver is chosen again whenever one is added or removed, by a pure function
of those present and the previous one. Entries still in flight at the previous one are not this
module's business.

Sources: Pulsar ``AbstractDispatcherSingleActiveConsumer`` (top priority level only, sorted by
name; a partition's index counts round, other topics go by a hash ring), RabbitMQ single active
consumer (the first stays; after it the highest priority, among those the one there longest).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from arneb_core.api.encoding.hashing import murmur3_32
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.shared import Share, fill

Pick = Callable[[Sequence[Receiver], Receiver | None], Receiver]
"""Chooses the active one among receivers (in the order they came, at least one); also gets the one
active before, if it is still there."""

RING_POINTS = 100
"""Points of each receiver on the ring (``CONSUMER_CONSISTENT_HASH_REPLICAS``)."""


class FailoverDispatcher:
    """Gives runs to the active receiver."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick
        self._receivers: list[Receiver] = []
        self.active: Receiver | None = None

    def __len__(self) -> int:
        return len(self._receivers)

    def __repr__(self) -> str:
        name = self.active.name if self.active else "nobody"
        return f"<FailoverDispatcher {name} active of {len(self._receivers)}>"

    def add(self, receiver: Receiver) -> None:
        """Let ``receiver`` take part."""
        self._receivers.append(receiver)
        self._choose()

    def remove(self, receiver: Receiver) -> None:
        """Take ``receiver`` out, if it is there."""
        if receiver in self._receivers:
            self._receivers.remove(receiver)
            self._choose()

    @property
    def has_room(self) -> bool:
        """The active receiver could be given a message now."""
        return self.active is not None and self.active.room > 0

    @property
    def receivers(self) -> Sequence[Receiver]:
        """The receivers that may be given something: the active one."""
        return [] if self.active is None else [self.active]

    def share(self, entries: int, costs: Sequence[int] | None = None) -> list[Share]:
        """As :meth:`.SharedDispatcher.share`."""
        if not self.has_room or self.active is None:
            return []
        stop, messages = fill(0, entries, self.active.room, costs)
        self.active.given(messages)
        return [(self.active, 0, stop)]

    def _choose(self) -> None:
        before = self.active if self.active in self._receivers else None
        self.active = self._pick(self._receivers, before) if self._receivers else None


def first_come(receivers: Sequence[Receiver], before: Receiver | None) -> Receiver:
    """Keep the active one; else take the first to come on the highest level."""
    return before or min(receivers, key=lambda each: each.priority)


def by_name(topic: str, partition: int | None) -> Pick:
    """Return Pulsar's choice for a topic, or for a partition of one."""

    def pick(receivers: Sequence[Receiver], _: Receiver | None) -> Receiver:
        top = min(each.priority for each in receivers)
        level = sorted(
            (each for each in receivers if each.priority == top), key=lambda each: each.name
        )
        if partition is not None:
            return level[partition % len(level)]
        return level[_on_ring([each.name for each in level], topic)]

    return pick


def _on_ring(names: Sequence[str], topic: str) -> int:
    """Return the index of the name with the first point at or after the topic's on the ring."""
    ring: dict[int, int] = {}
    for index, name in enumerate(names):
        for point in range(RING_POINTS):
            ring[murmur3_32(f"{name}{point}".encode()) & 0x7FFFFFFF] = index
    points = sorted(ring)
    at = bisect_left(points, murmur3_32(topic.encode()) & 0x7FFFFFFF)
    return ring[points[at % len(points)]]
