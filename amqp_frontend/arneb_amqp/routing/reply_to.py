"""Direct reply-to: the names through which a client receives replies to its messages.

The rule: consuming from :data:`REPLY_TO` gives a channel a name of its own for the life of the
consumer. The name replaces the pseudo-queue's in ``reply_to`` of the channel's messages, and a
message published to it through the default exchange reaches this channel. It is hard to guess, and
nobody else can consume from it, purge or delete it.

Source: RabbitMQ's documentation of direct reply-to; ``rabbit_channel`` for the errors.
"""

from typing import Final

from arneb_amqp.errors import precondition_failed
from arneb_amqp.wire.constants import DIRECT_REPLY_TO

REPLY_TO: Final = DIRECT_REPLY_TO
PREFIX: Final = REPLY_TO + "."


def is_reply_queue(name: str) -> bool:
    """Whether the name is one assigned to a channel."""
    return name.startswith(PREFIX)


class ReplyTo:
    """The direct replies of one channel."""

    __slots__ = ("name", "tag")

    def __init__(self) -> None:
        self.name: str | None = None
        """The name others publish to; None while there is no consumer."""
        self.tag: str | None = None

    def __repr__(self) -> str:
        return f"<ReplyTo {self.name or 'nobody'}>"

    def check(self, *, no_ack: bool) -> None:
        """Raise RabbitMQ's 406 unless a consumer may begin now."""
        if self.name is not None:
            raise precondition_failed("reply consumer already set")
        if not no_ack:
            raise precondition_failed("reply consumer cannot acknowledge")

    def begin(self, token: str, tag: str) -> str:
        """Return the name for the consumer ``tag``."""
        self.name, self.tag = PREFIX + token, tag
        return self.name

    def ended(self, tag: str) -> None:
        """Note that a consumer of the channel is gone, perhaps this one."""
        if tag == self.tag:
            self.name = self.tag = None

    @property
    def current(self) -> str:
        """The name to publish with. Raises RabbitMQ's 406 when there is none."""
        if self.name is None:
            raise precondition_failed("fast reply consumer does not exist")
        return self.name
