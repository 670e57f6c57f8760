"""Java's PerConsumerPrefetch and QosTests: how many messages may be unacknowledged at once."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, refused, wait_until
from conformance.amqp.java.common import drained, pause, ready, tag, temporary
from pika.adapters.blocking_connection import BlockingChannel

Deliveries = Sequence[Any]
MakeMore = Callable[[BlockingChannel, Deliveries], None]


def publish(channel: BlockingChannel, queue: str, count: int) -> None:
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number)


def consumer(channel: BlockingChannel, queue: str, prefetch: int, **how: Any) -> Inbox:
    channel.basic_qos(prefetch_count=prefetch)
    return Inbox(channel, queue, **how)


def frees(channel: BlockingChannel, make_more: MakeMore) -> None:
    """Five messages are delivered; a basic.get in between changes nothing; ``make_more`` lets five
    more come."""
    queue = temporary(channel)
    publish(channel, queue, 15)
    inbox = consumer(channel, queue, 5)
    deliveries = drained(inbox, 5)
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    drained(inbox, 0)
    make_more(channel, deliveries)
    drained(inbox, 5)


def test_per_consumer_prefetch_single_ack(channel: BlockingChannel) -> None:
    def ack(channel: BlockingChannel, deliveries: Deliveries) -> None:
        for each in deliveries:
            channel.basic_ack(tag(each))

    frees(channel, ack)


def test_per_consumer_prefetch_multi_ack(channel: BlockingChannel) -> None:
    frees(channel, lambda channel, all_: channel.basic_ack(tag(all_[-1]), multiple=True))


@pytest.mark.parametrize("requeue", [False, True])
def test_per_consumer_prefetch_single_nack(channel: BlockingChannel, requeue: bool) -> None:
    def nack(channel: BlockingChannel, deliveries: Deliveries) -> None:
        for each in deliveries:
            channel.basic_nack(tag(each), requeue=requeue)

    frees(channel, nack)


@pytest.mark.parametrize("requeue", [False, True])
def test_per_consumer_prefetch_multi_nack(channel: BlockingChannel, requeue: bool) -> None:
    frees(
        channel,
        lambda channel, all_: channel.basic_nack(tag(all_[-1]), multiple=True, requeue=requeue),
    )


def test_per_consumer_prefetch_recover(channel: BlockingChannel) -> None:
    frees(channel, lambda channel, _: channel.basic_recover(requeue=True))


def test_per_consumer_prefetch_prefetch_on_empty(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    publish(channel, queue, 5)
    inbox = consumer(channel, queue, 10)
    drained(inbox, 5)
    publish(channel, queue, 10)
    drained(inbox, 5)


def test_per_consumer_prefetch_auto_ack_ignores_prefetch(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    publish(channel, queue, 10)
    drained(consumer(channel, queue, 1, auto_ack=True), 10)


def test_per_consumer_prefetch_prefetch_zero_means_infinity(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    publish(channel, queue, 10)
    drained(consumer(channel, queue, 0), 10)


class Shared:
    """Queues bound to one fanout. Their consumers share one inbox and the channel's global
    prefetch."""

    def __init__(self, channel: BlockingChannel, exchange: str) -> None:
        self.channel = channel
        self.exchange = exchange
        self.got: list[Any] = []
        self.queues: list[str] = []
        channel.exchange_declare(exchange, "fanout")

    def limit(self, count: int, channel: BlockingChannel | None = None) -> None:
        (channel or self.channel).basic_qos(prefetch_count=count, global_qos=True)

    def queue(self) -> str:
        made = temporary(self.channel)
        self.channel.queue_bind(made, self.exchange)
        self.queues.append(made)
        return made

    def consume(self, queue: str | None = None, **how: Any) -> str:
        """Start a consumer; the result is its tag."""
        made: str = self.channel.basic_consume(queue or self.queue(), self._take, **how)
        return made

    def fill(self, count: int) -> None:
        for number in range(count):
            self.channel.basic_publish(self.exchange, "", b"%d" % number)

    def drain(self, count: int) -> list[Any]:
        """Exactly ``count`` deliveries come; they are returned and forgotten."""
        wait_until(self.channel.connection, lambda: len(self.got) >= count)
        pause(self.channel, 80)
        seen, self.got = self.got, []
        assert len(seen) == count, f"expected {count} deliveries, got {len(seen)}"
        return seen

    def configure(self, limit: int, messages: int, queues: int = 1) -> None:
        self.limit(limit)
        for _ in range(queues):
            self.consume()
        self.fill(messages)

    def ack(self, deliveries: Deliveries, *, multiple: bool = False) -> None:
        for each in deliveries[-1:] if multiple else deliveries:
            self.channel.basic_ack(tag(each), multiple=multiple)

    def _take(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.got.append((method, properties, body))


@pytest.fixture
def shared(channel: BlockingChannel, name: Named) -> Shared:
    return Shared(channel, name("fanout"))


def test_qos_tests_message_limit_prefetch_size_fails(connect: Connect) -> None:
    channel = connect().channel()
    with refused(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1000)", connection=True):
        channel.basic_qos(prefetch_size=1000)


def test_qos_tests_message_limit_unlimited(shared: Shared) -> None:
    shared.configure(0, 2)
    shared.drain(2)


def test_qos_tests_no_ack_no_alter_limit(shared: Shared) -> None:
    shared.consume(auto_ack=True)
    shared.limit(1)
    shared.fill(2)
    shared.drain(2)


def test_qos_tests_no_ack_obeys_limit(channel: BlockingChannel, shared: Shared) -> None:
    """A consumer without acknowledgements waits too while the channel's prefetch is used up."""
    shared.limit(1)
    shared.consume()
    shared.fill(1)
    other = Inbox(channel, shared.queue(), auto_ack=True)
    shared.fill(1)
    first = shared.drain(1)
    assert other.got == []
    shared.ack(first)
    shared.ack(shared.drain(1))
    other.wait(1)


@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize("transactional", [True, False], ids=["tx", ""])
@pytest.mark.parametrize("multiple", [False, True], ids=["", "multiple"])
@pytest.mark.parametrize("limit", [1, 2])
def test_qos_tests_permutations(
    shared: Shared, limit: int, multiple: bool, transactional: bool, queues: int
) -> None:
    channel = shared.channel
    shared.configure(limit, 2 * limit + queues + 1, queues)
    if transactional:
        channel.tx_select()
    deliveries = shared.drain(limit)
    fetched = [channel.basic_get(queue)[0].delivery_tag for queue in shared.queues]
    shared.ack(deliveries, multiple=multiple)
    if transactional:
        shared.drain(0)
        channel.tx_rollback()
        shared.drain(0)
        shared.ack(deliveries, multiple=True)
        channel.tx_commit()
    shared.drain(limit)
    for each in fetched:
        channel.basic_ack(each)
    if transactional:
        channel.tx_commit()
    shared.drain(0)


def test_qos_tests_fairness(shared: Shared) -> None:
    """No queue is starved while others have messages."""
    count = 100
    shared.configure(1, count, 3)
    for _ in range(count - 1):
        wait_until(shared.channel.connection, lambda: shared.got)
        (only,) = shared.got
        shared.got.clear()
        shared.ack([only])
    assert all(ready(shared.channel, queue) < count for queue in shared.queues)


def test_qos_tests_single_channel_and_queue_fairness(shared: Shared) -> None:
    shared.limit(1)
    queue = shared.queue()
    for name in ("c1", "c2"):
        shared.consume(queue, consumer_tag=name)
    shared.fill(10)
    counts: Counter[str] = Counter()
    for _ in range(10):
        wait_until(shared.channel.connection, lambda: shared.got)
        (only,) = shared.got
        shared.got.clear()
        counts[only[0].consumer_tag] += 1
        shared.ack([only])
    assert set(counts) == {"c1", "c2"}


def test_qos_tests_consumer_lifecycle(shared: Shared) -> None:
    """The messages of a cancelled consumer still count."""
    shared.limit(1)
    queue = shared.queue()
    shared.fill(3)
    for _ in range(2):
        name = shared.consume(queue)
        deliveries = shared.drain(1)
        shared.channel.basic_cancel(name)
        shared.drain(0)
        shared.ack(deliveries, multiple=True)
        shared.drain(0)


def test_qos_tests_set_limit_after_consume(shared: Shared) -> None:
    shared.consume()
    shared.limit(1)
    shared.fill(3)
    shared.ack(shared.drain(1), multiple=True)
    shared.drain(1)


def test_qos_tests_limit_increase(shared: Shared) -> None:
    shared.configure(1, 3)
    shared.drain(1)
    shared.limit(2)
    shared.drain(1)


def test_qos_tests_limit_decrease(shared: Shared) -> None:
    shared.configure(2, 4)
    deliveries = shared.drain(2)
    shared.limit(1)
    shared.drain(0)
    shared.ack(deliveries, multiple=True)
    shared.drain(1)


def test_qos_tests_limited_to_unlimited(shared: Shared) -> None:
    shared.configure(1, 3)
    shared.drain(1)
    shared.limit(0)
    shared.drain(2)


def test_qos_tests_limiting_multiple_channels(connect: Connect, name: Named) -> None:
    connection = connect()
    exchange = name("fanout")
    first, second = (Shared(connection.channel(), exchange) for _ in range(2))
    for each in (first, second):
        each.consume()
    first.consume(second.queues[0])
    second.consume(first.queues[0])
    for each in (first, second):
        each.limit(1)
    first.fill(5)
    for each in (first, second):
        each.ack(each.drain(1), multiple=True)
    for each in (first, second):
        each.drain(1)


def test_qos_tests_limit_inherits_unacked_count(shared: Shared) -> None:
    shared.consume()
    shared.fill(1)
    shared.drain(1)
    shared.limit(2)
    shared.fill(2)
    shared.drain(1)


def test_qos_tests_recover_reduces_limit(shared: Shared) -> None:
    shared.limit(2)
    shared.consume()
    shared.fill(3)
    shared.drain(2)
    shared.channel.basic_recover(requeue=True)
    shared.drain(2)
