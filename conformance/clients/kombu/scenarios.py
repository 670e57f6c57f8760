"""Common and unusual scenarios for kombu. Prints one line for each: "ok name", or "FAILED name" and
why."""

import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty
from typing import Any

from amqp.exceptions import ChannelError, ConsumerCancelled, NotFound
from kombu import Connection, Consumer, Exchange, Message, Producer, Queue
from kombu.mixins import ConsumerMixin

PATIENCE_S = 30.0
URL = sys.argv[1]
numbers = count(1)


def fresh() -> str:
    return f"kombu-{os.getpid()}-{next(numbers)}"


def connected(**options: Any) -> Connection:
    return Connection(URL, transport_options={"confirm_publish": True}, **options)


def new_queue(connection: Connection, **arguments: Any) -> Queue:
    """Declare a durable queue on the default exchange."""
    queue = Queue(fresh(), queue_arguments=arguments or None)(connection.default_channel)
    queue.declare()
    return queue


def publish(connection: Connection, queue: Queue, body: object, **properties: Any) -> None:
    Producer(connection.default_channel).publish(body, routing_key=queue.name, **properties)


def take(
    connection: Connection,
    queue: Queue,
    number: int,
    answer: Callable[[Message], None] = Message.ack,
    prefetch: int = 100,
) -> list[Message]:
    """Consume ``number`` messages on a channel of its own, and pass each to ``answer``."""
    got: list[Message] = []

    def came(message: Message) -> None:
        got.append(message)
        answer(message)

    with (
        connection.channel() as channel,
        Consumer(channel, [queue], on_message=came, prefetch_count=prefetch),
    ):
        while len(got) < number:
            connection.drain_events(timeout=PATIENCE_S)
    return got


def in_order(connection: Connection) -> None:
    queue = new_queue(connection)
    for number in range(200):
        publish(connection, queue, {"number": number})
    got = take(connection, queue, 200)
    assert [each.payload["number"] for each in got] == list(range(200))
    queue.delete()


def rejected(connection: Connection) -> None:
    queue = new_queue(connection)
    publish(connection, queue, "again")

    def answer(message: Message) -> None:
        if message.delivery_info["redelivered"]:
            message.ack()
        else:
            message.requeue()

    got = take(connection, queue, 2, answer)
    assert [each.delivery_info["redelivered"] for each in got] == [False, True]
    queue.delete()


def prefetch(connection: Connection) -> None:
    queue = new_queue(connection)
    for _ in range(5):
        publish(connection, queue, "x")
    ready: list[int] = []

    def count_and_ack(message: Message) -> None:
        ready.append(queue.queue_declare(passive=True).message_count)
        message.ack()

    take(connection, queue, 5, count_and_ack, prefetch=1)
    assert ready == [4, 3, 2, 1, 0], ready
    queue.delete()


def returned(connection: Connection) -> None:
    back: list[tuple[int, str]] = []

    def came_back(error: ChannelError, *_: object) -> None:
        back.append((error.reply_code, error.reply_text))

    producer = Producer(connection.channel(), on_return=came_back)
    producer.publish("back", routing_key=fresh(), mandatory=True)
    assert back == [(312, "NO_ROUTE")], back


def all_types(connection: Connection) -> None:
    queue = new_queue(connection)
    headers = {
        "text": "grün", "yes": True, "nothing": None, "small": 1, "large": 1 << 40, "real": 1.5,
        "list": [1, "two"], "table": {"deep": {"deeper": "x"}},
    }  # fmt: skip
    properties = {
        "priority": 4, "correlation_id": "c", "reply_to": "r", "message_id": "m", "type": "t",
        "user_id": "guest", "app_id": "a", "delivery_mode": 2,
    }  # fmt: skip
    publish(connection, queue, b"", headers=headers, expiration=60, **properties)
    (message,) = take(connection, queue, 1)
    assert message.headers == headers, message.headers
    assert properties.items() <= message.properties.items(), message.properties
    assert message.properties["expiration"] == "60000"
    queue.delete()


def compressed(connection: Connection) -> None:
    queue = new_queue(connection)
    body = os.urandom(1_000_003)
    publish(connection, queue, body, compression="zlib")
    publish(connection, queue, {"text": "x" * 300_000}, serializer="json")
    first, second = take(connection, queue, 2)
    assert first.payload == body
    assert second.payload == {"text": "x" * 300_000}
    queue.delete()


def topics(connection: Connection) -> None:
    channel = connection.default_channel
    outer, inner = (Exchange(fresh(), "topic", auto_delete=True)(channel) for _ in range(2))
    outer.declare()
    inner.declare()
    inner.bind_to(outer, routing_key="a.#")
    queue = Queue(fresh(), inner, routing_key="*.b.*")(channel)
    queue.declare()
    for key in ("a.b.c", "a.x.c", "b.b.c", "a.b.d"):
        Producer(channel, outer).publish(key, routing_key=key)
    assert [each.payload for each in take(connection, queue, 2)] == ["a.b.c", "a.b.d"]
    queue.delete()


def simple(connection: Connection) -> None:
    with connection.SimpleQueue(fresh()) as queue:
        queue.put({"hello": "world"})
        message = queue.get(timeout=PATIENCE_S)
        assert message.payload == {"hello": "world"}
        message.ack()
        try:
            queue.get_nowait()
        except Empty:
            pass
        else:
            raise AssertionError("the queue should be empty")
    queue.queue(connection.default_channel).delete()


def expired(connection: Connection) -> None:
    dead = new_queue(connection)
    queue = Queue(
        fresh(), message_ttl=0.05, expires=600, max_length=1000,
        queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name},
    )(connection.default_channel)  # fmt: skip
    queue.declare()
    publish(connection, queue, "late")
    (message,) = take(connection, dead, 1)
    (death,) = message.headers["x-death"]
    assert death["queue"] == queue.name
    assert death["reason"] == "expired"
    assert (death["count"], death["exchange"], death["routing-keys"]) == (1, "", [queue.name])
    queue.delete()
    dead.delete()


def poison(connection: Connection) -> None:
    dead = new_queue(connection)
    arguments = {
        "x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead.name,
    }  # fmt: skip
    queue = new_queue(connection, **arguments)
    publish(connection, queue, "poison")
    got = take(connection, queue, 3, Message.requeue)
    assert [each.headers.get("x-delivery-count", 0) for each in got] == [0, 1, 2]
    (message,) = take(connection, dead, 1)
    assert message.headers["x-death"][0]["reason"] == "delivery_limit"
    queue.delete()
    dead.delete()


def stream(connection: Connection) -> None:
    queue = new_queue(connection, **{"x-queue-type": "stream"})
    for number in range(10):
        publish(connection, queue, number)
    for offset, first in (("first", 0), (4, 4)):
        reading = Queue(
            queue.name, queue_arguments={"x-queue-type": "stream"},
            consumer_arguments={"x-stream-offset": offset},
        )  # fmt: skip
        got = take(connection, reading, 10 - first)
        assert [each.payload for each in got] == list(range(first, 10))
        assert [each.headers["x-stream-offset"] for each in got] == list(range(first, 10))
    queue.delete()


def mistake(connection: Connection) -> None:
    channel = connection.channel()
    try:
        Queue(fresh())(channel).queue_declare(passive=True)
    except NotFound as error:
        assert error.code == 404
    else:
        raise AssertionError("a queue that is not there was found")
    connection.channel().close()


def cancelled(connection: Connection) -> None:
    queue = new_queue(connection)
    with connected() as other, other.channel() as channel:
        consumer = Consumer(channel, [Queue(queue.name)], on_message=Message.ack)
        consumer.consume()
        queue.delete()
        try:
            other.drain_events(timeout=PATIENCE_S)
        except ConsumerCancelled:
            return
        raise AssertionError("no cancel came")


class Steady(ConsumerMixin):
    """Consumes across reconnections, as the library intends; cuts its own connection once."""

    def __init__(self, connection: Connection, queue: Queue) -> None:
        self.connection = connection
        self._queue = queue
        self.redelivered: list[bool] = []

    def get_consumers(self, consumer: Callable[..., Consumer], channel: object) -> list[Consumer]:
        return [consumer([self._queue], on_message=self.came)]

    def came(self, message: Message) -> None:
        self.redelivered.append(message.delivery_info["redelivered"])
        if len(self.redelivered) == 1:
            message.channel.connection.transport.sock.shutdown(socket.SHUT_RDWR)
            return
        message.ack()
        self.should_stop = True


def recovered(connection: Connection) -> None:
    queue = new_queue(connection)
    publish(connection, queue, "kept")
    with connected() as lost:
        steady = Steady(lost, Queue(queue.name))
        thread = threading.Thread(target=steady.run, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        assert steady.redelivered == [False, True], steady.redelivered
    queue.delete()


def published_in_spite_of_it(connection: Connection) -> None:
    queue = new_queue(connection)
    with connected() as lost:
        producer = Producer(lost)
        producer.publish("before", routing_key=queue.name)
        lost.default_channel.connection.transport.sock.shutdown(socket.SHUT_RDWR)
        policy = {"max_retries": 20, "interval_start": 0.05, "interval_step": 0.1}
        producer.publish("after", routing_key=queue.name, retry=True, retry_policy=policy)
    assert [each.payload for each in take(connection, queue, 2)] == ["before", "after"]
    queue.delete()


def heartbeats(_: Connection) -> None:
    with connected(heartbeat=2) as idle:
        idle.connect()
        end = time.monotonic() + 7
        while time.monotonic() < end:
            time.sleep(0.5)
            idle.heartbeat_check(rate=2)
            with suppress(TimeoutError):
                idle.drain_events(timeout=0.01)
        idle.channel().close()


SCENARIOS: dict[str, Callable[[Connection], None]] = {
    "confirmed publishes come back in order": in_order,
    "a rejected message comes again, redelivered": rejected,
    "a prefetch holds back what is too much": prefetch,
    "an unroutable mandatory message is returned": returned,
    "headers of all types and every property come back": all_types,
    "bodies of many frames come back whole, compressed or not": compressed,
    "topics route from exchange to exchange": topics,
    "a simple queue is one": simple,
    "what expires is dead-lettered and says why": expired,
    "a quorum queue gives a message up after its limit": poison,
    "a stream is read again from where one says": stream,
    "a mistake closes its channel only": mistake,
    "a deleted queue cancels its consumer": cancelled,
    "a lost connection is recovered with its consumers": recovered,
    "a publish is tried again on a new connection": published_in_spite_of_it,
    "heartbeats keep an idle connection": heartbeats,
}


def play(name: str, scenario: Callable[[Connection], None]) -> bool:
    try:
        with connected() as connection:
            scenario(connection)
    except Exception:
        print(f"FAILED {name}:\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok {name}", flush=True)
    return True


if __name__ == "__main__":
    passed = [play(*each) for each in SCENARIOS.items()]
    sys.exit(0 if all(passed) else 1)
