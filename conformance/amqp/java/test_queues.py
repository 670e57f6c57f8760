"""Java's QueueExclusivity, QueueLease, QueueLifecycle, QueueSizeLimit and PriorityQueues."""

from collections.abc import Callable
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, refused, take
from conformance.amqp.java.common import got, inequivalent, pause, temporary, wait_gone, wait_ready
from conformance.amqp.java.test_ttl import INTEGERS, declared_by_hand
from conformance.conftest import Target
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

LEASE_MS = 600


@pytest.fixture
def theirs(connect: Connect, name: Named) -> BlockingChannel:
    """A channel of another connection."""
    return connect().channel()


@pytest.fixture
def locked(theirs: BlockingChannel, name: Named) -> str:
    """An exclusive queue of the other connection."""
    made = name("exclusive")
    theirs.queue_declare(made, exclusive=True)
    return made


ACTIONS: dict[str, Callable[[BlockingChannel, str], Any]] = {
    "PassiveDeclare": lambda on, queue: on.queue_declare(queue, passive=True),
    "Declare": lambda on, queue: on.queue_declare(queue, exclusive=True),
    "Consume": lambda on, queue: on.basic_consume(queue, lambda *_: None),
    "Purge": lambda on, queue: on.queue_purge(queue),
    "Delete": lambda on, queue: on.queue_delete(queue),
    "Bind": lambda on, queue: on.queue_bind(queue, "amq.direct", "k"),
    "Unbind": lambda on, queue: on.queue_unbind(queue, "amq.direct", "k"),
    "Get": lambda on, queue: on.basic_get(queue, auto_ack=True),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_queue_exclusivity_queue_exclusive_for(
    channel: BlockingChannel, theirs: BlockingChannel, locked: str, action: str
) -> None:
    theirs.queue_bind(locked, "amq.direct", "k")
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{locked}' in vhost "
        "'/'. It could be originally declared on another connection or the exclusive property "
        "value does not match that of the original declaration."
    )
    with refused(405, text):
        ACTIONS[action](channel, locked)


class Lease:
    """A queue that expires when it has been unused for a while."""

    def __init__(self, channel: BlockingChannel, queue: str) -> None:
        self.channel = channel
        self.queue = queue

    def declare(self, expires: Any = LEASE_MS) -> None:
        self.channel.queue_declare(self.queue, arguments={"x-expires": expires})

    def is_there(self) -> bool:
        """Checked with a conditional delete, because a declaration would count as use."""
        try:
            self.channel.connection.channel().queue_delete(self.queue, if_empty=True)
        except ChannelClosedByBroker as error:
            assert "not empty" in error.reply_text
            return True
        return False

    def fill(self) -> None:
        """Add a message, so that a delete with ``if_empty`` fails while the queue exists."""
        self.channel.basic_publish("", self.queue, b"x")

    def pause(self, part: float) -> None:
        pause(self.channel, LEASE_MS * part)


@pytest.fixture
def lease(channel: BlockingChannel, name: Named) -> Lease:
    return Lease(channel, name("lease"))


def test_queue_lease_queue_expires(lease: Lease) -> None:
    lease.declare()
    lease.fill()
    lease.pause(0.5)
    assert lease.is_there()
    lease.pause(1.5)
    assert not lease.is_there()


def test_queue_lease_does_not_expire_others(lease: Lease) -> None:
    lease.channel.queue_declare(lease.queue)
    lease.fill()
    lease.pause(2)
    assert lease.is_there()


@pytest.mark.parametrize("size", ["byte", "short", "long"])
def test_queue_lease_expire_may_be(broker: Target, name: Named, size: str) -> None:
    answer = declared_by_hand(broker, name("lease"), b"x-expires", INTEGERS[size](100))
    assert isinstance(answer, commands.Queue.DeclareOk)


@pytest.mark.parametrize(
    ("expires", "why"),
    [
        pytest.param(0, "{value_zero,0}", id="GtZero"),
        pytest.param(-10, "{value_negative,-10}", id="Positive"),
    ],
)
def test_queue_lease_expire_must_be(lease: Lease, expires: int, why: str) -> None:
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-expires' for queue '{lease.queue}' in vhost "
        f"'/': {why}"
    )
    with refused(406, text):
        lease.declare(expires)


def test_queue_lease_queue_redeclare_equivalence(lease: Lease) -> None:
    lease.declare(10_000)
    with refused(406, inequivalent("queue", lease.queue, "x-expires", 20_000, 10_000)):
        lease.declare(20_000)


@pytest.mark.parametrize("passive", [False, True], ids=["active", "passive"])
def test_queue_lease_queue_declare_extends_lease(lease: Lease, passive: bool) -> None:
    lease.declare()
    lease.fill()
    lease.pause(0.75)
    if passive:
        lease.channel.queue_declare(lease.queue, passive=True)
    else:
        lease.declare()
    lease.pause(0.75)
    assert lease.is_there()


def test_queue_lease_expires_with_consumers(lease: Lease) -> None:
    lease.declare()
    tag = lease.channel.basic_consume(lease.queue, lambda *_: None)
    lease.fill()
    lease.pause(2)
    lease.channel.queue_declare(lease.queue, passive=True)
    lease.channel.basic_cancel(tag)
    lease.pause(2)
    assert not lease.is_there()


def test_queue_lifecycle_queue_equivalence(channel: BlockingChannel, name: Named) -> None:
    queue = name("queue")
    channel.queue_declare(queue)
    channel.queue_declare(queue)
    channel.queue_declare(queue, arguments={"assumed-to-be-semantically-void": "bar"})


def test_queue_lifecycle_queue_non_equivalence_durable(
    channel: BlockingChannel, name: Named
) -> None:
    queue = name("queue")
    channel.queue_declare(queue)
    with refused(406, inequivalent("queue", queue, "durable", "true", "false")):
        channel.queue_declare(queue, durable=True)


def test_queue_lifecycle_queue_non_equivalence_exclusive(
    channel: BlockingChannel, name: Named
) -> None:
    queue = name("queue")
    channel.queue_declare(queue)
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost "
        "'/'. It could be originally declared on another connection or the exclusive property "
        "value does not match that of the original declaration."
    )
    with refused(405, text):
        channel.queue_declare(queue, exclusive=True)


def test_queue_lifecycle_queue_non_equivalence_auto_delete(
    channel: BlockingChannel, name: Named
) -> None:
    queue = name("queue")
    channel.queue_declare(queue)
    with refused(406, inequivalent("queue", queue, "auto_delete", "true", "false")):
        channel.queue_declare(queue, auto_delete=True)


def test_queue_lifecycle_queue_auto_delete(channel: BlockingChannel, name: Named) -> None:
    queue = name("temporary")
    for _ in range(2):
        channel.queue_declare(queue, auto_delete=True)
    channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        channel.queue_declare(queue, passive=True)


def test_queue_lifecycle_exclusive_not_auto_delete(channel: BlockingChannel, name: Named) -> None:
    queue = name("exclusive")
    for _ in range(2):
        channel.queue_declare(queue, exclusive=True)
    channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))
    channel.queue_declare(queue, passive=True)


def test_queue_lifecycle_exclusive_goes_with_connection(connect: Connect, name: Named) -> None:
    queue = name("exclusive")
    connection = connect()
    connection.channel().queue_declare(queue, exclusive=True)
    connection.close()
    wait_gone(connect, queue)


def test_queue_lifecycle_argument_arrays(channel: BlockingChannel, name: Named) -> None:
    queue = name("arrays")
    for _ in range(2):
        channel.queue_declare(
            queue, durable=True, exclusive=True, arguments={"my-key": ["foo", "bar", "baz"]}
        )


def test_queue_lifecycle_queue_names_longer_than255_characters(channel: BlockingChannel) -> None:
    """Clients refuse to send longer names; one of 255 bytes is accepted."""
    with pytest.raises(pika.exceptions.ShortStringTooLong):
        channel.connection.channel().queue_declare("x" * 300)
    longest = "x" * 255
    channel.queue_declare(longest, exclusive=True)
    channel.queue_delete(longest)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("\n{0}", id="singleLineFeed"),
        pytest.param("\n{0}\n", id="multipleLineFeeds"),
        pytest.param("\r\n{0}\n\r", id="multipleLineFeedAndCarriageReturns"),
    ],
)
def test_queue_lifecycle_line_feeds_stripped_from_queue_name(
    broker: Target, channel: BlockingChannel, name: Named, broken: str
) -> None:
    """Sent by hand, because pika expects the answer to contain the name exactly as it was sent."""
    queue = name("queue")
    half = len(queue) // 2
    written = queue[:half] + broken.format(queue[half:])
    answer = declared_by_hand(broker, written, b"x-expires", INTEGERS["int"](30_000))
    assert isinstance(answer, commands.Queue.DeclareOk)
    assert answer.queue == queue
    channel.queue_declare(queue, arguments={"x-expires": 30_000})


class Limited:
    """A queue with a length limit, and optionally a dead letter queue for what it drops."""

    def __init__(self, channel: BlockingChannel, name: Named, length: int, *, dlx: bool) -> None:
        self.channel = channel
        self.queue = name("maxlength")
        self.grave = temporary(channel)
        arguments: dict[str, Any] = {"x-max-length": length}
        if dlx:
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.grave}
        channel.queue_declare(self.queue, exclusive=True, auto_delete=True, arguments=arguments)

    def publish(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            self.channel.basic_publish("", self.queue, b"msg%d" % number)

    def take(self, count: int) -> list[int]:
        return [method.delivery_tag for method, _, _ in take(self.channel, self.queue, count)]

    def head(self, queue: str, length: int, body: bytes) -> None:
        """There are ``length`` messages in the queue, and this is the first."""
        wait_ready(self.channel, queue, length)
        if length:
            method, _, found = self.channel.basic_get(queue, auto_ack=True)
            assert (found, method.message_count) == (body, length - 1)
        else:
            assert got(self.channel, queue) is None


LENGTHS = pytest.mark.parametrize("length", [0, 1, 2, 3])


@LENGTHS
def test_queue_size_limit_queue_size(channel: BlockingChannel, name: Named, length: int) -> None:
    limited = Limited(channel, name, length, dlx=False)
    limited.publish(1, length + 1)
    limited.head(limited.queue, length, b"msg2")


@LENGTHS
def test_queue_size_limit_queue_size_unacked(
    channel: BlockingChannel, name: Named, length: int
) -> None:
    """Unacknowledged messages do not count."""
    limited = Limited(channel, name, length, dlx=False)
    limited.publish(1, length)
    limited.take(length)
    limited.publish(length + 1, length + 1)
    limited.head(limited.queue, min(length, 1), b"msg%d" % (length + 1))


@LENGTHS
def test_queue_size_limit_queue_size_dlx(
    channel: BlockingChannel, name: Named, length: int
) -> None:
    limited = Limited(channel, name, length, dlx=True)
    limited.publish(1, length + 1)
    limited.head(limited.grave, 1, b"msg1")


@LENGTHS
def test_queue_size_limit_queue_size_unacked_dlx(
    channel: BlockingChannel, name: Named, length: int
) -> None:
    limited = Limited(channel, name, length, dlx=True)
    limited.publish(1, length)
    limited.take(length)
    limited.publish(length + 1, length + 1)
    pause(channel, 50)
    limited.head(limited.grave, 0 if length else 1, b"msg1")


@pytest.mark.parametrize("dlx", [False, True], ids=["requeue", "requeueWithDlx"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_queue_size_limit_requeue(
    channel: BlockingChannel, name: Named, length: int, dlx: bool
) -> None:
    """Requeued messages are at the front, so they are the first to be dropped."""
    limited = Limited(channel, name, length, dlx=dlx)
    limited.publish(1, length)
    tags = limited.take(length)
    limited.publish(1, length)
    channel.basic_nack(tags[0], requeue=True)
    if length > 1:
        channel.basic_nack(tags[-1], multiple=True, requeue=True)
    limited.head(limited.queue, length, b"msg1")
    if dlx:
        limited.head(limited.grave, length, b"msg1")


def prioritised(channel: BlockingChannel, queue: str, highest: int) -> None:
    channel.queue_declare(queue, durable=True, arguments={"x-max-priority": highest})


@pytest.mark.parametrize(
    "highest", [pytest.param(3, id="basics"), pytest.param(255, id="maxAllowed")]
)
def test_priority_queues_prioritising(channel: BlockingChannel, name: Named, highest: int) -> None:
    queue = name("priorities")
    prioritised(channel, queue, highest)
    channel.confirm_delivery()
    for priority in range(1, highest + 1):
        properties = pika.BasicProperties(priority=priority)
        channel.basic_publish("", queue, b"msg", properties)
    inbox = Inbox(channel, queue, auto_ack=True)
    inbox.wait(highest)
    assert [each.priority for _, each, _ in inbox.got] == list(range(highest, 0, -1))


@pytest.mark.parametrize(
    ("highest", "why"),
    [
        pytest.param(-10, "{value_negative,-10}", id="negative"),
        pytest.param(260, "{max_value_exceeded,260}", id="excessive"),
    ],
)
def test_priority_queues_max_priority(
    channel: BlockingChannel, name: Named, highest: int, why: str
) -> None:
    queue = name("priorities")
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '{queue}' in vhost "
        f"'/': {why}"
    )
    with refused(406, text):
        prioritised(channel, queue, highest)
