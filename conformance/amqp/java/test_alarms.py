"""Java's BlockedConnection and MemoryAlarms, and ConnectionRecovery's blocked listener."""

from collections.abc import Callable, Iterator

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, wait_until
from conformance.amqp.java.common import got, pause
from conformance.amqp.java.test_recovery import Recovering
from conformance.conftest import Target

Alarm = Callable[[str, bool], None]


@pytest.fixture
def alarm(broker: Target) -> Iterator[Alarm]:
    """Raises and clears alarms; at the end every alarm is cleared."""
    process = broker.process
    if process is None:
        pytest.skip("this broker was not started by us")
    yield process.alarm
    for resource in ("memory", "disk"):
        process.alarm(resource, False)


def notices_of(connection: pika.BlockingConnection) -> list[str]:
    """A list to which the connection's blocked and unblocked notifications are added from now
    on."""
    heard: list[str] = []
    connection.add_on_connection_blocked_callback(
        lambda _, frame: heard.append(frame.method.reason)
    )
    connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    return heard


def blocked_and_unblocked(connection: pika.BlockingConnection, alarm: Alarm) -> None:
    """A publish is blocked and the connection is notified; when the alarm is cleared, it is
    notified again."""
    heard = notices_of(connection)
    connection.channel().basic_publish("", "", b"")
    wait_until(connection, lambda: heard == ["low on memory"])
    alarm("memory", False)
    wait_until(connection, lambda: heard == ["low on memory", "unblocked"])


def test_blocked_connection_test_block(connect: Connect, alarm: Alarm) -> None:
    connection = connect()
    alarm("memory", True)
    blocked_and_unblocked(connection, alarm)


def test_blocked_connection_initial_block(connect: Connect, alarm: Alarm) -> None:
    alarm("memory", True)
    blocked_and_unblocked(connect(), alarm)


def test_connection_recovery_blocked_listener_recovery(connect: Connect, alarm: Alarm) -> None:
    client = Recovering(connect)
    client.lose()
    alarm("memory", True)
    blocked_and_unblocked(client.connection, alarm)


@pytest.fixture
def queue(connect: Connect, name: Named) -> str:
    made = name("alarmed")
    connect().channel().queue_declare(made)
    return made


def test_memory_alarms_flow_control(connect: Connect, queue: str, alarm: Alarm) -> None:
    """Only publishing stops: the consumer is served, and the connection survives although it sends
    heartbeats at a one-second interval meanwhile."""
    connection = connect(heartbeat=1)
    channel = connection.channel()
    channel.basic_publish("", queue, b"before")
    wait_until(connection, lambda: got(channel, queue) == b"before")
    alarm("memory", True)
    inbox = Inbox(channel, queue, auto_ack=True)
    channel.basic_publish("", queue, b"during")
    pause(channel, 3_100)
    assert inbox.bodies == []
    alarm("memory", False)
    assert inbox.wait(1) == [b"during"]
    channel.basic_cancel(inbox.tag)
    channel.basic_publish("", queue, b"after")
    wait_until(connection, lambda: got(channel, queue) == b"after")


def test_memory_alarms_overlapping_alarms_flow_control(
    connect: Connect, queue: str, alarm: Alarm
) -> None:
    """Publishing stays blocked until the last alarm is cleared."""
    channel = connect().channel()
    inbox = Inbox(channel, queue, auto_ack=True)
    alarm("memory", True)
    channel.basic_publish("", queue, b"x")
    for resource, on in (("disk", True), ("memory", False)):
        pause(channel, 100)
        alarm(resource, on)
    pause(channel, 100)
    assert inbox.bodies == []
    alarm("disk", False)
    assert inbox.wait(1) == [b"x"]
