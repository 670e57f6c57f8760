"""A window: how many messages may be in flight, shared by the consumers that name it.

The rule: assigning counts up, freeing counts down, exactly once each.
"""

from typing import Protocol


class Sharer(Protocol):
    """A consumer that names a window."""

    def wake(self) -> None:
        """Note that the window has room again, or another limit."""
        ...


class Window:
    """Free places for messages in flight, shared by the consumers that name it.

    AMQP's channel-wide prefetch is one window for all consumers of the channel, its
    per-consumer prefetch one window each. ``limit`` 0 means no limit. The core counts
    ``in_flight`` up when it assigns and down when messages are acknowledged or come back, and
    wakes all who share a window that was full. A consumer that does not acknowledge has
    nothing in flight, but gets nothing while its windows are full of others' messages.
    """

    __slots__ = ("in_flight", "limit", "sharers")

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.in_flight = 0
        self.sharers: dict[Sharer, None] = {}
        """The attached consumers that name it, in the order of their turns; kept by the core."""

    def __repr__(self) -> str:
        return f"<Window {self.in_flight}/{self.limit or 'no limit'}>"


class UnackedWindow(Window):
    """A window that, once it is full, stays shut until it is down to ``resume``.

    Pulsar's limits of unacknowledged messages: a consumer that answers one message at a time at
    its limit would otherwise be given one at a time for ever. Invariant: ``limit`` is ``most``
    while it is open, and ``resume`` + 1 while it is shut.
    """

    __slots__ = ("most", "resume")

    def __init__(self, most: int, resume: int) -> None:
        super().__init__(most)
        self.most = most
        self.resume = resume

    @property
    def is_shut(self) -> bool:
        """Whether it was full, and too few of its messages were answered since."""
        # A window that opens again with one free place has the same limit, open or shut.
        return self.limit != self.most or self.in_flight >= self.most

    def change(self, other: "UnackedWindow") -> None:
        """Adopt the limits of ``other``, for messages already in flight too."""
        self.most, self.resume = other.most, other.resume
        self.limit = self.most
        self.counted()

    def counted(self) -> None:
        """Open or shut the window after ``in_flight`` has changed."""
        if self.in_flight >= self.most:
            self.limit = self.resume + 1
        elif self.in_flight <= self.resume:
            self.limit = self.most


def consumer_window(most: int) -> UnackedWindow:
    """Return a window for one consumer (``maxUnackedMessagesPerConsumer``): resumes at half."""
    return UnackedWindow(most, most // 2)


def subscription_window(most: int) -> UnackedWindow:
    """Return a window for all consumers of a subscription (``maxUnackedMessagesPerSubscription``):
    resumes below half."""
    return UnackedWindow(most, max(0, most // 2 - 1))
