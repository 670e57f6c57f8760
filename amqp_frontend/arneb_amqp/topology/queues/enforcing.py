"""Enforcing: applies the options of queues.

The rule: the core gets what it can enforce itself, again only when that changes; options may
change at any time, in any direction. Messages on their way meanwhile stay counted.
"""

from dataclasses import dataclass, field, replace

from arneb_amqp.routing.router import Router
from arneb_amqp.topology.dead_letter_turns import Turns
from arneb_amqp.topology.dead_letters import DeadLettering, DeadLetterTarget, Destinations
from arneb_amqp.topology.overflow import Bounds, Overflow
from arneb_amqp.topology.queue_types import OverflowPolicy, QueueType
from arneb_amqp.topology.queues.queue import NO_LIMITS_APPLIED, Queue
from arneb_core.api.core import Core
from arneb_core.api.process.clock import wall_clock_ms


@dataclass(slots=True, eq=False)
class Enforcing:
    """Applies the options of one vhost's queues."""

    _core: Core
    _router: Router
    _destinations: Destinations
    refusing: dict[str, Overflow]
    """The queues that refuse publishes when full."""
    attended: dict[str, Queue] = field(default_factory=dict)
    """Queues with work for :mod:`.maintenance`: they expire, or have dead letters that may have to
    be retried."""
    _turns: Turns = field(default_factory=Turns)

    def __repr__(self) -> str:
        attended = len(self.attended)
        return f"<Enforcing, {len(self.refusing)} queues may refuse, {attended} attended>"

    def enforce(self, queue: Queue, *, is_new: bool = False) -> None:
        """Apply the options of ``queue`` from now on. ``is_new``: the core has none of them yet."""
        options = queue.options
        target = None if options.type is QueueType.STREAM else self._dead_letters(queue)
        if options.expires_ms is not None or queue.dead_lettering is not None:
            self.attended[queue.name] = queue
        else:
            self.attended.pop(queue.name, None)
        if options.type is QueueType.STREAM:
            return
        if is_new:
            queue.applied_limits = NO_LIMITS_APPLIED
        queue.subscription.prioritise(options.priority_max)
        limits = replace(options.limits, message_ttl_ms=queue.ttl)
        if queue.applied_limits != (limits, target is not None):
            queue.subscription.limit(limits, target)
            queue.applied_limits = limits, target is not None
        self._refuse(queue, target)

    def forget(self, queue: Queue) -> None:
        """Forget a deleted queue."""
        self.refusing.pop(queue.name, None)
        self.attended.pop(queue.name, None)

    def _dead_letters(self, queue: Queue) -> DeadLettering | None:
        """Return the handler of dead letters. Once made it stays, because it counts messages on
        their way."""
        options = queue.options
        if options.dead_letter_exchange is None:
            if (former := queue.dead_lettering) is not None:  # what was kept has its last chance
                former.target = replace(former.target, keeps=False)
            return None
        target = DeadLetterTarget(
            queue.name,
            options.dead_letter_exchange,
            options.dead_letter_routing_key,
            options.keeps_dead_letters,
        )
        if queue.dead_lettering is None:
            queue.dead_lettering = DeadLettering(
                self._core, self._router, self._destinations, wall_clock_ms, target, self._turns
            )
        queue.dead_lettering.target = target
        return queue.dead_lettering

    def _refuse(self, queue: Queue, target: DeadLettering | None) -> None:
        options = queue.options
        if not options.refuses:
            self.refusing.pop(queue.name, None)
            return
        bounds = Bounds(options.messages_max, options.bytes_max, options.message_ttl_ms)
        refused = target if options.overflow is OverflowPolicy.REJECT_PUBLISH_DLX else None
        if queue.overflow is None:
            queue.overflow = Overflow(queue.topic, bounds, refused)
        queue.overflow.hold(bounds, refused)
        self.refusing[queue.name] = queue.overflow


async def keep(queue: Queue) -> None:
    """Apply a stream's retention to its log. Raises :class:`.CommitFailed`."""
    settings = queue.options.topic_settings(durable=queue.durable, exclusive=False)
    await queue.topic.retain(
        settings.retention_ms, settings.retention_bytes, settings.ledger_bytes_max
    )
