"""Java's Confirm: whatever happens to a message, its publisher gets exactly one answer."""

import time

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, Inbox, refused, wait_until
from conformance.amqp.java.common import MANY, many, temporary
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, Confirm


class Confirmed:
    """A channel in confirm mode that does not wait for confirms but records them: tags not yet
    answered, answered twice, and nacked."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.channel = channel
        self.published = 0
        self.open: set[int] = set()
        self.duplicates: list[int] = []
        self.nacked: list[int] = []
        answered: list[object] = []
        channel._impl._rpc(Confirm.Select(False), answered.append, [Confirm.SelectOk])
        channel._impl.add_callback(self._acked, [Basic.Ack], one_shot=False)
        channel._impl.add_callback(self._refused, [Basic.Nack], one_shot=False)
        wait_until(channel.connection, lambda: answered)

    def publish(
        self, exchange: str, key: str, *, persistent: bool = True, mandatory: bool = False
    ) -> None:
        self.published += 1
        self.open.add(self.published)
        properties = PERSISTENT if persistent else pika.BasicProperties(delivery_mode=1)
        self.channel.basic_publish(exchange, key, b"nop", properties, mandatory=mandatory)

    def many(self, exchange: str, key: str, **how: bool) -> None:
        for _ in range(MANY):
            self.publish(exchange, key, **how)

    def wait(self) -> None:
        """Wait until every publish is answered, and check that none was nacked or answered
        twice."""
        wait_until(self.channel.connection, lambda: not self.open)
        assert (self.nacked, self.duplicates) == ([], [])

    def _acked(self, frame: object) -> None:
        self._answered(frame, [])

    def _refused(self, frame: object) -> None:
        self._answered(frame, self.nacked)

    def _answered(self, frame: object, refused: list[int]) -> None:
        method = frame.method  # type: ignore[attr-defined]
        if method.delivery_tag not in self.open:
            self.duplicates.append(method.delivery_tag)
        tags = {tag for tag in self.open if tag <= method.delivery_tag}
        tags = tags if method.multiple else {method.delivery_tag}
        self.open -= tags
        if isinstance(method, Basic.Nack):
            refused.extend(tags)


@pytest.fixture
def confirmed(connect: Connect) -> Confirmed:
    return Confirmed(connect().channel())


@pytest.fixture
def consumed(confirmed: Confirmed) -> str:
    """A durable exclusive queue with a consumer that acknowledges automatically."""
    queue = temporary(confirmed.channel, durable=True)
    Inbox(confirmed.channel, queue, auto_ack=True)
    return queue


@pytest.fixture
def unconsumed(confirmed: Confirmed) -> str:
    return temporary(confirmed.channel, durable=True)


@pytest.mark.parametrize("mandatory", [False, True], ids=["", "mandatory"])
@pytest.mark.parametrize("persistent", [False, True], ids=["transient", "persistent"])
def test_confirm_persistent_mandatory_combinations(
    confirmed: Confirmed, consumed: str, persistent: bool, mandatory: bool
) -> None:
    confirmed.many("", consumed, persistent=persistent, mandatory=mandatory)
    confirmed.wait()


def test_confirm_non_durable(confirmed: Confirmed) -> None:
    queue = temporary(confirmed.channel)
    Inbox(confirmed.channel, queue, auto_ack=True)
    confirmed.many("", queue)
    confirmed.wait()


@pytest.mark.parametrize("persistent", [False, True], ids=["transient", "persistent"])
def test_confirm_mandatory_no_route(confirmed: Confirmed, persistent: bool) -> None:
    returned: list[object] = []
    confirmed.channel.add_on_return_callback(lambda *parts: returned.append(parts))
    confirmed.many("", "confirm-test-doesnotexist", persistent=persistent, mandatory=True)
    confirmed.wait()
    wait_until(confirmed.channel.connection, lambda: len(returned) == MANY)


def test_confirm_multiple_queues(confirmed: Confirmed, consumed: str, name: Named) -> None:
    other = temporary(confirmed.channel, durable=True)
    Inbox(confirmed.channel, other, auto_ack=True)
    key = name("key")
    for queue in (consumed, other):
        confirmed.channel.queue_bind(queue, "amq.direct", key)
    confirmed.many("amq.direct", key)
    confirmed.wait()


def test_confirm_queue_delete(confirmed: Confirmed, unconsumed: str) -> None:
    confirmed.many("", unconsumed)
    confirmed.channel.queue_delete(unconsumed)
    confirmed.wait()


def test_confirm_queue_purge(confirmed: Confirmed, unconsumed: str) -> None:
    confirmed.many("", unconsumed)
    confirmed.channel.queue_purge(unconsumed)
    confirmed.wait()


def test_confirm_confirm_queue_purge(confirmed: Confirmed, queue: str) -> None:
    """A queue is purged repeatedly while messages arrive."""
    confirmed.channel.basic_qos(prefetch_count=1)
    for number in range(4 * MANY):
        confirmed.publish("", queue)
        if number % 100 == 0:
            confirmed.channel.queue_purge(queue)
    confirmed.wait()


def reject_all(confirmed: Confirmed, queue: str, *, requeue: bool) -> None:
    for _ in range(MANY):
        method = confirmed.channel.basic_get(queue)[0]
        confirmed.channel.basic_reject(method.delivery_tag, requeue=requeue)


def test_confirm_basic_reject(confirmed: Confirmed, unconsumed: str) -> None:
    confirmed.many("", unconsumed)
    reject_all(confirmed, unconsumed, requeue=False)
    confirmed.wait()


@pytest.mark.parametrize("ttl", [1, 0])
def test_confirm_queue_ttl(confirmed: Confirmed, ttl: int) -> None:
    queue = temporary(confirmed.channel, durable=True, arguments={"x-message-ttl": ttl})
    confirmed.many("", queue)
    confirmed.wait()


def test_confirm_basic_reject_requeue(confirmed: Confirmed, unconsumed: str) -> None:
    confirmed.many("", unconsumed)
    reject_all(confirmed, unconsumed, requeue=True)
    inbox = Inbox(confirmed.channel, unconsumed, auto_ack=True)
    inbox.wait(MANY)
    confirmed.wait()


def test_confirm_basic_recover(confirmed: Confirmed, unconsumed: str) -> None:
    confirmed.many("", unconsumed)
    for _ in range(MANY):
        assert confirmed.channel.basic_get(unconsumed)[0] is not None
    confirmed.channel.basic_recover(requeue=True)
    inbox = Inbox(confirmed.channel, unconsumed, auto_ack=True)
    inbox.wait(MANY)
    confirmed.wait()


def test_confirm_select(connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    with refused(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode"):
        channel.tx_select()
    channel = connection.channel()
    channel.tx_select()
    with refused(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode"):
        channel.confirm_delivery()


def test_confirm_wait_for_confirms(confirmed: Confirmed, consumed: str) -> None:
    """Each publish is confirmed exactly once, and no other tag is."""
    confirmed.many("", consumed)
    confirmed.wait()


def test_confirm_wait_for_confirms_without_confirm_selected(connect: Connect, queue: str) -> None:
    """Nothing is confirmed on a channel that is not in confirm mode."""
    channel = connect().channel()
    seen: list[object] = []
    channel._impl.add_callback(seen.append, [Basic.Ack], one_shot=False)
    many(channel, "", queue, 100)
    end = time.monotonic() + 5
    while channel.queue_declare(queue, passive=True).method.message_count < 100:
        assert time.monotonic() < end
    assert seen == []


def test_confirm_wait_for_confirms_exception(confirmed: Confirmed, consumed: str) -> None:
    """Closing a channel with confirms outstanding succeeds, and its connection stays open."""
    confirmed.many("", consumed)
    confirmed.channel.close()
    assert confirmed.channel.is_closed
    assert confirmed.channel.connection.is_open
