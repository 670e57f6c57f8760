"""Returns: mandatory messages on their way back to whoever published them.

The rule: an unroutable message is returned at once, or in a transaction at its commit. So is one
that has lost all its queues by then, because RabbitMQ 3.10 checks at the commit whether one is
still there.
"""

from typing import Final

from arneb_amqp.errors import ReplyCode, amqp_error
from arneb_amqp.session.context import ChannelContext, Pause, VhostContext
from arneb_amqp.session.transaction import Transaction
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.deliver import Chunk, encode_return
from arneb_amqp.wire.route import content_start
from arneb_core.api.entries.entry import HEADER_BYTES

RETURN_WORK: Final = 3
"""The cost of encoding one, in microseconds, the unit of a turn's work."""


class Returns:
    """The returns of one channel."""

    __slots__ = ("_channel", "_context", "_vhost", "count")

    def __init__(self, context: ChannelContext, vhost: VhostContext, channel: ChannelId) -> None:
        self._context = context
        self._vhost = vhost
        self._channel = channel
        self.count = 0
        """Messages returned, including those that a transaction still holds."""

    def __repr__(self) -> str:
        return f"<Returns of channel {self._channel}, {self.count}>"

    def give_back(self, route: bytes, body: bytes, transaction: Transaction | None) -> None:
        """Return an unroutable message; in a transaction, when it is committed."""
        chunks = self._encoded(route, body)
        if transaction is not None:
            transaction.give_back(chunks)
        else:
            self._context.output.send_chunks(chunks)

    def send(self, transaction: Transaction) -> None:
        """Queue the returns of a transaction being committed. Raises :class:`.Pause` when they are
        too many for a turn; the next call continues."""
        while transaction.mandatory:
            if self._context.work_left <= 0:
                raise Pause
            queues, message = transaction.mandatory.popleft()
            self._context.work_left -= 1 + len(queues)
            if not queues:
                self._context.output.send_chunks((message,))
            elif not any(map(self._is_there, queues)):
                start = content_start(message)
                chunks = self._encoded(message[HEADER_BYTES:start], message[start:])
                self._context.output.send_chunks(chunks)
                self._context.work_left -= RETURN_WORK

    def _is_there(self, queue: str) -> bool:
        return self._vhost.has_queue(queue) or self._vhost.foreign_topic(queue)

    def _encoded(self, route: bytes, body: bytes) -> list[Chunk]:
        self.count += 1
        self._vhost.router.traffic.returned += 1
        error = amqp_error(ReplyCode.NO_ROUTE)
        arguments = error.reply_code, error.reply_text, route, body, self._context.frame_bytes_max
        return encode_return(self._channel, *arguments)
