"""A transaction that has not ended: what was sent and acknowledged in it.

The rule: what it holds in memory is small and bounded: for a message, its position in the log of
open transactions, and its entry only in small transactions (:data:`KEPT_BYTES`); all open ones
together hold no more than :data:`HELD_BYTES_MAX`. What is counted here is on disk.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio
from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.transactions.records import Opened
from arneb_pulsar.transactions.states import MOVES, TransactionId, TransactionState
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

TIMEOUT_MS_MAX: Final = 30 * 24 * 3600 * 1000
"""30 days: longer than any real transaction; one that was opened and abandoned ends some day."""

KEPT_BYTES: Final = 64 * 1024
"""Bytes of entries that one transaction keeps in memory until it ends: the usual small one is
committed without being read back."""

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that all open transactions may hold in memory. Beyond it entries are read back when they
are needed, and names and acknowledgements are refused: with ``transactions_open_max`` alone,
abandoned transactions would take gigabytes."""

NAME_BYTES: Final = 150
"""Bytes counted for a topic or a subscription besides its name."""

WHOLE_BYTES: Final = 16
PART_BYTES: Final = 250
"""Bytes counted for an acknowledged entry, and for one acknowledged in part."""

PARTS_MAX: Final = 1_000
"""Topics and subscriptions of one transaction; each has a name."""

ACKS_MAX: Final = 100_000
"""Entries that one transaction may acknowledge: they are in memory until it ends, and are all taken
in one turn when it is committed."""


PER_UNIT: Final = 16
"""Messages of a transaction that cost as much to end as a small request: some 100 µs."""


class HeldBytes:
    """What the open transactions of one coordinator hold in memory."""

    __slots__ = (
        "aborted",
        "aborted_total",
        "bytes",
        "committed",
        "committed_total",
        "most",
        "sending",
    )

    def __init__(self, most: int = HELD_BYTES_MAX) -> None:
        self.most = most
        self.bytes = 0
        self.sending: dict[int, int] = {}
        """How many open ones have sent to a topic, by its id: with thousands open, looking at each
        is too slow."""
        self.committed: Counter[int] = Counter()
        self.aborted: Counter[int] = Counter()
        """How many that had sent to a topic ended so since the broker started, by its id."""
        self.committed_total = self.aborted_total = 0
        """How many ended so in all."""

    def __repr__(self) -> str:
        return f"<HeldBytes {self.bytes} of {self.most}>"

    def forget_except(self, topics: Container[int]) -> None:
        """Forget the counts of all topics but these ids: the others are gone."""
        for ended in (self.committed, self.aborted):
            for topic in [each for each in ended if each not in topics]:
                del ended[topic]

    def has_room(self, size: int) -> bool:
        """Return whether ``size`` more bytes may be held."""
        return self.bytes + size <= self.most

    def expect_room(self, size: int) -> None:
        """Raise :class:`.RequestRefused` unless ``size`` more bytes may be held."""
        if not self.has_room(size):
            text = f"expected at most {self.most} bytes in memory of all open transactions"
            raise RequestRefused(pb.TooManyRequests, text)


@dataclass(slots=True, eq=False)
class Sends:
    """What was sent to one topic."""

    topic: Topic
    positions: BitMap64 = field(default_factory=BitMap64)
    """Their positions in the log of open transactions, which has them in order."""
    kept: list[bytes] = field(default_factory=list)
    """The entries, if the transaction keeps all of its entries."""
    bytes: int = 0

    def __repr__(self) -> str:
        return f"<Sends of {len(self.positions)} entries to {self.topic.name}>"


@dataclass(slots=True, eq=False)
class Acks:
    """What was acknowledged by one subscription."""

    topic: Topic
    subscription: Subscription
    holder: Consumer
    """The consumer that withholds it meanwhile."""
    whole: BitMap64 = field(default_factory=BitMap64)
    masks: dict[Position, int] = field(default_factory=dict)
    """Messages of batches."""
    is_cumulative: bool = False

    def __repr__(self) -> str:
        return f"<Acks of {len(self.whole) + len(self.masks)} on {self.subscription.name}>"

    def add(self, whole: Sequence[Position], parts: Mapping[Position, tuple[int, int]]) -> None:
        """Add acknowledgements."""
        self.whole.update(whole)
        for position, (mask, _) in parts.items():
            self.masks[position] = self.masks.get(position, 0) | mask

    def take_back(self, whole: Sequence[Position], parts: Mapping[Position, int]) -> None:
        """Take acknowledgements back."""
        self.whole.difference_update(BitMap64(whole))
        for position, mask in parts.items():
            self.masks[position] = self.masks.get(position, 0) & ~mask


class OpenTransaction:
    """A transaction that has not ended. Invariant: ``_kept_bytes``, ``_named_bytes`` and the topics
    of ``sends`` are counted in ``held``, with those of all others."""

    def __init__(self, number: TransactionId, opened: Opened, held: HeldBytes) -> None:
        self.id = number
        self.opened = opened
        self._held = held
        self._kept_bytes = 0
        """Bytes of entries."""
        self._named_bytes = 0
        """Bytes of all that cannot be read back."""
        self.state = TransactionState.OPEN
        self.is_recorded = True
        """The log of open transactions says who opened it, and when. Otherwise the first record of
        something done in it brings that."""
        self.records = BitMap64()
        """The positions of all its records in the log of open transactions."""
        self.sends: dict[int, Sends] = {}
        """By the ids of topics."""
        self.acks: dict[Consumer, Acks] = {}
        """By the consumer that withholds them, which is a new one after a seek."""
        self.partitions: set[str] = set()
        self.subscriptions: set[tuple[str, str]] = set()
        self.sent_bytes = 0
        """Bytes on disk or on their way there."""
        self.acked = 0
        """Acknowledged entries on disk or on their way there."""
        self.under_way = 0
        """Sends and acknowledgements that are not on disk yet."""
        self.has_kept = True
        """All that was sent is in memory."""
        self._changed: trio.Event | None = None
        """What tasks that wait for a change wait on."""

    def __repr__(self) -> str:
        return (
            f"<OpenTransaction {self.id} {self.state.name}, {len(self.records)} records, "
            f"{self.under_way} under way>"
        )

    def move(self, state: TransactionState) -> None:
        """Take a move; one not in the table is a defect of ours."""
        assert state in MOVES[self.state], f"{self!r} cannot become {state.name}"
        self.state = state
        self._tell()

    @property
    def is_settled(self) -> bool:
        """All of it is on disk, and everything sent, being little, is in memory too."""
        return self.has_kept and not self.under_way

    @property
    def units(self) -> int:
        """The cost of ending it, in small requests."""
        return (len(self.records) + self.acked) // PER_UNIT

    def expect_sends(self, topic: Topic, size: int, most: int) -> None:
        """Raise :class:`.RequestRefused` unless ``size`` more bytes may be sent to ``topic``, and
        ``most`` in all."""
        if not topic.durable:
            text = f"{topic.name} is not persistent: nothing can be sent to it in a transaction"
            raise RequestRefused(pb.NotAllowedError, text)
        if self.sent_bytes + size > most:
            text = f"expected at most {most} bytes in a transaction (pulsar.transaction_bytes_max)"
            raise RequestRefused(pb.NotAllowedError, text)

    def begin_one(self) -> None:
        """Note that something of it is on its way to disk."""
        self.under_way += 1

    def end_one(self) -> None:
        """Note that it is on disk, or has failed."""
        self.under_way -= 1
        self._tell()

    async def changed(self) -> None:
        """Wait until its state, or what is under way, has changed."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def sent(self, topic: Topic, first: Position, entries: Sequence[bytes]) -> None:
        """Note that entries for ``topic`` are on disk, from ``first`` on in the log of open
        transactions."""
        positions = range(first, first + len(entries))
        self.records.update(positions)
        sends = self.sends.get(topic.id)
        if sends is None:
            sends = self.sends[topic.id] = Sends(topic)
            sending = self._held.sending
            sending[topic.id] = sending.get(topic.id, 0) + 1
        sends.positions.update(positions)
        size = sum(map(len, entries))
        sends.bytes += size
        is_small = self.sent_bytes <= KEPT_BYTES and self._held.has_room(size)
        if self.has_kept and is_small:
            sends.kept += entries
            self._kept_bytes += size
            self._held.bytes += size
        else:
            self.keep_nothing()

    def keep_nothing(self) -> None:
        """Drop the entries from memory; they are read back when they are needed."""
        self.has_kept = False
        self._held.bytes -= self._kept_bytes
        self._kept_bytes = 0
        for each in self.sends.values():
            each.kept = []

    def join(self, partitions: set[str], subscriptions: set[tuple[str, str]]) -> None:
        """Let topics and subscriptions take part. Raises :class:`.RequestRefused`."""
        topics, others = self.partitions | partitions, self.subscriptions | subscriptions
        if len(topics) + len(others) > PARTS_MAX:
            text = f"expected at most {PARTS_MAX} topics and subscriptions in a transaction"
            raise RequestRefused(pb.NotAllowedError, text)
        size = sum(NAME_BYTES + len(each) for each in topics - self.partitions)
        for topic, name in others - self.subscriptions:
            size += NAME_BYTES + len(topic) + len(name)
        self._held.expect_room(size)
        self._hold(size)
        self.partitions, self.subscriptions = topics, others

    def expect_acks(self, whole: Sequence[Position], parts: Mapping[Position, object]) -> None:
        """Raise :class:`.RequestRefused` unless these may be acknowledged too."""
        if self.acked + len(whole) + len(parts) > ACKS_MAX:
            text = f"expected at most {ACKS_MAX} acknowledged entries in a transaction"
            raise RequestRefused(pb.NotAllowedError, text)
        self._held.expect_room(WHOLE_BYTES * len(whole) + PART_BYTES * len(parts))

    def count_acks(
        self, whole: Sequence[Position], parts: Mapping[Position, object], sign: int = 1
    ) -> None:
        """Count these as acknowledged in it; with ``sign`` -1, take them back."""
        self.acked += sign * (len(whole) + len(parts))
        self._hold(sign * (WHOLE_BYTES * len(whole) + PART_BYTES * len(parts)))

    def has_all_up_to_somewhere(self, subscription: Subscription) -> bool:
        """Return whether it has acknowledged cumulatively there."""
        return any(
            each.is_cumulative and each.subscription is subscription for each in self.acks.values()
        )

    def rival(
        self, among: Iterable["OpenTransaction"], subscription: Subscription
    ) -> "OpenTransaction | None":
        """Return another transaction that has acknowledged cumulatively there."""
        for each in among:
            if each is not self and each.has_all_up_to_somewhere(subscription):
                return each
        return None

    def forget(self, *, committed: bool) -> None:
        """Count it as ended; it holds nothing any more."""
        self._held.bytes -= self._kept_bytes + self._named_bytes
        self._kept_bytes = self._named_bytes = 0
        sending = self._held.sending
        ended = self._held.committed if committed else self._held.aborted
        ended.update(self.sends.keys())
        self._held.committed_total += committed
        self._held.aborted_total += not committed
        for topic in self.sends:
            if left := sending[topic] - 1:
                sending[topic] = left
            else:
                del sending[topic]

    def _hold(self, size: int) -> None:
        self._named_bytes += size
        self._held.bytes += size

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
