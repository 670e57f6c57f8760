"""The demo's publisher: pika with up to ``WINDOW`` unconfirmed publishes, through one node until
the connection is lost, and then through another.

The rule: each attempt to publish a message has a body of its own. So a message that was published
again for lack of a confirm can be told from one that the broker has duplicated.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pika
import pika.channel
import pika.exceptions

QUEUE: Final = "orders"
WINDOW: Final = 1_000
HEADERS: Final = {"order": "." * 1_000}
"""Makes messages large: several log records are in flight at once only under heavy traffic, because
small amounts are gathered into one record."""
RECONNECT_S: Final = 0.1
TURN_S: Final = 0.05


class Publisher:
    """Publishes ``messages`` messages, each until it is confirmed, in a thread of its own."""

    def __init__(self, messages: int, port: Callable[[], int]) -> None:
        """``port()`` is the port to use; it is called for each connection."""
        self.confirmed: dict[bytes, float] = {}
        """When each confirmed attempt was confirmed, by body."""
        self.attempts = 0
        self.connections = 0
        self.losses: list[str] = []
        """Why connections ended."""
        self._last = 0.0
        self.failure: BaseException | None = None
        self._messages = messages
        self._port = port
        self._todo = list(range(messages - 1, -1, -1))
        self._under_way: dict[int, tuple[int, bytes]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __repr__(self) -> str:
        return f"<Publisher {len(self.confirmed)} of {self._messages} confirmed>"

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    @property
    def last_confirm(self) -> float:
        """When the last confirm arrived, on the monotonic clock."""
        return self._last

    def _run(self) -> None:
        try:
            while len(self.confirmed) < self._messages:
                try:
                    self._publish()
                except (pika.exceptions.AMQPError, OSError) as error:
                    self.losses.append(f"{error!r}")
                    time.sleep(RECONNECT_S)
                lost = (number for number, _ in self._under_way.values())
                self._todo += sorted(lost, reverse=True)
                self._under_way.clear()
        except BaseException as error:
            self.failure = error

    def _publish(self) -> None:
        """Publish until all are confirmed or the connection is lost."""
        parameters = pika.ConnectionParameters("127.0.0.1", self._port(), heartbeat=10)
        connection = pika.BlockingConnection(parameters)
        self.connections += 1
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        inner: Any = channel._impl  # a blocking channel would wait for each confirm
        inner.confirm_delivery(self._answered)
        connection.process_data_events(TURN_S)
        properties = pika.BasicProperties(delivery_mode=2, headers=dict(HEADERS))
        tag = 0
        while self._todo or self._under_way:
            while self._todo and len(self._under_way) < WINDOW:
                number = self._todo.pop()
                self.attempts += 1
                body = b"%d.%d" % (number, self.attempts)
                tag += 1
                self._under_way[tag] = number, body
                inner.basic_publish("", QUEUE, body, properties)
            connection.process_data_events(TURN_S)
        connection.close()

    def _answered(self, frame: Any) -> None:
        method, now = frame.method, time.monotonic()
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self._under_way if tag <= method.delivery_tag]
        for tag in tags:
            number, body = self._under_way.pop(tag)
            if method.NAME == "Basic.Ack":
                self.confirmed[body] = self._last = now
            else:
                self._todo.append(number)
