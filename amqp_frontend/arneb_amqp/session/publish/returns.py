"""Returns: mandatory messages on their way back to whoever published them.

The rule: what goes nowhere comes back at once, and in a transaction at its commit. So does then
what has lost all its queues meanwhile, for RabbitMQ 3.10 asks again at the commit whether one is
there.
"""

from typing import Final

from arneb_amqp.errors import ReplyCode, amqp_error
from arneb_amqp.session.context import ChannelContext, Pause, VhostContext
from arneb_amqp.session.transaction import Transaction
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.deliver import encode_return
from arneb_amqp.wire.route import content_start
from arneb_core.api.entry import HEADER_BYTES

RETURN_WORK: Final = 3
"""What it costs to encode one, in microseconds, and so in units of a turn."""


class Returns:
    """Those of one channel."""

    __slots__ = ("_channel", "_context", "_vhost", "count")

    def __init__(self, context: ChannelContext, vhost: VhostContext, channel: ChannelId) -> None:
        self._context = context
        self._vhost = vhost
        self._channel = channel
        self.count = 0
        """So many there were, those that a transaction keeps included."""

    def __repr__(self) -> str:
        return f"<Returns of channel {self._channel}, {self.count}>"

    def give_back(self, route: bytes, body: bytes, transaction: Transaction | None) -> None:
        """Return a message that goes nowhere; in a transaction, when that is committed."""
        chunks = self._encoded(route, body)
        if transaction is not None:
            transaction.give_back(chunks)
        else:
            self._context.output.send_chunks(chunks)

    def send(self, transaction: Transaction) -> None:
        """Queue what a transaction that is being committed gives back. Raises :class:`.Pause` when
        that is too much for a turn; the next call goes on there."""
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

    def _encoded(self, route: bytes, body: bytes) -> list[bytes]:
        self.count += 1
        self._vhost.router.traffic.returned += 1
        error = amqp_error(ReplyCode.NO_ROUTE)
        said = error.reply_code, error.reply_text, route, body, self._context.frame_bytes_max
        return encode_return(self._channel, *said)
