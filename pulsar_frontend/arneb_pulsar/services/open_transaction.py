"""A transaction that has not ended: what was sent and acknowledged in it.

The rule: what it holds in memory is small and bounded: of a message its place in the log of open
transactions; the entry itself only while it is one of few (:data:`KEPT_BYTES`), and all open ones
together hold no more than :data:`HELD_BYTES_MAX`. What is counted here is on disk.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio
from pyroaring import BitMap64

from arneb_core.api.consumers import Consumer
from arneb_core.api.position import Position
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.transactions.records import Opened
from arneb_pulsar.transactions.states import MOVES, TransactionId, TransactionState
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

TIMEOUT_MS_MAX: Final = 30 * 24 * 3600 * 1000
"""Longer than anything that is done in one; what was opened and left ends some day."""

KEPT_BYTES: Final = 64 * 1024
"""Entries of one transaction that are kept in memory until it ends: the usual small one is
committed without being read back."""

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""What all open transactions may hold in memory. Beyond it entries are read back when they are
needed, and names and acknowledgements are refused: transactions that are opened and left would
take gigabytes by ``transactions_open_max`` alone."""

NAME_BYTES: Final = 150
"""Counted for a topic or a subscription beside its name."""

WHOLE_BYTES: Final = 16
PART_BYTES: Final = 250
"""Counted for an entry that is acknowledged, and for messages of one."""

PARTS_MAX: Final = 1_000
"""Topics and subscriptions of one transaction; each has a name."""

ACKS_MAX: Final = 100_000
"""Entries that one transaction may acknowledge: all of them are taken in one turn when it is
committed, and are in memory before."""


PER_UNIT: Final = 16
"""Messages that a transaction ends with for as much as it costs to end it: some 100 µs."""


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
        """How many have sent to a topic, by its id: with thousands open, nobody looks at each."""
        self.committed: Counter[int] = Counter()
        self.aborted: Counter[int] = Counter()
        """How many that had sent to a topic ended so since the broker started, by its id."""
        self.committed_total = self.aborted_total = 0
        """How many ended so at all."""

    def __repr__(self) -> str:
        return f"<HeldBytes {self.bytes} of {self.most}>"

    def forget_except(self, topics: Container[int]) -> None:
        """Forget how often transactions ended that sent to others than these topics: they are
        gone."""
        for ended in (self.committed, self.aborted):
            for topic in [each for each in ended if each not in topics]:
                del ended[topic]

    def has_room(self, size: int) -> bool:
        """May so much more be held?"""
        return self.bytes + size <= self.most

    def expect_room(self, size: int) -> None:
        """So much more has to be held. Raises :class:`.RequestRefused`."""
        if not self.has_room(size):
            text = f"expected at most {self.most} bytes in memory of all open transactions"
            raise RequestRefused(pb.TooManyRequests, text)


@dataclass(slots=True, eq=False)
class Sends:
    """What was sent to one topic."""

    topic: Topic
    places: BitMap64 = field(default_factory=BitMap64)
    """In the log of open transactions, where they stand in their order."""
    kept: list[bytes] = field(default_factory=list)
    """The entries, if all of the transaction's are kept."""
    bytes: int = 0

    def __repr__(self) -> str:
        return f"<Sends of {len(self.places)} entries to {self.topic.name}>"


@dataclass(slots=True, eq=False)
class Acks:
    """What was acknowledged by one subscription."""

    topic: Topic
    subscription: Subscription
    holder: Consumer
    """Who has it meanwhile."""
    whole: BitMap64 = field(default_factory=BitMap64)
    masks: dict[Position, int] = field(default_factory=dict)
    """Of batches, the messages."""
    is_cumulative: bool = False

    def __repr__(self) -> str:
        return f"<Acks of {len(self.whole) + len(self.masks)} on {self.subscription.name}>"

    def add(self, whole: Sequence[Position], parts: Mapping[Position, tuple[int, int]]) -> None:
        """These are acknowledged too."""
        self.whole.update(whole)
        for place, (mask, _) in parts.items():
            self.masks[place] = self.masks.get(place, 0) | mask

    def take_back(self, whole: Sequence[Position], parts: Mapping[Position, int]) -> None:
        """These are not, after all."""
        self.whole.difference_update(BitMap64(whole))
        for place, mask in parts.items():
            self.masks[place] = self.masks.get(place, 0) & ~mask


class OpenTransaction:
    """One that has not ended. Invariant: ``_kept_bytes``, ``_named_bytes`` and the topics of
    ``sends`` are counted in ``held``, with those of all others."""

    def __init__(self, number: TransactionId, opened: Opened, held: HeldBytes) -> None:
        self.id = number
        self.opened = opened
        self._held = held
        self._kept_bytes = 0
        """Of entries."""
        self._named_bytes = 0
        """Of all that cannot be read back."""
        self.state = TransactionState.OPEN
        self.is_recorded = True
        """The log of open transactions tells who opened it, and when. Else that comes with what
        is done first in it."""
        self.records = BitMap64()
        """All that the log of open transactions has of it."""
        self.sends: dict[int, Sends] = {}
        """By the ids of topics."""
        self.acks: dict[Consumer, Acks] = {}
        """By who holds what is acknowledged: another one after a seek."""
        self.partitions: set[str] = set()
        self.subscriptions: set[tuple[str, str]] = set()
        self.sent_bytes = 0
        """On disk or on its way there."""
        self.acked = 0
        """Entries; likewise."""
        self.under_way = 0
        """Sends and acknowledgements that are not on disk yet."""
        self.has_kept = True
        """All that was sent is in memory."""
        self._changed: trio.Event | None = None
        """Of those who wait for a change."""

    def __repr__(self) -> str:
        return (
            f"<OpenTransaction {self.id} {self.state.name}, {len(self.records)} records, "
            f"{self.under_way} under way>"
        )

    def move(self, state: TransactionState) -> None:
        """Take a move; one that the table does not have is a defect of ours."""
        assert state in MOVES[self.state], f"{self!r} cannot become {state.name}"
        self.state = state
        self._tell()

    @property
    def is_settled(self) -> bool:
        """All of it is on disk, and what was sent is in memory too, as it is little."""
        return self.has_kept and not self.under_way

    @property
    def units(self) -> int:
        """What ends with it, in what costs as much as a small request."""
        return (len(self.records) + self.acked) // PER_UNIT

    def expect_sends(self, topic: Topic, size: int, most: int) -> None:
        """So many bytes are to be sent to ``topic`` too, ``most`` in all. Raises
        :class:`.RequestRefused`."""
        if not topic.durable:
            text = f"{topic.name} is not persistent: nothing can be sent to it in a transaction"
            raise RequestRefused(pb.NotAllowedError, text)
        if self.sent_bytes + size > most:
            text = f"expected at most {most} bytes in a transaction (pulsar.transaction_bytes_max)"
            raise RequestRefused(pb.NotAllowedError, text)

    def begin_one(self) -> None:
        """Something of it is on its way to disk."""
        self.under_way += 1

    def end_one(self) -> None:
        """It is there, or will never be."""
        self.under_way -= 1
        self._tell()

    async def changed(self) -> None:
        """Wait until its state, or what is under way, has changed."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def sent(self, topic: Topic, first: Position, entries: Sequence[bytes]) -> None:
        """Entries for ``topic`` are on disk, at ``first`` in the log of open transactions."""
        places = range(first, first + len(entries))
        self.records.update(places)
        sends = self.sends.get(topic.id)
        if sends is None:
            sends = self.sends[topic.id] = Sends(topic)
            sending = self._held.sending
            sending[topic.id] = sending.get(topic.id, 0) + 1
        sends.places.update(places)
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
        """What was sent is read back when it is needed."""
        self.has_kept = False
        self._held.bytes -= self._kept_bytes
        self._kept_bytes = 0
        for each in self.sends.values():
            each.kept = []

    def join(self, partitions: set[str], subscriptions: set[tuple[str, str]]) -> None:
        """Topics and subscriptions are to take part. Raises :class:`.RequestRefused`."""
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
        """These are to be acknowledged too. Raises :class:`.RequestRefused`."""
        if self.acked + len(whole) + len(parts) > ACKS_MAX:
            text = f"expected at most {ACKS_MAX} acknowledged entries in a transaction"
            raise RequestRefused(pb.NotAllowedError, text)
        self._held.expect_room(WHOLE_BYTES * len(whole) + PART_BYTES * len(parts))

    def count_acks(
        self, whole: Sequence[Position], parts: Mapping[Position, object], sign: int = 1
    ) -> None:
        """These are acknowledged in it, or with -1 are not after all."""
        self.acked += sign * (len(whole) + len(parts))
        self._hold(sign * (WHOLE_BYTES * len(whole) + PART_BYTES * len(parts)))

    def has_all_up_to_somewhere(self, subscription: Subscription) -> bool:
        """Has it acknowledged cumulatively there?"""
        return any(
            each.is_cumulative and each.subscription is subscription for each in self.acks.values()
        )

    def forget(self, *, committed: bool) -> None:
        """It has ended so, and holds nothing any more."""
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
