"""A declaration: the content of ``queue.declare``, and its absolute checks.

The rule: values, and checks that need no existing queue.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NewType

from arneb_amqp.errors import precondition_failed
from arneb_amqp.routing.checks import refuse_long, refuse_reserved
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.options import (
    HISTORY,
    QUEUE_TYPE,
    check_queue_arguments,
    queue_type,
)
from arneb_amqp.wire.tables import Table, longstr

ConnectionId = NewType("ConnectionId", int)
"""Names a connection as owner of its exclusive queues."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The content of ``queue.declare``. An exclusive queue is never durable, as in RabbitMQ 3."""

    owner: ConnectionId
    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    name_given: bool = False
    """Whether the broker generated the name."""

    def of_type(self, default: str) -> "Declaration":
        """Return it with the vhost's default queue type if it names none; empty: no default. What
        cannot be of that type becomes a classic queue."""
        if not default or QUEUE_TYPE in self.arguments:
            return self
        if not self.durable or self.exclusive or self.auto_delete:
            default = QueueType.CLASSIC.value
        return replace(self, arguments={**self.arguments, QUEUE_TYPE: longstr(default)})

    def named(self, new_name: Callable[[], str]) -> "Declaration":
        """Return it with a generated name if it has none. Raises RabbitMQ's errors for a forbidden
        name, and for a queue type that needs a name."""
        refuse_long("queue", self.name)
        if self.name_given:
            return self
        refuse_reserved("queue", self.name)
        if self.name:
            return self
        self._check_may_be_unnamed()
        return replace(self, name=f"amq.gen-{new_name()}", name_given=True)

    def _check_may_be_unnamed(self) -> None:
        """Raise RabbitMQ's 406 for a queue type that cannot be server-named."""
        asked = self.arguments.get(QUEUE_TYPE)
        for kind in (QueueType.QUORUM, QueueType.STREAM):
            if asked is not None and asked.value == kind.value.encode():
                raise precondition_failed(
                    f"Cannot declare a server-named queue for type {kind.in_words}"
                )

    def check(self, queue: str) -> None:
        """Raise RabbitMQ's 406 for invalid arguments, and for properties that quorum queues and
        streams forbid; ``queue`` as in error texts."""
        check_queue_arguments(self.arguments, queue)
        kind = queue_type(self.arguments)
        if HISTORY in self.arguments and (kind is QueueType.STREAM or not self.durable):
            wanted = "expected a durable queue that is no stream"
            raise precondition_failed(f"invalid arg '{HISTORY}' for {queue}: {wanted}")
        if kind is QueueType.CLASSIC:
            return
        faults = {
            "auto-delete": self.auto_delete,
            "exclusive-owner": self.exclusive,
            "non-durable": not self.durable,
        }
        for name, present in faults.items():
            if present:
                raise precondition_failed(f"invalid property '{name}' for {queue}")
