"""Keeping: how long and how much a queue keeps, and what becomes of the rest.

The rule: arguments are read here once, when the queue comes in; the core acts on them. Whether a
publish is refused because a queue is full is decided when it is published, so that the
publisher can be told.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from arneb_amqp.routing.router import Router
from arneb_amqp.topology.dead_letters import DeadLetterOffice, Target
from arneb_amqp.topology.queues.arguments import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DELIVERY_LIMIT,
    EXPIRES,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QueueType,
    number,
    queue_type,
)
from arneb_amqp.topology.sizes import payload_bytes
from arneb_amqp.wire.tables import Table, lookup_text
from arneb_core.api.clock import wall_clock_ms
from arneb_core.api.core import Core
from arneb_core.api.expiry import lives_no_time
from arneb_core.api.limits import Limits
from arneb_core.api.topics import Topic

if TYPE_CHECKING:
    from arneb_amqp.topology.queues.queue import Queue

REJECT: Final = "reject-publish"
REJECT_DLX: Final = "reject-publish-dlx"


@dataclass(slots=True, eq=False)
class Keeping:
    """What one queue's arguments ask for."""

    limits: Limits
    expires_ms: int | None
    """It goes when nobody has used it for so long."""
    office: DeadLetterOffice | None
    refuses: bool
    """A publish that is too much is refused."""
    refused_die: bool
    """And dead-lettered."""
    messages_max: int | None
    bytes_max: int | None
    incoming: deque[int] = field(default_factory=deque)
    """Bytes of the messages that were let in and are not in the queue yet."""
    incoming_bytes: int = 0

    def takes(self, queue: "Queue", size: int) -> bool:
        """Whether the queue has room for one more message. What consumers have room for counts
        no more: it goes to them as soon as it may."""
        subscription = queue.subscription
        ready, room = subscription.ready_messages, subscription.room
        waiting = max(0, ready + len(self.incoming) - room)
        if self.messages_max is not None and waiting >= self.messages_max:
            return False
        if self.bytes_max is None:
            return True
        stored = subscription.ready_bytes if ready > room else 0
        if waiting:
            taken = sum(islice(self.incoming, max(0, room - ready)))
            stored += self.incoming_bytes - taken
        return stored + size <= self.bytes_max

    def outlives(self, queue: "Queue", entry: bytes) -> bool:
        """Whether ``entry`` will be in the queue when the next one comes: what lives no time is
        gone then, unless it has others before it."""
        ahead = self.incoming or queue.subscription.ready_messages
        return bool(ahead) or not lives_no_time(entry, self.limits.message_ttl_ms)

    def let_in(self, size: int) -> None:
        """A message is on its way into the queue."""
        self.incoming.append(size)
        self.incoming_bytes += size

    def arrived(self) -> None:
        """The first of those on their way is in the queue, or will not come."""
        self.incoming_bytes -= self.incoming.popleft()


def keeping_of(
    queue: str,
    arguments: Table,
    core: Core,
    router: Router,
    topic_of_queue: Callable[[str], Topic | None],
    topic_of_delayed: Callable[[str], Topic | None] = lambda exchange: None,
    refusing: Callable[[str], "Queue | None"] = lambda queue: None,
) -> Keeping | None:
    """What ``arguments`` ask for; None when that is nothing."""
    overflow = lookup_text(arguments, OVERFLOW)
    refuses = overflow in (REJECT, REJECT_DLX)
    messages_max, bytes_max = number(arguments, MAX_LENGTH), number(arguments, MAX_LENGTH_BYTES)
    has_limit = queue_type(arguments) is QueueType.QUORUM
    limits = Limits(
        message_ttl_ms=number(arguments, MESSAGE_TTL),
        ready_messages_max=None if refuses else messages_max,
        ready_bytes_max=None if refuses else bytes_max,
        delivery_limit=number(arguments, DELIVERY_LIMIT) if has_limit else None,
        size_of=None if bytes_max is None else payload_bytes,
    )
    exchange = lookup_text(arguments, DEAD_LETTER_EXCHANGE)
    office = None
    if exchange is not None:
        target = Target(queue, exchange, lookup_text(arguments, DEAD_LETTER_ROUTING_KEY))
        office = DeadLetterOffice(
            core, router, topic_of_queue, wall_clock_ms, target, topic_of_delayed, refusing
        )
    refuses = refuses and (messages_max is not None or bytes_max is not None)
    expires_ms = number(arguments, EXPIRES)
    made = Keeping(
        limits, expires_ms, office, refuses, overflow == REJECT_DLX, messages_max, bytes_max
    )
    idle = limits == Limits()
    return None if idle and office is None and not refuses and expires_ms is None else made
