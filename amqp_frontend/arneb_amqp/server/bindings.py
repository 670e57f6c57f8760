"""Bindings as the methods name them.

The rule: pamqp's methods become our values here and nowhere else.
"""

from typing import Any

from pamqp.commands import Exchange as ExchangeMethods
from pamqp.commands import Queue as QueueMethods

from arneb_amqp.routing.exchange import Binding, DestinationKind


def exchange_binding(method: ExchangeMethods.Bind | ExchangeMethods.Unbind) -> Binding:
    """The binding between exchanges that a method names."""
    return Binding(
        method.source,
        method.destination,
        method.routing_key,
        as_table(method.arguments),
        DestinationKind.EXCHANGE,
    )


def queue_binding(method: QueueMethods.Bind | QueueMethods.Unbind) -> Binding:
    """The binding of a queue that a method names."""
    return Binding(method.exchange, method.queue, method.routing_key, as_table(method.arguments))


def as_table(arguments: Any) -> Any:
    """The decoder's tables are ours, whatever pamqp's annotations say."""
    return arguments
