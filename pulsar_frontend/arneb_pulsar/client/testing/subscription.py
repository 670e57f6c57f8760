"""A subscription in memory: what is acknowledged, what is in flight, and who gets the next entry.

The rule: an entry goes to one consumer at a time, in order, while that consumer has permits; it is
redelivered on request or when its consumer is gone, and never once it is acknowledged.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol
from zlib import crc32

from arneb_pulsar.client.errors import TransactionConflict
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.messages import TransactionId
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSubscribe


@dataclass(frozen=True, slots=True)
class Entry:
    """One SEND as a topic stores it."""

    id: EntryId
    body: bytes
    messages: int
    is_batch: bool
    key: bytes
    """The key that orders it; empty if there is none."""
    publish_time_ms: int
    transaction: TransactionId | None = None


class Log(Protocol):
    """The entries of a topic, as a subscription sees them."""

    entries: list[Entry]
    aborted: set[int]
    """Indexes of the entries of aborted transactions."""

    @property
    def end(self) -> int:
        """The index at which reading ends: the first entry of an open transaction."""


SHARING: Final = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})

Deliver = Callable[[Entry, int, int, int], None]
"""Called with an entry, the bit set of its unacknowledged messages, its redelivery count, and the
consumer's epoch."""


@dataclass(slots=True, eq=False)
class FakeConsumer:
    """One consumer of a subscription."""

    name: str
    priority: int
    deliver: Deliver
    active: Callable[[bool], None]
    """Called with whether it is the active consumer of a Failover subscription."""
    ended: Callable[[], None]
    """Called to make it subscribe again."""
    permits: int = 0
    is_active: bool | None = None
    epoch: int = 0
    """Raised by the client when it requests redelivery of everything."""
    pending: dict[int, int] = field(default_factory=dict)
    """Its entries in flight: their indexes, with the bit sets of the messages sent."""

    def __repr__(self) -> str:
        return f"<FakeConsumer {self.name}, {self.permits} permits, {len(self.pending)} pending>"


class FakeSubscription:
    """One subscription. Entries are named by their index in the topic's list.

    Invariant: entries that are neither acknowledged, nor pending at a consumer, nor in ``_again``
    are yet to be read, from ``_next`` on. ``_claims`` has the acknowledgements of open
    transactions; nobody gets those messages meanwhile.
    """

    def __init__(self, name: str, kind: int, log: Log, start: int) -> None:
        self.name = name
        self.kind = kind
        self.is_durable = True
        self.is_replicated = False
        """Acknowledgements are to be replicated to the topic's other clusters."""
        self.consumers: list[FakeConsumer] = []
        self._log = log
        self._entries = log.entries
        self._again: set[int] = set()
        self._left: dict[int, int] = {}
        self._claims: dict[TransactionId, dict[int, int]] = {}
        self._redeliveries: dict[int, int] = {}
        self._turn = 0
        self.reset(start)

    def __repr__(self) -> str:
        return (
            f"<FakeSubscription {self.name!r}, {len(self.consumers)} consumers,"
            f" done before {self._done_before}, reads {self._next}>"
        )

    # Consumers

    def attach(self, consumer: FakeConsumer) -> None:
        """Add a consumer that was admitted."""
        self.consumers.append(consumer)
        self.consumers.sort(key=lambda each: (each.priority, each.name))
        self._tell_who_is_active()

    def detach(self, consumer: FakeConsumer) -> None:
        """Remove a consumer; others get its pending entries."""
        self.consumers.remove(consumer)
        self._again.update(consumer.pending)
        self._tell_who_is_active()
        self.dispatch()

    def end_all(self) -> None:
        """Make all consumers subscribe again."""
        consumers, self.consumers = self.consumers, []
        for consumer in consumers:
            self._again.update(consumer.pending)
            consumer.ended()

    # Acknowledgements

    def acknowledge(self, index: int, left: int) -> None:
        """Acknowledge the messages of an entry that are not in ``left``."""
        if self.is_done(index):
            return
        left &= self._unacknowledged(index)
        self._left[index] = left
        if not left:
            self._again.discard(index)
            for consumer in self.consumers:
                consumer.pending.pop(index, None)
            while self._left.get(self._done_before) == 0:
                del self._left[self._done_before]
                self._done_before += 1

    def claim(self, transaction: TransactionId, index: int, left: int) -> None:
        """Acknowledge the messages of an entry that are not in ``left``, in a transaction. Raises
        :class:`TransactionConflict` if one is acknowledged, or claimed by another transaction."""
        everything = (1 << self._entries[index].messages) - 1
        wanted = everything & ~left
        mine = self._claims.get(transaction, {}).get(index, 0)
        if wanted & ~mine & ~self._open(index):
            raise TransactionConflict(f"{self._entries[index].id} is acknowledged by others")
        self._claims.setdefault(transaction, {})[index] = mine | wanted

    def claim_up_to(self, transaction: TransactionId, index: int, left: int) -> None:
        """Claim everything before ``index``, and its messages not in ``left``. Raises as
        :meth:`claim`."""
        for each in range(self._done_before, index):
            if self._open(each):
                self.claim(transaction, each, self._unacknowledged(each) ^ self._open(each))
        self.claim(transaction, index, left | ~self._open(index))

    def end_transaction(self, transaction: TransactionId, *, commit: bool) -> None:
        """Acknowledge what a transaction claimed, or make it available for redelivery."""
        for index, bits in self._claims.pop(transaction, {}).items():
            if commit:
                self.acknowledge(index, ~bits)
                continue
            for consumer in self.consumers:
                if consumer.pending.pop(index, None) is not None:
                    self._again.add(index)
        self.dispatch()

    def acknowledge_up_to(self, index: int, left: int) -> None:
        """Acknowledge every entry before ``index``, and its messages not in ``left`` (-1 = none of
        them). On a shared subscription Pulsar ignores this, and reports success."""
        if self.kind in SHARING:
            return
        for each in range(self._done_before, index):
            self.acknowledge(each, 0)
        if left != -1 and index < len(self._entries):
            self.acknowledge(index, left)

    def is_done(self, index: int) -> bool:
        """Return whether all messages of an entry are acknowledged."""
        return index < self._done_before or self._left.get(index) == 0

    @property
    def mark_delete(self) -> int:
        """The index before which everything is acknowledged."""
        return self._done_before

    def backlog(self) -> list[EntryId]:
        """Return the ids of the entries that are not acknowledged."""
        indexes = range(self._done_before, len(self._entries))
        return [self._entries[each].id for each in indexes if not self.is_done(each)]

    def reset(self, index: int, left: int = -1) -> None:
        """Start over at ``index``, with those of its messages that are in ``left``."""
        self._next = self._done_before = index
        self._again.clear()
        self._left.clear()
        self._claims.clear()
        self._redeliveries.clear()
        for consumer in self.consumers:
            consumer.pending.clear()
        for each in sorted(self._log.aborted):
            self.acknowledge(each, 0)
        if left != -1 and index < len(self._entries):
            self.acknowledge(index, left)

    # Deliveries

    def flow(self, consumer: FakeConsumer, permits: int) -> None:
        """Add permits to a consumer."""
        consumer.permits += permits
        self.dispatch()

    def redeliver(self, consumer: FakeConsumer, indexes: Iterable[int] | None) -> None:
        """Redeliver entries to a consumer that requests it; None = all its pending ones."""
        wanted = list(consumer.pending) if indexes is None or self.kind not in SHARING else indexes
        for index in list(wanted):
            if index in consumer.pending:
                del consumer.pending[index]
                self._again.add(index)
                if self.kind in SHARING:
                    self._redeliveries[index] = self._redeliveries.get(index, 0) + 1
        self.dispatch()

    def dispatch(self) -> None:
        """Deliver what can be delivered."""
        for index in sorted(self._again):
            if not self._open(index):
                continue
            if (consumer := self._whom(index)) is not None:
                self._again.discard(index)
                self._hand_out(index, consumer)
            elif self.kind != CommandSubscribe.Key_Shared:
                return
        while self._next < self._log.end and any(each.permits > 0 for each in self.consumers):
            index, self._next = self._next, self._next + 1
            if self.is_done(index):
                continue
            if not self._open(index):
                self._again.add(index)
                continue
            if (consumer := self._whom(index)) is not None:
                self._hand_out(index, consumer)
            else:
                self._again.add(index)
                if self.kind != CommandSubscribe.Key_Shared:
                    return

    def _hand_out(self, index: int, consumer: FakeConsumer) -> None:
        left = self._open(index)
        consumer.permits -= left.bit_count()
        consumer.pending[index] = left
        redelivered = self._redeliveries.get(index, 0)
        consumer.deliver(self._entries[index], left, redelivered, consumer.epoch)

    def _whom(self, index: int) -> FakeConsumer | None:
        """Return the consumer that gets an entry now, if any."""
        if not self.consumers:
            return None
        if self.kind == CommandSubscribe.Shared:
            willing = [each for each in self.consumers if each.permits > 0]
            if not willing:
                return None
            willing = [each for each in willing if each.priority == willing[0].priority]
            self._turn += 1
            return willing[self._turn % len(willing)]
        chosen = self.consumers[0]
        if self.kind == CommandSubscribe.Key_Shared:
            chosen = self._whose_key(index)
            if any(
                self._entries[each].key == self._entries[index].key
                for each in self._again
                if each < index
            ):
                return None
        return chosen if chosen.permits > 0 else None

    def _whose_key(self, index: int) -> FakeConsumer:
        """Return the consumer with pending entries of the same key, or else the key's owner."""
        key = self._entries[index].key
        for consumer in self.consumers:
            if any(self._entries[each].key == key for each in consumer.pending):
                return consumer
        return self.consumers[crc32(key) % len(self.consumers)]

    def _open(self, index: int) -> int:
        """Return the bit set of an entry's messages neither acknowledged nor claimed."""
        left = 0 if self.is_done(index) else self._unacknowledged(index)
        for claimed in self._claims.values():
            left &= ~claimed.get(index, 0)
        return left

    def _unacknowledged(self, index: int) -> int:
        return self._left.get(index, (1 << self._entries[index].messages) - 1)

    def _tell_who_is_active(self) -> None:
        if self.kind != CommandSubscribe.Failover:
            return
        for consumer in self.consumers:
            is_active = consumer is self.consumers[0]
            if not is_active and consumer.pending:
                self._again.update(consumer.pending)
                consumer.pending.clear()
            if consumer.is_active is not is_active:
                consumer.is_active = is_active
                consumer.active(is_active)
