"""Acknowledgement timeouts: a client that never acknowledges a delivery must not keep it forever.

The rule: nothing is recorded for each delivery. Each check notes the next delivery tag with the
time, and whatever is unanswered below a note has been out at least since then. So a channel is
closed at most one check late, as in RabbitMQ, which checks once a minute.
"""

from bisect import bisect_right
from collections.abc import Collection
from operator import itemgetter
from typing import Final

from arneb_amqp.errors import ChannelException, precondition_failed
from arneb_amqp.session.consume.unacked import Unacked
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.wire.constants import ChannelId

CHECK_INTERVAL_S_MAX: Final = 60.0
CHECKS_MIN: Final = 4
"""Checks within one timeout, if it is short."""


def check_interval_s(timeout_s: float) -> float:
    """Return the time between two checks; infinity when nothing times out."""
    return min(CHECK_INTERVAL_S_MAX, timeout_s / CHECKS_MIN) if timeout_s else float("inf")


class DeliveryTimes:
    """Notes of tags and times by which a channel's deliveries were out."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: list[tuple[int, float]] = []  # a deque takes ten times the memory

    def __repr__(self) -> str:
        return f"<DeliveryTimes {len(self._notes)} notes>"

    def overdue(self, oldest: int | None, next_tag: int, now: float, timeout_s: float) -> bool:
        """Whether ``oldest``, the first unanswered delivery, has been out for ``timeout_s``.
        ``next_tag`` is the first tag not given out yet."""
        notes = self._notes
        if oldest is None:
            notes.clear()
            return False
        del notes[: bisect_right(notes, oldest, key=itemgetter(0))]
        if not notes or notes[-1][0] < next_tag:
            notes.append((next_tag, now))
        return notes[0][1] + timeout_s <= now


class AckTimeouts:
    """The acknowledgement timeouts of one channel. ``timeout_s`` is the one that was exceeded.

    Invariant: consumers in ``_own`` have a timeout and notes of their own.
    """

    __slots__ = ("_notes", "_own", "timeout_s")

    def __init__(self) -> None:
        self._notes = DeliveryTimes()
        self._own: dict[ConsumerId, tuple[float, DeliveryTimes]] = {}
        self.timeout_s = 0.0

    def __repr__(self) -> str:
        return f"<AckTimeouts {self._notes!r}, {len(self._own)} of their own>"

    def begin(self, owner: ConsumerId, timeout_s: float) -> None:
        """Set the timeout of deliveries to ``owner``; 0 = never."""
        self._own[owner] = timeout_s or float("inf"), DeliveryTimes()

    def change(self, owner: ConsumerId, timeout_s: float | None) -> None:
        """Change the timeout of ``owner``; None: the common one applies."""
        if timeout_s is None:
            self._own.pop(owner, None)
        elif owner not in self._own:
            self.begin(owner, timeout_s)
        else:
            self._own[owner] = timeout_s or float("inf"), self._own[owner][1]

    def is_over(
        self, unacked: Unacked, here: Collection[ConsumerId], now: float, timeout_s: float
    ) -> bool:
        """Whether a delivery has waited too long. ``here``: consumers that may still get
        deliveries; ``timeout_s``: the timeout of consumers without their own, 0 = never."""
        oldest = unacked.oldest
        if self._own:
            by_owner = unacked.oldest_by_owner()
            if self._own_is_over(by_owner, unacked.next_tag, here, now):
                return True
            oldest = min(by_owner.values(), default=None)
        self.timeout_s = timeout_s
        return bool(timeout_s) and self._notes.overdue(oldest, unacked.next_tag, now, timeout_s)

    def _own_is_over(
        self, oldest: dict[ConsumerId, int], next_tag: int, here: Collection[ConsumerId], now: float
    ) -> bool:
        """The same for consumers with a timeout of their own; they are removed from ``oldest``."""
        for owner, (timeout_s, answers) in list(self._own.items()):
            tag = oldest.pop(owner, None)
            if answers.overdue(tag, next_tag, now, timeout_s):
                self.timeout_s = timeout_s
                return True
            if tag is None and owner not in here:
                del self._own[owner]
        return False


def timed_out(channel: ChannelId, timeout_s: float) -> ChannelException:
    """Return RabbitMQ's 406 for a client that does not answer."""
    return precondition_failed(
        f"delivery acknowledgement on channel {channel} timed out. Timeout value used: "
        f"{round(timeout_s * 1000)} ms. This timeout value can be configured, see consumers doc "
        "guide to learn more"
    )
