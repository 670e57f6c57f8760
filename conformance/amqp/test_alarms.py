"""Alarms: publishers are blocked and notified, consumers go on, and nothing is lost.

Some are counterparts of the Java client's ``BlockedConnection`` and ``MemoryAlarms``.
"""

from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, Inbox, bodies_in, settle, wait_until
from conformance.conftest import Target
from pika.adapters.blocking_connection import BlockingChannel

Alarm = Callable[[str, bool], None]


@pytest.fixture
def alarm(broker: Target) -> Iterator[Alarm]:
    """Raises and clears alarms; at the end every alarm is cleared."""
    process = broker.process
    if process is None:
        pytest.skip("this broker was not started by us")
    raised = set()

    def change(resource: str, on: bool) -> None:
        process.alarm(resource, on)
        (raised.add if on else raised.discard)(resource)

    yield change
    for resource in list(raised):
        process.alarm(resource, False)


class Ear:
    """A connection that records its blocked and unblocked notifications."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self.connection = connection
        self.heard: list[str] = []
        connection.add_on_connection_blocked_callback(self._blocked)
        connection.add_on_connection_unblocked_callback(self._unblocked)

    def wait(self, *heard: str) -> None:
        wait_until(self.connection, lambda: len(self.heard) >= len(heard))
        assert tuple(self.heard) == heard

    def _blocked(self, _: Any, frame: Any) -> None:
        self.heard.append(frame.method.reason)

    def _unblocked(self, _: Any, __: Any) -> None:
        self.heard.append("unblocked")


def send(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Publish without waiting for confirms."""
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)
    channel.connection.process_data_events(0)


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_whoever_publishes_during_an_alarm_is_blocked_until_it_is_over(
    connect: Connect, queue: str, alarm: Alarm, resource: str
) -> None:
    publisher, idle = Ear(connect()), Ear(connect())
    channel = publisher.connection.channel()
    send(channel, queue, b"before")
    alarm(resource, True)
    settle(publisher.connection)
    assert publisher.heard == []
    send(channel, queue, b"one", b"two")
    publisher.wait(f"low on {resource}")
    settle(idle.connection)
    other = connect().channel()
    assert bodies_in(other, queue) == [b"before"]
    alarm(resource, False)
    publisher.wait(f"low on {resource}", "unblocked")
    inbox = Inbox(other, queue, auto_ack=True)
    assert inbox.wait(2) == [b"one", b"two"]
    assert idle.heard == []


def test_consumers_go_on_and_their_acks_count(connect: Connect, queue: str, alarm: Alarm) -> None:
    send(connect().channel(), queue, *[b"%d" % number for number in range(20)])
    alarm("memory", True)
    channel = connect().channel()
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, queue)
    for count in range(3, 20, 3):
        inbox.wait(count)
        channel.basic_ack(0, multiple=True)
    inbox.wait(20)


def test_a_connection_that_comes_during_an_alarm_is_blocked_by_its_first_publish(
    connect: Connect, queue: str, alarm: Alarm
) -> None:
    alarm("disk", True)
    late = Ear(connect())
    channel = late.connection.channel()
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
    assert late.heard == []
    send(channel, queue, b"late")
    late.wait("low on disk")
    alarm("disk", False)
    late.wait("low on disk", "unblocked")
    assert Inbox(connect().channel(), queue, auto_ack=True).wait(1) == [b"late"]


def test_clients_are_notified_once_and_blocked_until_the_last_alarm_is_over(
    connect: Connect, queue: str, alarm: Alarm
) -> None:
    publisher = Ear(connect())
    channel = publisher.connection.channel()
    alarm("memory", True)
    send(channel, queue, b"x")
    publisher.wait("low on memory")
    alarm("disk", True)
    alarm("memory", False)
    settle(publisher.connection)
    assert publisher.heard == ["low on memory"]
    alarm("disk", False)
    publisher.wait("low on memory", "unblocked")


def test_two_alarms_are_named_together(connect: Connect, queue: str, alarm: Alarm) -> None:
    publisher = Ear(connect())
    channel = publisher.connection.channel()
    alarm("memory", True)
    alarm("disk", True)
    send(channel, queue, b"x")
    publisher.wait("low on disk & memory")


def test_publishes_that_waited_are_confirmed(connect: Connect, name: Named, alarm: Alarm) -> None:
    queue = name("queue")
    channel = connect().channel()
    channel.queue_declare(queue)
    channel.confirm_delivery()
    alarm("memory", True)
    over = Timer(0.5, alarm, ("memory", False))
    over.start()
    channel.basic_publish("", queue, b"waits", PERSISTENT)
    over.join()
    assert bodies_in(channel, queue) == [b"waits"]
