"""Java's InvalidAcks, InvalidAcksTx, Nack, Recover, Reject, RequeueOnChannelClose and
RequeueOnConnectionClose: returned messages, and how often a delivery may be acknowledged."""

from collections.abc import Callable
from typing import Any

import pytest
from conformance.amqp.conftest import Connect
from conformance.amqp.helpers import Inbox, refused, take, wait_until
from conformance.amqp.java.common import got, temporary
from pika.adapters.blocking_connection import BlockingChannel

MESSAGES = 2_000
SOME = 20


@pytest.fixture(params=[False, True], ids=["InvalidAcks", "InvalidAcksTx"])
def transactional(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_invalid_acks_double_ack(channel: BlockingChannel, transactional: bool) -> None:
    """Acknowledging a delivery twice is an error immediately, even in a transaction."""
    if transactional:
        channel.tx_select()
    queue = temporary(channel)
    channel.basic_publish("", queue, b"x")
    if transactional:
        channel.tx_commit()
    tag = take(channel, queue, 1)[0][0].delivery_tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        channel.basic_get(queue)


def test_invalid_acks_crazy_ack(channel: BlockingChannel, transactional: bool) -> None:
    if transactional:
        channel.tx_select()
    channel.basic_ack(123456)
    with refused(406, "PRECONDITION_FAILED - unknown delivery tag 123456"):
        channel.basic_qos(prefetch_count=1)


@pytest.fixture
def second(channel: BlockingChannel) -> BlockingChannel:
    """Another channel of the same connection."""
    other: BlockingChannel = channel.connection.channel()
    return other


def taken(channel: BlockingChannel, queue: str, count: int) -> list[int]:
    """Publish messages 1 to ``count`` and get them; the result is their delivery tags."""
    for number in range(1, count + 1):
        channel.basic_publish("", queue, b"%d" % number)
    tags = []
    for number in range(1, count + 1):
        method, _, body = channel.basic_get(queue)
        assert (body, method.redelivered) == (b"%d" % number, False)
        tags.append(method.delivery_tag)
    return tags


def again(inbox: Inbox, *bodies: bytes) -> int:
    """Wait until exactly these messages are redelivered, in any order; the result is the last
    tag."""
    inbox.wait(len(bodies))
    assert sorted(inbox.bodies) == sorted(bodies)
    assert all(method.redelivered for method, _, _ in inbox.got)
    return inbox.tags[-1]


Answer = Callable[[BlockingChannel, int, bool], Any]


def answered_one(
    channel: BlockingChannel, second: BlockingChannel, nack: Answer
) -> tuple[str, int]:
    """Requeue one message to a consumer on another channel, which then discards it; the result is
    the queue and the tag of the discarded delivery."""
    queue = temporary(channel)
    first_tag, second_tag = taken(channel, queue, 2)
    inbox = Inbox(second, queue)
    nack(channel, second_tag, True)
    tag = again(inbox, b"2")
    second.basic_cancel(inbox.tag)
    nack(second, tag, False)
    assert channel.basic_get(queue)[0] is None
    channel.basic_ack(first_tag)
    return queue, tag


def test_nack_single_nack(channel: BlockingChannel, second: BlockingChannel) -> None:
    def nack(on: BlockingChannel, tag: int, requeue: bool) -> None:
        on.basic_nack(tag, requeue=requeue)

    queue, tag = answered_one(channel, second, nack)
    channel.basic_nack(tag)
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        channel.basic_get(queue)


def test_nack_multi_nack(channel: BlockingChannel, second: BlockingChannel) -> None:
    queue = temporary(channel)
    tags = taken(channel, queue, 4)
    channel.basic_ack(tags[1])
    inbox = Inbox(second, queue)
    channel.basic_nack(tags[3], multiple=True, requeue=True)
    tag = again(inbox, b"1", b"3", b"4")
    second.basic_cancel(inbox.tag)
    second.basic_nack(tag, multiple=True, requeue=False)
    assert channel.basic_get(queue)[0] is None
    channel.basic_nack(tag, multiple=True, requeue=True)
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        channel.basic_get(queue)


def test_nack_nack_all(channel: BlockingChannel, second: BlockingChannel) -> None:
    queue = temporary(channel)
    taken(channel, queue, 2)
    channel.basic_nack(0, multiple=True, requeue=True)
    channel.basic_qos(prefetch_count=0)
    again(Inbox(second, queue, auto_ack=True), b"1", b"2")


def test_reject_reject(channel: BlockingChannel, second: BlockingChannel) -> None:
    def reject(on: BlockingChannel, tag: int, requeue: bool) -> None:
        on.basic_reject(tag, requeue=requeue)

    queue, tag = answered_one(channel, second, reject)
    channel.basic_reject(tag, requeue=False)
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        channel.basic_get(queue)


@pytest.mark.parametrize("arguments", [{"requeue": True}, {}], ids=["explicit", "convenience"])
def test_recover_redelivery_on_recover(
    channel: BlockingChannel, arguments: dict[str, bool]
) -> None:
    queue = temporary(channel)
    inbox = Inbox(channel, queue)
    channel.basic_publish("", queue, b"message")
    inbox.wait(1)
    channel.basic_recover(**(arguments or {"requeue": True}))
    assert inbox.wait(2) == [b"message"] * 2


def test_recover_no_redelivery_with_auto_ack(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    inbox = Inbox(channel, queue, auto_ack=True)
    channel.basic_publish("", queue, b"message")
    inbox.wait(1)
    channel.basic_recover(requeue=True)
    assert channel.basic_get(queue)[0] is None


def test_recover_requeue_false_not_supported(connect: Connect) -> None:
    channel = connect().channel()
    with refused(540, "NOT_IMPLEMENTED - requeue=false", connection=True):
        channel.basic_recover(requeue=False)


class Sessions:
    """Opens channels to be closed: all on one connection, or, with ``whole``, closing the
    connection instead of the channel."""

    def __init__(self, connect: Connect, *, whole: bool) -> None:
        self._connect = connect
        self._whole = whole
        self._connection = connect()

    def open(self) -> BlockingChannel:
        if self._whole and not self._connection.is_open:
            self._connection = self._connect()
        channel: BlockingChannel = self._connection.channel()
        return channel

    def close(self, channel: BlockingChannel) -> None:
        (self._connection if self._whole else channel).close()


@pytest.fixture(params=[False, True], ids=["RequeueOnChannelClose", "RequeueOnConnectionClose"])
def sessions(connect: Connect, request: pytest.FixtureRequest) -> Sessions:
    return Sessions(connect, whole=request.param)


@pytest.mark.parametrize("acked", [True, False], ids=["normal", "requeueing"])
def test_requeue_on_close_publish_and_get(sessions: Sessions, queue: str, acked: bool) -> None:
    for _ in range(3):
        channel = sessions.open()
        channel.queue_purge(queue)
        channel.basic_publish("", queue, b"x")
        method, _, _ = take(channel, queue, 1)[0]
        if acked:
            channel.basic_ack(method.delivery_tag)
        sessions.close(channel)
        channel = sessions.open()
        method, _, body = channel.basic_get(queue)
        if acked:
            assert method is None
        else:
            assert (body, method.redelivered) == (b"x", True)
        sessions.close(channel)


def test_requeue_on_close_requeueing_consumer(sessions: Sessions, queue: str) -> None:
    channel = sessions.open()
    channel.basic_publish("", queue, b"x")
    Inbox(channel, queue).wait(1)
    sessions.close(channel)
    assert got(sessions.open(), queue) == b"x"


def lots(channel: BlockingChannel, queue: str) -> None:
    for number in range(MESSAGES):
        channel.basic_publish("", queue, b"%d" % number)


def all_from(channel: BlockingChannel, queue: str, first: int) -> None:
    """The messages from ``first`` on are in the queue, in order, and no others."""
    for number in range(first, MESSAGES):
        assert got(channel, queue) == b"%d" % number
    assert got(channel, queue) is None


def test_requeue_on_close_requeue_in_flight(sessions: Sessions, queue: str) -> None:
    for _ in range(3):
        channel = sessions.open()
        lots(channel, queue)
        Inbox(channel, queue).wait(1)
        sessions.close(channel)
        channel = sessions.open()
        all_from(channel, queue, 0)
        sessions.close(channel)


@pytest.mark.parametrize("cancel", [True, False], ids=["cancel", "NoCancel"])
@pytest.mark.parametrize("ack", [True, False], ids=["ConsumerAck", "ConsumerNoAck"])
def test_requeue_on_close_requeue_in_flight_consumer(
    sessions: Sessions, queue: str, ack: bool, cancel: bool
) -> None:
    """A consumer acknowledges only some of many messages before its channel or connection is
    closed."""
    channel = sessions.open()
    lots(channel, queue)
    seen: list[int] = []

    def deliver(on: BlockingChannel, method: Any, *_: Any) -> None:
        seen.append(method.delivery_tag)
        if ack and len(seen) <= SOME:
            on.basic_ack(method.delivery_tag)
        if cancel and len(seen) == SOME:
            on.basic_cancel(method.consumer_tag)

    channel.basic_consume(queue, deliver)
    wait_until(channel.connection, lambda: len(seen) >= SOME)
    sessions.close(channel)
    channel = sessions.open()
    all_from(channel, queue, SOME if ack else 0)
