"""Java's PerMessageTTL, PerQueueTTL and PerQueueVsPerMessageTTL: how long a message lives.

The tests that they share, ``TTLHandling``, run three times: with the TTL set by the message, by the
queue, and by both, where the queue's is twice the message's.
"""

import struct
from collections.abc import Callable
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, refused
from conformance.amqp.java.common import bare_frame, got, inequivalent, pause
from conformance.amqp.wire import Wire
from conformance.conftest import Target
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel

BY_MESSAGE, BY_QUEUE, BY_BOTH = "PerMessageTTL", "PerQueueTTL", "PerQueueVsPerMessageTTL"


class Timed:
    """A queue whose messages expire, an exchange bound to it, and a channel."""

    def __init__(self, connect: Connect, name: Named, kind: str) -> None:
        self.connection = connect()
        self.channel: BlockingChannel = self.connection.channel()
        self.kind = kind
        self.queue = name("ttl")
        self.exchange = name("exchange")
        self.ttl: Any = None
        self.channel.exchange_declare(self.exchange, "direct")

    def declare(self, ttl: Any) -> None:
        """Declare and bind the queue; messages published afterwards have this ``ttl``, in
        milliseconds."""
        self.ttl = ttl
        arguments = {}
        if self.kind != BY_MESSAGE:
            double = self.kind == BY_BOTH and isinstance(ttl, int)
            arguments["x-message-ttl"] = 2 * ttl if double else ttl
        self.channel.queue_declare(self.queue, exclusive=True, arguments=arguments)
        self.channel.queue_bind(self.queue, self.exchange, "k")

    def publish(self, body: bytes) -> None:
        properties = pika.BasicProperties()
        if self.kind != BY_QUEUE:
            properties.expiration = str(self.ttl)
        self.channel.basic_publish(self.exchange, "k", body, properties)

    def get(self) -> bytes | None:
        return got(self.channel, self.queue)

    def pause(self, ms: float) -> None:
        pause(self.channel, ms)

    def reopen(self) -> None:
        """Close the channel, with whatever is unacknowledged, and open another."""
        self.channel.close()
        self.channel = self.connection.channel()

    def refused_text(self, of_queue: str, of_message: str) -> str:
        if self.kind == BY_MESSAGE:
            return f"PRECONDITION_FAILED - invalid expiration '{self.ttl}': {of_message}"
        return (
            f"PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '{self.queue}' "
            f"in vhost '/': {of_queue}"
        )

    def try_it(self, ttl: Any) -> None:
        self.ttl = ttl
        self.declare(ttl)
        self.publish(b"one")
        self.channel.basic_qos(prefetch_count=0)


@pytest.fixture(params=[BY_MESSAGE, BY_QUEUE, BY_BOTH])
def timed(connect: Connect, name: Named, request: pytest.FixtureRequest) -> Timed:
    return Timed(connect, name, request.param)


@pytest.fixture
def by_queue(connect: Connect, name: Named) -> Timed:
    return Timed(connect, name, BY_QUEUE)


INTEGERS: dict[str, Callable[[int], bytes]] = {
    "byte": lambda value: struct.pack(">cb", b"b", value),
    "short": lambda value: struct.pack(">ch", b"s", value),
    "int": lambda value: struct.pack(">ci", b"I", value),
    "long": lambda value: struct.pack(">cq", b"l", value),
}
"""How integers of each size are encoded in a table."""


def declared_by_hand(target: Target, queue: str, key: bytes, value: bytes) -> object:
    """Declare a queue with one argument, encoded by hand; the result is the broker's answer."""
    table = bytes([len(key)]) + key + value
    payload = struct.pack(">HHH", 50, 10, 0) + bytes([len(queue)]) + queue.encode() + b"\0"
    with Wire(target) as wire:
        wire.open()
        wire.send(commands.Channel.Open(), 1)
        wire.read()
        wire.socket.sendall(bare_frame(1, 1, payload + struct.pack(">I", len(table)) + table))
        return wire.read()


@pytest.mark.parametrize("written", INTEGERS.values(), ids=INTEGERS)
def test_ttl_handling_multiple_ttl_types(
    broker: Target, name: Named, written: Callable[[int], bytes]
) -> None:
    answer = declared_by_hand(broker, name("ttl"), b"x-message-ttl", written(100))
    assert isinstance(answer, commands.Queue.DeclareOk)


def test_ttl_handling_invalid_type_used_in_ttl(timed: Timed) -> None:
    timed.ttl = "foobar"
    text = timed.refused_text('"expected integer, got longstr"', "no_integer")
    with refused(406, text):
        timed.try_it("foobar")


def test_ttl_handling_trailing_chars_used_in_ttl(timed: Timed) -> None:
    timed.ttl = "10000foobar"
    text = timed.refused_text('"expected integer, got longstr"', '{leftover_string,"foobar"}')
    with refused(406, text):
        timed.try_it("10000foobar")


def test_ttl_handling_t_ttl_must_be_positive(timed: Timed) -> None:
    timed.ttl = -10
    double = 20 if timed.kind == BY_BOTH else 10
    text = timed.refused_text(f"{{value_negative,-{double}}}", "{value_negative,-10}")
    with refused(406, text):
        timed.try_it(-10)


def test_ttl_handling_t_ttl_allow_zero(timed: Timed) -> None:
    timed.try_it(0)


def test_ttl_handling_messages_expire_when_using_basic_get(timed: Timed) -> None:
    timed.declare(60)
    timed.publish(b"one")
    timed.pause(200)
    assert timed.get() is None


def test_ttl_handling_publish_and_get_with_expiry(timed: Timed) -> None:
    timed.declare(400)
    timed.publish(b"one")
    timed.pause(300)
    timed.publish(b"two")
    timed.pause(150)
    timed.publish(b"three")
    assert [timed.get() for _ in range(3)] == [b"two", b"three", None]


def test_ttl_handling_transactional_publish_with_get(timed: Timed) -> None:
    """A message's TTL starts when it reaches its queue."""
    timed.declare(300)
    timed.channel.tx_select()
    timed.publish(b"one")
    timed.pause(350)
    timed.publish(b"two")
    timed.channel.tx_commit()
    timed.pause(50)
    assert timed.get() == b"one"
    timed.pause(350)
    assert timed.get() is None


def test_ttl_handling_expiry_with_requeue(timed: Timed) -> None:
    timed.declare(600)
    timed.publish(b"one")
    timed.pause(350)
    timed.publish(b"two")
    timed.publish(b"three")

    def expect(body: bytes, left: int) -> None:
        method, _, found = timed.channel.basic_get(timed.queue)
        assert (found, method.message_count) == (body, left)

    expect(b"one", 2)
    expect(b"two", 1)
    timed.reopen()
    timed.pause(300)
    expect(b"two", 1)
    expect(b"three", 0)


def test_ttl_handling_expiry_with_re_queue_after_consume(timed: Timed) -> None:
    timed.declare(100)
    inbox = Inbox(timed.channel, timed.queue)
    timed.publish(b"one")
    inbox.wait(1)
    timed.reopen()
    timed.pause(150)
    assert timed.get() is None


def test_ttl_handling_zero_ttl_delivery(timed: Timed) -> None:
    timed.declare(0)
    timed.publish(b"one")
    assert timed.get() is None
    inbox = Inbox(timed.channel, timed.queue)
    timed.publish(b"one")
    inbox.wait(1)
    timed.channel.basic_reject(inbox.tags[0], requeue=True)
    timed.pause(100)
    assert inbox.bodies == [b"one"]


@pytest.mark.parametrize("kind", [BY_MESSAGE, BY_BOTH])
def test_ttl_handling_expiry_when_consumer_is_late_to_the_party(
    connect: Connect, name: Named, kind: str
) -> None:
    timed = Timed(connect, name, kind)
    timed.declare(500)
    timed.publish(b"one")
    timed.ttl = 100
    timed.publish(b"two")
    timed.pause(200)
    inbox = Inbox(timed.channel, timed.queue)
    inbox.wait(1)
    timed.pause(100)
    assert inbox.bodies == [b"one"]


def test_per_queue_vs_per_message_ttl_smaller_per_queue_expiry_wins(
    connect: Connect, name: Named
) -> None:
    timed = Timed(connect, name, BY_BOTH)
    timed.declare(5)
    timed.ttl = 1_000
    timed.publish(b"message1")
    timed.pause(100)
    assert timed.get() is None


def test_per_queue_ttl_queue_re_declare_equivalence(by_queue: Timed) -> None:
    by_queue.declare(10)
    with refused(406, inequivalent("queue", by_queue.queue, "x-message-ttl", 20, 10)):
        by_queue.declare(20)


def test_per_queue_ttl_queue_re_declare_semantic_equivalence(broker: Target, name: Named) -> None:
    """Integers of different sizes are equal if their values are."""
    queue = name("ttl")
    for written in INTEGERS.values():
        answer = declared_by_hand(broker, queue, b"x-message-ttl", written(10))
        assert isinstance(answer, commands.Queue.DeclareOk)


def test_per_queue_ttl_queue_re_declare_semantic_non_equivalence(
    broker: Target, name: Named
) -> None:
    """A number that is not an integer is not equal to one."""
    queue = name("ttl")
    declared_by_hand(broker, queue, b"x-message-ttl", INTEGERS["int"](10))
    answer = declared_by_hand(broker, queue, b"x-message-ttl", struct.pack(">cd", b"d", 10.0))
    assert isinstance(answer, commands.Channel.Close)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost "
        "'/': received '10.0' but current is '10'"
    )
    assert (answer.reply_code, answer.reply_text) == (406, text)
