"""The demo's publisher: pika with confirms, both safe and fast.

The rule: it does not wait for each confirm, but bounds how many are outstanding.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pika
import pika.channel
import pika.spec

from arneb.demo.orders import QUEUE, Order

Step = Callable[[], None]

OUTSTANDING_MAX: Final = 200
PROPERTIES: Final = pika.BasicProperties(
    content_type="application/json", delivery_mode=pika.DeliveryMode.Persistent
)


class PublishFailed(Exception):
    """The broker refused a message, or closed the connection too early."""


class Publisher:
    """Publishes orders in one callback-driven pika connection and counts the confirms."""

    def __init__(
        self,
        port: int,
        orders: Iterable[Order],
        step: Step,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._left = deque(orders)
        self._step = step
        self._arguments = arguments
        self._last_tag = 0
        self._outstanding: set[int] = set()
        self._connection = pika.SelectConnection(
            pika.ConnectionParameters("127.0.0.1", port),
            on_open_callback=lambda connection: connection.channel(
                on_open_callback=self._channel_opened
            ),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
        )
        self._reason = "it was not opened"

    def __repr__(self) -> str:
        return f"<Publisher, {len(self._left)} left, {len(self._outstanding)} outstanding>"

    def run(self) -> int:
        """Publish everything; return how many messages were confirmed. Raises
        :class:`PublishFailed`."""
        loop = self._connection.ioloop
        try:
            loop.start()
        finally:
            loop.close()
        missing = len(self._left) + len(self._outstanding)
        if missing:
            raise PublishFailed(f"{missing} messages are not confirmed: {self._reason}")
        return self._last_tag

    def _ended(self, _: Any, reason: BaseException) -> None:
        """Note that the connection was closed, by either side, or could not be opened."""
        self._reason = str(reason) or type(reason).__name__
        self._connection.ioloop.stop()

    def _channel_opened(self, channel: pika.channel.Channel) -> None:
        self._channel = channel
        channel.queue_declare(
            QUEUE, durable=True, arguments=self._arguments, callback=self._declared
        )

    def _declared(self, _: Any) -> None:
        self._channel.confirm_delivery(self._answered, callback=lambda _: self._publish())

    def _publish(self) -> None:
        while self._left and len(self._outstanding) < OUTSTANDING_MAX:
            body = self._left.popleft().to_json()
            self._channel.basic_publish("", QUEUE, body, PROPERTIES, mandatory=True)
            self._last_tag += 1
            self._outstanding.add(self._last_tag)

    def _answered(self, frame: Any) -> None:
        """Take a confirm of one message, or of all up to it."""
        if not self._connection.is_open:
            return  # a message was refused before
        if not isinstance(frame.method, pika.spec.Basic.Ack):
            self._connection.close(320, f"expected basic.ack, got {frame.method.NAME}")
            return
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            confirmed = {each for each in self._outstanding if each <= tag}
        else:
            confirmed = self._outstanding & {tag}
        self._outstanding -= confirmed
        for _ in confirmed:
            self._step()
        if self._left:
            self._publish()
        elif not self._outstanding:
            self._connection.close()  # the loop stops when the broker has answered
