"""Background activity for measurements: operators of a broker with many queues.

The rule: background activity runs on a thread during a block, and records how long each of its
turns took.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

import pika
from conformance.brokers.arneb import Arneb
from conformance.management.client import Client

DECLARED_AT_ONCE: Final = 5_000
PAUSE_S: Final = 0.002


class Meanwhile:
    """An activity that is repeated while a block runs."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._thread = threading.Thread(target=self.run)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{', over' if self.over.is_set() else ''}>"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()

    def run(self) -> None:
        """Repeat the activity until the block ends; runs on the thread."""
        raise NotImplementedError


class Poller(Meanwhile):
    """Requests some paths every second."""

    def __init__(self, client: Client, paths: Sequence[str]) -> None:
        super().__init__()
        self._client = client
        self._paths = paths
        self.took_ms: dict[str, list[float]] = {path: [] for path in paths}

    def run(self) -> None:
        while not self.over.is_set():
            begun = time.monotonic()
            for path in self._paths:
                asked = time.monotonic()
                answer = self._client.call("GET", path)
                assert answer.status == 200, answer
                self.took_ms[path].append((time.monotonic() - asked) * 1000)
            self.over.wait(max(0.0, 1 - (time.monotonic() - begun)))


class Canary(Meanwhile):
    """Publishes one durable message after the other, and waits for each confirm."""

    def __init__(self, broker: Arneb) -> None:
        super().__init__()
        self._broker = broker
        self.took_ms: list[float] = []

    def run(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._broker.url))
        channel = connection.channel()
        channel.queue_declare("canary", durable=True)
        channel.confirm_delivery()
        while not self.over.is_set():
            began = time.perf_counter()
            channel.basic_publish("", "canary", b"x", pika.BasicProperties(delivery_mode=2))
            self.took_ms.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_S)
        connection.close()

    def share_ms(self, share: float) -> float:
        """The time within which this share of all messages was confirmed, in milliseconds."""
        return sorted(self.took_ms)[min(int(share * len(self.took_ms)), len(self.took_ms) - 1)]


def queue_definitions(numbers: Iterable[int]) -> dict[str, Any]:
    """A definitions file with durable queues of these numbers."""
    return {
        "queues": [
            {"vhost": "/", "name": f"q{number:06}", "durable": True, "auto_delete": False,
             "arguments": {}}
            for number in numbers
        ]
    }  # fmt: skip


def declare(broker: Arneb, queues: int) -> None:
    """Declare this many durable queues, some thousands per request, because the client's timeout is
    30 s."""
    client = Client(broker.http_address)
    for start in range(0, queues, DECLARED_AT_ONCE):
        numbers = range(start, min(queues, start + DECLARED_AT_ONCE))
        answer = client.call("POST", "definitions", queue_definitions(numbers))
        assert answer.status == 204, answer
