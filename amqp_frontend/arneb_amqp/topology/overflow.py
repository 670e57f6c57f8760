"""Overflow: admission of messages to queues that refuse them when full.

The rule: every message for such a queue is admitted here, whoever sent it: a publisher, a
transaction, a dead letter exchange or a delayed exchange. So a full queue does not grow further,
and messages on their way are counted until they are stored or dropped.

Sources: the overflow behaviours in RabbitMQ's queue length documentation, and RabbitMQ 3.10.8
itself for dead letters, which it refuses like any other message.
"""

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from operator import itemgetter
from typing import Final, Protocol

from arneb_amqp.topology.names import SUBSCRIPTION
from arneb_amqp.wire.content import PROPERTIES_AT, header_end, payload_size
from arneb_amqp.wire.route import content_start
from arneb_core.api.entries.entry import HEADER_BYTES, ORIGIN_OFFSET, Origin
from arneb_core.api.entries.expiry import lives_no_time
from arneb_core.api.topics.topic import Topic

logger = logging.getLogger(__name__)

_AMQP: Final = int(Origin.AMQP)

DEAD_LETTERS_PER_STEP: Final = 100
PROPERTY_BYTES_PER_STEP: Final = 16 * 1024
"""Dead letters made of refused messages in one turn, and the bytes of their property lists
together: some 2 ms, or those of a single one."""


REFUSED_AGAIN_MAX: Final = 32
"""Dead letters that may be refused in turn for each refused message. A chain of full queues costs
the square of its length, because each records all before it; where every exchange leads to several
queues, letters double at each."""


class RefusedMessages(Protocol):
    """The target of messages that a queue has refused."""

    def dead_letter_refused(self, entries: Sequence[bytes], admission: "Admission") -> None:
        """Dead-letter messages that a full queue refused."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a queue; None = unbounded."""

    messages_max: int | None
    bytes_max: int | None
    message_ttl_ms: int | None = None
    """The time after which messages expire and make room."""


class Overflow:
    """Decides what one queue takes that refuses messages when full.

    Invariant: ``incoming_bytes`` is the sum of ``incoming``.
    """

    __slots__ = ("_bounds", "_refused", "_topic", "incoming", "incoming_bytes")

    def __init__(self, topic: Topic, bounds: Bounds, refused: RefusedMessages | None) -> None:
        self._topic = topic
        self._bounds = bounds
        self._refused = refused
        self.incoming: deque[int] = deque()
        """Sizes of the messages that were admitted and are not in the queue yet."""
        self.incoming_bytes = 0

    def __repr__(self) -> str:
        return f"<Overflow of {self._topic.name}, {len(self.incoming)} incoming>"

    def hold(self, bounds: Bounds, refused: RefusedMessages | None) -> None:
        """Set the bounds and the target of refused messages."""
        self._bounds, self._refused = bounds, refused

    @property
    def topic(self) -> Topic:
        """The queue's topic."""
        return self._topic

    @property
    def refused(self) -> RefusedMessages | None:
        """The target of refused messages; None = they are dropped."""
        return self._refused

    def takes(self, size: int) -> bool:
        """Whether the queue has room for one more message. Messages that consumers have room for do
        not count: they are delivered as soon as possible."""
        subscription, bounds = self._topic.subscriptions[SUBSCRIPTION], self._bounds
        ready, room = subscription.ready_messages, subscription.room
        waiting = max(0, ready + len(self.incoming) - room)
        if bounds.messages_max is not None and waiting >= bounds.messages_max:
            return False
        if bounds.bytes_max is None:
            return True
        stored = subscription.ready_bytes if ready > room else 0
        if waiting:
            delivered = sum(islice(self.incoming, max(0, room - ready)))
            stored += self.incoming_bytes - delivered
        return stored + size <= bounds.bytes_max

    def takes_all(self, sizes: Sequence[int]) -> bool:
        """Whether it certainly has room for these messages, one after another."""
        subscription, bounds = self._topic.subscriptions[SUBSCRIPTION], self._bounds
        if bounds.messages_max is not None:
            before_last = subscription.ready_messages + len(self.incoming) + len(sizes) - 1
            if max(0, before_last - subscription.room) >= bounds.messages_max:
                return False
        if bounds.bytes_max is None:
            return True
        stored = subscription.ready_bytes + self.incoming_bytes
        return stored + sum(sizes) <= bounds.bytes_max

    def outlives(self, entry: bytes) -> bool:
        """Whether ``entry`` will still be in the queue when the next one comes: one that expires at
        once is gone by then, unless others are ahead of it."""
        ahead = self.incoming or self._topic.subscriptions[SUBSCRIPTION].ready_messages
        return bool(ahead) or not lives_no_time(entry, self._bounds.message_ttl_ms)

    def let_in(self, size: int) -> None:
        """Count a message on its way into the queue."""
        self.incoming.append(size)
        self.incoming_bytes += size

    def let_all_in(self, sizes: Sequence[int]) -> None:
        """As :meth:`let_in`, for many."""
        self.incoming.extend(sizes)
        self.incoming_bytes += sum(sizes)

    def arrived(self) -> None:
        """Uncount the first message on its way: it is in the queue, or will not come."""
        self.incoming_bytes -= self.incoming.popleft()


class Admission:
    """The appends of one unit, each admitted to its queue.

    Invariant: ``_on_their_way`` has a queue once for each message that it counts as incoming.
    """

    def __init__(self) -> None:
        self.appends: dict[Topic, list[bytes]] = {}
        """The admitted entries, in order, by topic."""
        self._refused: list[tuple[RefusedMessages, bytes]] = []
        self._on_their_way: list[Overflow] = []

    def __repr__(self) -> str:
        return f"<Admission to {len(self.appends)} topics>"

    @property
    def refused_messages(self) -> int:
        """How many were refused and are to be dead-lettered."""
        return len(self._refused)

    def put(self, topic: Topic, entry: bytes) -> None:
        """Append ``entry`` to a topic that refuses nothing."""
        self.appends.setdefault(topic, []).append(entry)

    def put_all(self, topic: Topic, entries: list[bytes]) -> None:
        """As :meth:`put`, for many."""
        self.appends.setdefault(topic, []).extend(entries)

    def offer(self, overflow: Overflow, entry: bytes) -> bool:
        """Append ``entry`` to a queue that may refuse it; return whether there was room."""
        size = payload_bytes(entry)
        if not overflow.takes(size):
            if overflow.refused is not None:
                self._refused.append((overflow.refused, entry))
            return False
        if overflow.outlives(entry):
            overflow.let_in(size)
            self._on_their_way.append(overflow)
        self.put(overflow.topic, entry)
        return True

    def offer_all(self, overflow: Overflow, entries: Sequence[bytes]) -> list[bool]:
        """As :meth:`offer`, for many, one after another: return for each whether there was room."""
        sizes = list(map(payload_bytes, entries))
        # If the first one outlives the next one's arrival, all of them do.
        if not (overflow.takes_all(sizes) and overflow.outlives(entries[0])):
            return [self.offer(overflow, each) for each in entries]
        overflow.let_all_in(sizes)
        self._on_their_way += [overflow] * len(sizes)
        self.appends.setdefault(overflow.topic, []).extend(entries)
        return [True] * len(sizes)

    def close(self) -> dict[Topic, list[bytes]]:
        """Return the appends, complete with the dead letters of refused messages."""
        for _ in self.closing():
            pass
        return self.appends

    def closing(self) -> Iterator[None]:
        """:meth:`close` in steps of some 2 ms. Nothing may be offered meanwhile."""
        done, most = 0, len(self._refused) * (1 + REFUSED_AGAIN_MAX)
        while done < most and (piece := self._step(done)):
            if done:
                yield
            done += len(piece)
            for refused, alike in groupby(piece, itemgetter(0)):
                # They may be refused again, and then are added here, too.
                refused.dead_letter_refused([entry for _, entry in alike], self)
        if given_up := len(self._refused) - done:
            logger.debug(
                "dropping %d messages that one full queue after the other refused", given_up
            )
        self._refused.clear()

    def _step(self, first: int) -> list[tuple[RefusedMessages, bytes]]:
        piece = self._refused[first : first + DEAD_LETTERS_PER_STEP]
        sizes = list(accumulate(property_bytes(entry) for _, entry in piece))
        return piece[: bisect_left(sizes, PROPERTY_BYTES_PER_STEP) + 1]

    def over(self) -> None:
        """Uncount its messages: the unit is committed, or never will be. Idempotent."""
        on_their_way, self._on_their_way = self._on_their_way, []
        for overflow in on_their_way:
            overflow.arrived()


def payload_bytes(entry: bytes) -> int:
    """Return the bytes of an entry that count as the message's size: its payload, as in
    RabbitMQ."""
    if entry[ORIGIN_OFFSET] != _AMQP:
        return len(entry) - HEADER_BYTES
    return payload_size(entry, content_start(entry))


def property_bytes(entry: bytes) -> int:
    """Return the bytes of an entry that are decoded to make a dead letter of it."""
    if entry[ORIGIN_OFFSET] != _AMQP:
        return len(entry) - HEADER_BYTES
    start = content_start(entry)
    return header_end(entry, start) - start - PROPERTIES_AT
