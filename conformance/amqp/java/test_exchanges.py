"""Java's BindingLifecycle, DoubleDeletion, DurableOnTransient, Exchange* and Nowait: what is
declared, what is deleted along with something else, and what stays."""

import itertools
from collections.abc import Callable

import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, Inbox, refused
from conformance.amqp.java.common import got, inequivalent, no_exchange, temporary
from pika.adapters.blocking_connection import BlockingChannel


@pytest.fixture
def exchange(name: Named) -> str:
    return name("exchange")


def bound(
    channel: BlockingChannel, exchange: str, queue: str, *, durable: bool = False
) -> Callable[[], bytes | None]:
    """Declare both and bind them. The result is a function that publishes a message and returns
    what the queue received."""
    channel.exchange_declare(exchange, "direct", durable=durable)
    channel.queue_declare(queue, durable=durable)
    channel.queue_bind(queue, exchange, "k")

    def routed() -> bytes | None:
        channel.basic_publish(exchange, "k", b"x")
        return got(channel, queue)

    return routed


def test_binding_lifecycle_queue_purge(channel: BlockingChannel, exchange: str, queue: str) -> None:
    bound(channel, exchange, queue, durable=True)
    channel.basic_publish(exchange, "k", b"x")
    channel.queue_purge(queue)
    assert got(channel, queue) is None


def test_binding_lifecycle_unacked_purge(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    bound(channel, exchange, queue, durable=True)
    channel.basic_publish(exchange, "k", b"x")
    assert not channel.basic_get(queue)[0].redelivered
    channel.queue_purge(queue)
    assert got(channel, queue) is None
    channel.basic_recover(requeue=True)
    assert channel.basic_get(queue)[0].redelivered
    channel.basic_recover(requeue=True)
    channel.queue_purge(queue)
    assert got(channel, queue) is None


def test_binding_lifecycle_exchange_delete(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    routed = bound(channel, exchange, queue, durable=True)
    assert routed() == b"x"
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "direct")
    assert routed() is None


def test_binding_lifecycle_exchange_if_unused(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    bound(channel, exchange, queue, durable=True)
    with refused(406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"):
        channel.exchange_delete(exchange, if_unused=True)


def gone_with_its_consumer(channel: BlockingChannel, exchange: str, queue: str) -> None:
    """The queue is deleted when its last consumer is cancelled, and its binding with it."""
    channel.queue_declare(queue, auto_delete=True)
    channel.queue_bind(queue, exchange, "k")
    channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))
    channel.queue_declare(queue, exclusive=True)


def test_binding_lifecycle_exchange_auto_delete(
    channel: BlockingChannel, exchange: str, name: Named
) -> None:
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    queue = name("queue")
    gone_with_its_consumer(channel, exchange, queue)
    with refused(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.queue_bind(queue, exchange, "k")


def test_binding_lifecycle_exchange_auto_delete_many_bindings(
    channel: BlockingChannel, exchange: str, name: Named
) -> None:
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    for _ in range(9):
        channel.queue_bind(temporary(channel), exchange, "k")
    queue = name("queue")
    gone_with_its_consumer(channel, exchange, queue)
    channel.queue_bind(queue, exchange, "k")
    channel.basic_publish(exchange, "k", b"x")
    assert got(channel, queue) == b"x"


def test_binding_lifecycle_exchange_passive_declare(
    channel: BlockingChannel, exchange: str
) -> None:
    channel.exchange_declare(exchange, "direct")
    channel.exchange_declare(exchange, passive=True)
    with refused(404, "NOT_FOUND - no exchange 'unknown_exchange' in vhost '/'"):
        channel.exchange_declare("unknown_exchange", passive=True)


@pytest.mark.parametrize("standard", ["amq.fanout", "amq.direct", "amq.topic", "amq.headers"])
def test_binding_lifecycle_unbind(channel: BlockingChannel, standard: str) -> None:
    queue = temporary(channel)
    for of, source, key in (
        ("unknown_queue", standard, "quay"),
        (queue, "unknown_exchange", "quay"),
        ("unknown_unknown", "exchange_queue", "quay"),
        (queue, standard, "unknown_rk"),
        ("unknown_queue", "unknown_exchange", "unknown_rk"),
    ):
        channel.queue_unbind(of, source, key)
    channel.queue_bind(queue, standard, "quay")
    channel.basic_publish(standard, "quay", b"x")
    assert got(channel, queue) == b"x"
    channel.queue_unbind(queue, standard, "quay")
    channel.basic_publish(standard, "quay", b"x")
    assert got(channel, queue) is None


def test_double_deletion_double_deletion_queue(channel: BlockingChannel, queue: str) -> None:
    for _ in range(2):
        channel.queue_delete(queue)


def test_double_deletion_double_deletion_exchange(channel: BlockingChannel, exchange: str) -> None:
    channel.exchange_declare(exchange, "direct")
    for _ in range(2):
        channel.exchange_delete(exchange)


def test_durable_on_transient_bind_durable_to_transient(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(queue, exchange, "")
    channel.basic_publish(exchange, "", b"persistent message", PERSISTENT)
    assert got(channel, queue) == b"persistent message"


def test_exchange_declare_exchange_no_args_equivalence(
    channel: BlockingChannel, exchange: str
) -> None:
    for _ in range(2):
        channel.exchange_declare(exchange, "direct")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("{0}\n", id="singleLineFeed"),
        pytest.param("\n{0}\n", id="multipleLineFeeds"),
        pytest.param("\n\r{0}\n\r", id="multipleLineFeedAndCarriageReturns"),
    ],
)
def test_exchange_declare_line_feeds_stripped_from_exchange_name(
    channel: BlockingChannel, exchange: str, broken: str
) -> None:
    half = len(exchange) // 2
    written = broken.format(exchange[:half]) + broken.format(exchange[half:])
    channel.exchange_declare(written, "direct")
    channel.exchange_declare(exchange, passive=True)
    channel.exchange_declare(exchange, "direct")


def test_exchange_declare_exchange_nonsense_args_equivalent(
    channel: BlockingChannel, exchange: str
) -> None:
    channel.exchange_declare(exchange, "direct")
    arguments = {"nonsensical-argument-surely-not-in-use": "foo"}
    channel.exchange_declare(exchange, "direct", arguments=arguments)


def test_exchange_declare_exchange_durable_not_equivalent(
    channel: BlockingChannel, exchange: str
) -> None:
    channel.exchange_declare(exchange, "direct")
    with refused(406, inequivalent("exchange", exchange, "durable", "true", "false")):
        channel.exchange_declare(exchange, "direct", durable=True)


def test_exchange_declare_exchange_type_not_equivalent(
    channel: BlockingChannel, exchange: str
) -> None:
    channel.exchange_declare(exchange, "direct")
    with refused(406, inequivalent("exchange", exchange, "type", "fanout", "direct")):
        channel.exchange_declare(exchange, "fanout")


def test_exchange_declare_exchange_auto_delete_not_equivalent(
    channel: BlockingChannel, exchange: str
) -> None:
    channel.exchange_declare(exchange, "direct")
    with refused(406, inequivalent("exchange", exchange, "auto_delete", "true", "false")):
        channel.exchange_declare(exchange, "direct", auto_delete=True)


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_exchange_declare_exchange_declared_with_enumeration_equivalent(
    channel: BlockingChannel, exchange: str, kind: str
) -> None:
    for _ in range(2):
        channel.exchange_declare(exchange, kind)
    channel.exchange_delete(exchange)
    channel._impl.exchange_declare(exchange, kind)
    channel.exchange_declare(exchange, kind)


def test_exchange_delete_if_unused_exchange_delete(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(queue, exchange)
    with refused(406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"):
        channel.exchange_delete(exchange, if_unused=True)


@pytest.mark.parametrize("standard", ["amq.fanout", "amq.rabbitmq.trace"])
def test_exchange_delete_predeclared_deleting_predeclared_amq_exchange(
    channel: BlockingChannel, standard: str
) -> None:
    text = f"ACCESS_REFUSED - deletion of system exchange '{standard}' in vhost '/' not allowed"
    with refused(403, text):
        channel.exchange_delete(standard)


class Net:
    """Three fanouts with a queue each, and a consumer on each queue."""

    def __init__(self, channel: BlockingChannel, name: Named) -> None:
        self.channel = channel
        self.exchanges = [name("e") for _ in range(3)]
        self.queues = [name("q") for _ in range(3)]
        for exchange, queue in zip(self.exchanges, self.queues, strict=True):
            channel.exchange_declare(exchange, "fanout")
            channel.queue_declare(queue)
            channel.queue_bind(queue, exchange)
        self.inboxes = [Inbox(channel, queue, auto_ack=True) for queue in self.queues]
        self._bodies = (b"%d" % number for number in itertools.count())

    def bind(self, destination: int, source: int) -> None:
        self.channel.exchange_bind(self.exchanges[destination], self.exchanges[source], "")

    def reaches(self, exchange: str, key: str, *queues: int) -> None:
        """A message arrives exactly once in each of these queues: directly behind it comes the next
        one, and other queues receive nothing."""
        bodies = [next(self._bodies) for _ in range(2)]
        for body in bodies:
            self.channel.basic_publish(exchange, key, body)
        for queue in queues:
            assert self.inboxes[queue].wait(2) == bodies
            self.inboxes[queue].got.clear()
        assert all(not inbox.got for inbox in self.inboxes)


@pytest.fixture
def net(channel: BlockingChannel, name: Named) -> Net:
    return Net(channel, name)


def test_exchange_exchange_bindings_binding_creation_deletion(net: Net) -> None:
    _, e1, e2 = net.exchanges
    for action in ("unbind", "bind", "bind", "unbind", "unbind"):
        getattr(net.channel, f"exchange_{action}")(e2, e1, "")


def test_exchange_exchange_bindings_simple_chains(net: Net) -> None:
    net.reaches(net.exchanges[0], "", 0)
    net.bind(0, 1)
    net.reaches(net.exchanges[1], "", 0, 1)
    net.bind(1, 2)
    net.reaches(net.exchanges[2], "", 0, 1, 2)


def test_exchange_exchange_bindings_duplicate_queue_destinations(net: Net) -> None:
    net.channel.queue_bind(net.queues[1], net.exchanges[0])
    net.reaches(net.exchanges[0], "", 0, 1)
    net.bind(0, 1)
    net.reaches(net.exchanges[1], "", 0, 1)


def test_exchange_exchange_bindings_exchange_routing_loop(net: Net) -> None:
    for destination, source in ((0, 1), (1, 2), (2, 0)):
        net.bind(destination, source)
    for exchange in net.exchanges:
        net.reaches(exchange, "", 0, 1, 2)


def test_exchange_exchange_bindings_topic_exchange(net: Net, name: Named) -> None:
    topic, direct = name("topic"), name("direct")
    channel = net.channel

    def all_reached() -> None:
        for number, exchange in enumerate(net.exchanges):
            net.reaches(topic, exchange, number)

    channel.exchange_declare(topic, "topic")
    for exchange in net.exchanges:
        channel.exchange_bind(exchange, topic, exchange)
    all_reached()
    channel.exchange_declare(direct, "direct")
    channel.exchange_bind(direct, topic, "#")
    for exchange in net.exchanges:
        channel.exchange_bind(exchange, direct, exchange)
    all_reached()
    for exchange in net.exchanges:
        channel.exchange_unbind(exchange, topic, exchange)
    all_reached()


def passing(channel: BlockingChannel, name: Named, letters: str) -> dict[str, str]:
    """Auto-delete fanouts, one for each letter."""
    made = {letter: name(letter) for letter in letters}
    for exchange in made.values():
        channel.exchange_declare(exchange, "fanout", auto_delete=True)
    return made


def all_gone(channel: BlockingChannel, made: dict[str, str]) -> bool:
    return all(no_exchange(channel, exchange) for exchange in made.values())


def test_exchange_exchange_bindings_auto_delete_auto_delete_exchanges_simple_loop(
    channel: BlockingChannel, name: Named
) -> None:
    made = passing(channel, name, "AB")
    channel.exchange_bind(made["A"], made["B"], "")
    channel.exchange_bind(made["B"], made["A"], "")
    channel.exchange_unbind(made["A"], made["B"], "")
    assert all_gone(channel, made)


def test_exchange_exchange_bindings_auto_delete_transient_auto_delete(
    channel: BlockingChannel, name: Named
) -> None:
    made = passing(channel, name, "ABCD")
    for source, destination in itertools.pairwise("ABCD"):
        channel.exchange_bind(made[destination], made[source], "")
    channel.exchange_delete(made["D"])
    assert all_gone(channel, made)


def test_exchange_exchange_bindings_auto_delete_repeated_target_auto_delete(
    channel: BlockingChannel, name: Named
) -> None:
    made = passing(channel, name, "ABCDS")
    for source, destination in itertools.pairwise("ABCD"):
        channel.exchange_bind(made[destination], made[source], "")
    for destination in "ABCD":
        channel.exchange_bind(made[destination], made["S"], "")
    channel.exchange_delete(made["A"])
    channel.exchange_declare(made["S"], "fanout", auto_delete=True)
    channel.exchange_delete(made["D"])
    assert all_gone(channel, made)


def test_exchange_exchange_bindings_auto_delete_auto_delete_binding_to_vanished_exchange(
    channel: BlockingChannel, name: Named
) -> None:
    made = passing(channel, name, "ABC")
    for source, destination in ("BC", "AB", "AC"):
        channel.exchange_bind(made[destination], made[source], "")
    channel.exchange_delete(made["C"])
    assert all_gone(channel, made)


def test_unbind_auto_delete_exchange_unbind(
    channel: BlockingChannel, exchange: str, queue: str
) -> None:
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.queue_bind(queue, exchange)
    channel.queue_unbind(queue, exchange)
    with refused(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, passive=True)


class Unanswered:
    """Sends methods with nowait: pika sets that bit when it is given no callback."""

    def __init__(self, connect: Connect) -> None:
        self.channel = connect().channel()
        self.impl = self.channel._impl


@pytest.fixture
def nowait(connect: Connect) -> Unanswered:
    return Unanswered(connect)


def test_nowait_queue_declare_with_nowait(nowait: Unanswered, name: Named) -> None:
    queue = name("queue")
    nowait.impl.queue_declare(queue, exclusive=True, auto_delete=True)
    nowait.channel.queue_declare(queue, passive=True)


def test_nowait_queue_bind_with_nowait(nowait: Unanswered, name: Named) -> None:
    queue = name("queue")
    nowait.impl.queue_declare(queue, exclusive=True, auto_delete=True)
    nowait.impl.queue_bind(queue, "amq.fanout")
    nowait.channel.basic_publish("amq.fanout", "", b"x")
    assert got(nowait.channel, queue) == b"x"


def test_nowait_exchange_declare_with_nowait(nowait: Unanswered, exchange: str) -> None:
    nowait.impl.exchange_declare(exchange, "fanout")
    nowait.channel.exchange_declare(exchange, passive=True)


def test_nowait_exchange_bind_with_nowait(nowait: Unanswered, exchange: str, queue: str) -> None:
    nowait.impl.exchange_declare(exchange, "fanout")
    nowait.impl.exchange_bind(exchange, "amq.fanout")
    nowait.channel.queue_bind(queue, exchange)
    nowait.channel.basic_publish("amq.fanout", "", b"x")
    assert got(nowait.channel, queue) == b"x"


def test_nowait_exchange_unbind_with_nowait(nowait: Unanswered, exchange: str, queue: str) -> None:
    nowait.channel.exchange_declare(exchange, "fanout")
    nowait.channel.queue_bind(queue, exchange)
    nowait.channel.exchange_bind(exchange, "amq.fanout")
    nowait.impl.exchange_unbind(exchange, "amq.fanout")
    nowait.channel.basic_publish("amq.fanout", "", b"x")
    assert got(nowait.channel, queue) is None


def test_nowait_queue_delete_with_nowait(nowait: Unanswered, name: Named) -> None:
    queue = name("queue")
    nowait.impl.queue_declare(queue, exclusive=True, auto_delete=True)
    nowait.impl.queue_delete(queue)
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        nowait.channel.queue_declare(queue, passive=True)


def test_nowait_exchange_delete_with_nowait(nowait: Unanswered, exchange: str) -> None:
    nowait.impl.exchange_declare(exchange, "fanout")
    nowait.impl.exchange_delete(exchange)
    with refused(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        nowait.channel.exchange_declare(exchange, passive=True)
