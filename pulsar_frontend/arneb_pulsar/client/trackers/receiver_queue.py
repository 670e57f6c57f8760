"""The receiver queue: messages waiting for the application, and permits for more of them.

The rule: the broker never has more permits than there is room. A permit is for one message; it is
given once, by FLOW, and earned again when the application takes the message or the message turns
out not to be for the application. Earned permits are given back half a queue at a time.

A queue of size 0 prefetches nothing: one permit is given when the application waits.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.wire.errors import WireError

QUEUE_SIZE: Final = 1_000
"""The official clients' default. No other consumer gets what waits here, so slow ones need less."""

AUTO_SCALED_SIZE_MIN: Final = 1
"""The first size of an auto-scaled queue, as in Java's client."""

UNASKED_MAX: Final = 1_000
"""Entries in a row that may come without permits, or the queue's size if that is more. Brokers
estimate the size of batches and deliver what they have read, so a few come; a broker that never
stops would fill the memory."""

T = TypeVar("T")


class ReceiverQueue(Generic[T]):
    """The queue of one consumer.

    Invariant: the broker's permits, the messages waiting here and the earned permits add up to
    ``_target``. A broker may send more than its permits allow (a whole batch for one permit); its
    permits are then negative.
    """

    def __init__(self, size: int = QUEUE_SIZE, *, auto_scaled: bool = False) -> None:
        if size < 0 or (auto_scaled and size == 0):
            raise ConfigurationError(f"expected the size of a receiver queue, got {size}")
        self._size_max = size
        self._is_auto_scaled = auto_scaled
        self._target = min(AUTO_SCALED_SIZE_MIN, size) if auto_scaled else size
        self._messages: deque[T] = deque()
        self.earned = 0
        """Permits earned and not yet given back."""
        self.half = self._target // 2
        """While fewer permits are earned, :meth:`take_flow` returns 0 and need not be called."""
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
        """How many messages are prefetched at present."""
        return self._target

    def connected(self) -> int:
        """Note that the broker has (re)registered the consumer, without permits; return those to
        give now."""
        self.earned = self._target - len(self._messages)
        self._was_full = False
        return self.take_flow()

    def push(self, messages: Sequence[T]) -> None:
        """Add the messages of an entry, each for one permit. Raises :class:`WireError` after
        :data:`UNASKED_MAX` or more entries in a row without permits."""
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
        """Return the next message and earn its permit; None if there is none."""
        if not self._messages:
            return None
        self.earned += 1
        return self._messages.popleft()

    def skip(self, count: int) -> None:
        """Earn the permits of ``count`` messages that nobody gets: they were filtered out, or
        are parts of a larger one."""
        self.earned += count

    def waiting(self, *, may_grow: bool = True) -> int:
        """Note that the application waits while the queue is empty; return the permits to give."""
        self._is_waiting = True
        if may_grow and self._is_auto_scaled and self._was_full and self._target < self._size_max:
            self._grow()
        return self.take_flow()

    def stopped_waiting(self) -> None:
        """Note that the application stopped waiting without a message."""
        self._is_waiting = False

    def take_flow(self) -> int:
        """Return the permits to give now: all earned ones, once they are half of the queue; for a
        queue of size 0, as many as leave the broker with one while the application waits."""
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
        """Give no permits until :meth:`resume`; messages for earlier permits may still come."""
        self._is_paused = True

    def resume(self) -> None:
        """Allow permits again; call :meth:`take_flow` for them."""
        self._is_paused = False

    def shrink(self) -> None:
        """Halve the queue because memory is short."""
        smaller = max(self._target // 2, min(AUTO_SCALED_SIZE_MIN, self._size_max))
        self.earned -= self._target - smaller
        self._target, self.half = smaller, smaller // 2
        self._was_full = False

    def clear(self) -> list[T]:
        """Take all waiting messages and earn their permits."""
        taken = list(self._messages)
        self._messages.clear()
        self.earned += len(taken)
        return taken

    def _grow(self) -> None:
        larger = min(self._target * 2, self._size_max)
        self.earned += larger - self._target
        self._target, self.half = larger, larger // 2
        self._was_full = False
