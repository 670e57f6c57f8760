"""The receiver queue: messages that wait for the application, and permits for more of them.

The rule: the broker never has more permits than there is room. A permit is one message; it is
given once, by FLOW, and earned again when the application takes the message out, or when it turns
out that nobody is to get it. Permits are given back half a queue at a time.

A queue of size 0 holds nothing in advance: one permit is given when the application waits.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.wire.errors import WireError

QUEUE_SIZE: Final = 1_000
"""The official clients' default. What waits here is nobody else's: slow consumers want less."""

AUTO_SCALED_SIZE_MIN: Final = 1
"""Where an automatically scaled queue begins, as in Java's client."""

UNASKED_MAX: Final = 1_000
"""Entries in a row that may come after the last permit is spent, or as many as the queue has room
for if that is more. Brokers reckon with the average size of batches and hand out what they have
read, so some come; a broker that goes on would fill the memory."""

T = TypeVar("T")


class ReceiverQueue(Generic[T]):
    """The queue of one consumer.

    Invariant: what the broker may still send, what waits here and what is earned and not yet given
    back are ``_target`` together. The broker may owe nothing and send more (whole batches for one
    permit): then what it may still send is negative.
    """

    def __init__(self, size: int = QUEUE_SIZE, *, auto_scaled: bool = False) -> None:
        if size < 0 or (auto_scaled and size == 0):
            raise ConfigurationError(f"expected the size of a receiver queue, got {size}")
        self._size_max = size
        self._is_auto_scaled = auto_scaled
        self._target = min(AUTO_SCALED_SIZE_MIN, size) if auto_scaled else size
        self._messages: deque[T] = deque()
        self.earned = 0
        """Permits that are earned and not yet given back."""
        self.half = self._target // 2
        """While fewer are earned, :meth:`take_flow` gives none and need not be asked."""
        self._unasked = 0
        self._was_full = False
        self._is_waiting = False
        self._is_paused = False

    def __repr__(self) -> str:
        paused = ", paused" if self._is_paused else ""
        return f"<ReceiverQueue {len(self)} of {self._target}, {self.earned} earned{paused}>"

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def size(self) -> int:
        """How many messages it asks for in advance, now."""
        return self._target

    def connected(self) -> int:
        """There is a new subscription at a broker, which has no permits yet: those to give now."""
        self.earned = self._target - len(self._messages)
        self._was_full = False
        return self.take_flow()

    def push(self, messages: Sequence[T]) -> None:
        """Messages of an entry have come, each for one permit. Raises :class:`WireError` for what
        comes on and on without any."""
        if len(self._messages) + self.earned < self._target or not self._target:
            self._unasked = 0
        else:
            self._unasked += 1
            if self._unasked > max(UNASKED_MAX, self._size_max):
                raise WireError(f"expected no more than was asked for, got {self._unasked} entries")
        self._messages.extend(messages)
        self._is_waiting = False
        self._was_full = len(self._messages) + self.earned >= self._target

    def take(self) -> T | None:
        """The next message, whose permit is earned; None if there is none."""
        if not self._messages:
            return None
        self.earned += 1
        return self._messages.popleft()

    def skip(self, count: int) -> None:
        """``count`` messages came for permits, and nobody is given them: they were filtered, or
        are parts of a larger one."""
        self.earned += count

    def waiting(self, *, may_grow: bool = True) -> int:
        """The application waits and the queue is empty: permits to give now."""
        self._is_waiting = True
        if may_grow and self._is_auto_scaled and self._was_full and self._target < self._size_max:
            self._grow()
        return self.take_flow()

    def stopped_waiting(self) -> None:
        """The application waits no more, and has got nothing."""
        self._is_waiting = False

    def take_flow(self) -> int:
        """Permits to give now: all that are earned, once they are half of the queue; for a queue
        of size 0, what makes the broker's permits one while the application waits."""
        if self._is_paused:
            return 0
        given = self.earned
        if not self._target:
            given = given + 1 if self._is_waiting and not self._messages else 0
        if given < max(self._target // 2, 1):
            return 0
        self.earned -= given
        return given

    def pause(self) -> None:
        """Give no permits until :meth:`resume`; what was given may still bring messages."""
        self._is_paused = True

    def resume(self) -> None:
        """Give permits again; ask :meth:`take_flow`."""
        self._is_paused = False

    def shrink(self) -> None:
        """Ask for half as many in advance from now on: memory is short."""
        smaller = max(self._target // 2, min(AUTO_SCALED_SIZE_MIN, self._size_max))
        self.earned -= self._target - smaller
        self._target, self.half = smaller, smaller // 2
        self._was_full = False

    def clear(self) -> list[T]:
        """Take out everything unread; the permits are earned."""
        taken = list(self._messages)
        self._messages.clear()
        self.earned += len(taken)
        return taken

    def _grow(self) -> None:
        larger = min(self._target * 2, self._size_max)
        self.earned += larger - self._target
        self._target, self.half = larger, larger // 2
        self._was_full = False
