"""Direct reply-to: the names through which a client gets answers to what it publishes.

The rule: :data:`REPLY_TO` is the pseudo-queue that clients name; whoever consumes from it is given
a name of its own, :data:`PREFIX` and something hard to guess, and is reached by that.

Source: RabbitMQ's documentation of direct reply-to.
"""

from typing import Final

REPLY_TO: Final = "amq.rabbitmq.reply-to"
PREFIX: Final = REPLY_TO + "."


def is_reply_queue(name: str) -> bool:
    """It is a name that some channel was given."""
    return name.startswith(PREFIX)
