"""A subscription in memory: what is acknowledged, what is out, and who gets the next entry.

The rule: an entry goes to one consumer at a time, in order, as long as that has permits; it comes
again when it is asked for or its consumer is gone, and never once it is acknowledged.
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
    """What a topic keeps of one SEND."""

    id: EntryId
    body: bytes
    messages: int
    is_batch: bool
    key: bytes
    """What orders it; empty if nothing does."""
    publish_time_ms: int
    transaction: TransactionId | None = None


class Log(Protocol):
    """The entries of a topic, as a subscription sees them."""

    entries: list[Entry]
    aborted: set[int]
    """Places of entries that never counted."""

    @property
    def end(self) -> int:
        """Where reading ends: at the first entry of a transaction that is open."""


SHARING: Final = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})

Deliver = Callable[[Entry, int, int, int], None]
"""Told an entry, its unacknowledged messages as bits, how often it was redelivered, and the
consumer's epoch."""


@dataclass(slots=True, eq=False)
class FakeConsumer:
    """One consumer of a subscription."""

    name: str
    priority: int
    deliver: Deliver
    active: Callable[[bool], None]
    """Told whether it is the active one of a Failover subscription."""
    ended: Callable[[], None]
    """Told to subscribe again."""
    permits: int = 0
    is_active: bool | None = None
    epoch: int = 0
    """Raised by the client when it asks for everything again."""
    pending: dict[int, int] = field(default_factory=dict)
    """What it has and has not acknowledged: index of the entry, messages that it was sent."""

    def __repr__(self) -> str:
        return f"<FakeConsumer {self.name}, {self.permits} permits, {len(self.pending)} pending>"


class FakeSubscription:
    """One subscription. Entries are named by their place in the topic's list.

    Invariant: what is neither acknowledged, nor pending at a consumer, nor in ``_again`` is read
    next, from ``_next`` on. ``_claims`` has what transactions that are open acknowledge: nobody
    gets it meanwhile.
    """

    def __init__(self, name: str, kind: int, log: Log, start: int) -> None:
        self.name = name
        self.kind = kind
        self.is_durable = True
        self.is_replicated = False
        """Clusters that replicate the topic are to know what is acknowledged."""
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
        """One more; whoever may not come was refused before."""
        self.consumers.append(consumer)
        self.consumers.sort(key=lambda each: (each.priority, each.name))
        self._tell_who_is_active()

    def detach(self, consumer: FakeConsumer) -> None:
        """It is gone; others get what it had."""
        self.consumers.remove(consumer)
        self._again.update(consumer.pending)
        self._tell_who_is_active()
        self.dispatch()

    def end_all(self) -> None:
        """All have to subscribe again."""
        consumers, self.consumers = self.consumers, []
        for consumer in consumers:
            self._again.update(consumer.pending)
            consumer.ended()

    # Acknowledgements

    def acknowledge(self, index: int, left: int) -> None:
        """The messages of an entry that are not in ``left`` are done."""
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
        """The messages of an entry that are not in ``left`` are done once the transaction counts.
        Raises :class:`TransactionConflict` where they are done, or another claims them."""
        everything = (1 << self._entries[index].messages) - 1
        wanted = everything & ~left
        mine = self._claims.get(transaction, {}).get(index, 0)
        if wanted & ~mine & ~self._open(index):
            raise TransactionConflict(f"{self._entries[index].id} is acknowledged by others")
        self._claims.setdefault(transaction, {})[index] = mine | wanted

    def claim_up_to(self, transaction: TransactionId, index: int, left: int) -> None:
        """The same of every entry before ``index``, and of its messages. Raises as that does."""
        for each in range(self._done_before, index):
            if self._open(each):
                self.claim(transaction, each, self._unacknowledged(each) ^ self._open(each))
        self.claim(transaction, index, left | ~self._open(index))

    def settle(self, transaction: TransactionId, *, commit: bool) -> None:
        """What it claimed is done, or comes again."""
        for index, bits in self._claims.pop(transaction, {}).items():
            if commit:
                self.acknowledge(index, ~bits)
                continue
            for consumer in self.consumers:
                if consumer.pending.pop(index, None) is not None:
                    self._again.add(index)
        self.dispatch()

    def acknowledge_up_to(self, index: int, left: int) -> None:
        """Every entry before ``index`` is done, and its messages that are not in ``left``; -1:
        all of them are left. Of a shared one Pulsar leaves that out, and says that it is done."""
        if self.kind in SHARING:
            return
        for each in range(self._done_before, index):
            self.acknowledge(each, 0)
        if left != -1 and index < len(self._entries):
            self.acknowledge(index, left)

    def is_done(self, index: int) -> bool:
        """All of its messages are acknowledged."""
        return index < self._done_before or self._left.get(index) == 0

    @property
    def mark_delete(self) -> int:
        """Everything before it is done."""
        return self._done_before

    def backlog(self) -> list[EntryId]:
        """What is not done."""
        indexes = range(self._done_before, len(self._entries))
        return [self._entries[each].id for each in indexes if not self.is_done(each)]

    def reset(self, index: int, left: int = -1) -> None:
        """Begin again at ``index``, with those messages of it that are in ``left``."""
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
        """It has room for more."""
        consumer.permits += permits
        self.dispatch()

    def redeliver(self, consumer: FakeConsumer, indexes: Iterable[int] | None) -> None:
        """It asks for entries again; None = for all that it has not acknowledged."""
        wanted = list(consumer.pending) if indexes is None or self.kind not in SHARING else indexes
        for index in list(wanted):
            if index in consumer.pending:
                del consumer.pending[index]
                self._again.add(index)
                if self.kind in SHARING:
                    self._redeliveries[index] = self._redeliveries.get(index, 0) + 1
        self.dispatch()

    def dispatch(self) -> None:
        """Hand out what can be handed out."""
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
        """Who gets that entry now, if anybody."""
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
        """Who has entries of the same key that are out, else whom the key belongs to."""
        key = self._entries[index].key
        for consumer in self.consumers:
            if any(self._entries[each].key == key for each in consumer.pending):
                return consumer
        return self.consumers[crc32(key) % len(self.consumers)]

    def _open(self, index: int) -> int:
        """Its messages that are not done, and that no transaction claims."""
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
