"""A window: how many messages may be in flight, shared by the consumers that name it.

The rule: who assigns counts up, who frees counts down, exactly once each.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arneb_core.interface import Consumer


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
        self.sharers: dict[Consumer, None] = {}
        """The attached consumers that name it, in the order of their turns; the core's business."""

    def __repr__(self) -> str:
        return f"<Window {self.in_flight}/{self.limit or 'no limit'}>"
