"""Java's ConnectionRecovery, TopologyRecoveryFiltering and TopologyRecoveryRetry: a client whose
connection breaks reconnects and declares everything again. A small recovering client of our own
suffices here, because what matters is what it finds at the broker: nothing that belonged to the old
connection, and everything that did not.
"""

import socket
import time
from collections.abc import Callable
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import WITHIN_S, Inbox, refused, wait_until
from conformance.amqp.java.common import got, no_exchange, ready, temporary, wait_gone, wait_ready
from conformance.brokers.process import Broker
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker

Step = Callable[[BlockingChannel], Any]


class Recovering:
    """A client that remembers its steps and repeats them on its next connection."""

    def __init__(self, connect: Connect, **parameters: Any) -> None:
        self._connect = connect
        self._parameters = parameters
        self.steps: list[Step] = []
        self._open()

    def do(self, step: Step) -> Any:
        """Do this step now and after each recovery."""
        self.steps.append(step)
        return step(self.channel)

    def undo(self, step: Step, undoing: Step) -> None:
        """Undo a step, which will not be repeated."""
        self.steps.remove(step)
        undoing(self.channel)

    def lose(self) -> None:
        """Break the connection abruptly, then reconnect and repeat the steps."""
        drop(self.connection)
        self.recover()

    def recover(self) -> None:
        end = time.monotonic() + WITHIN_S
        self._open()
        remaining = list(self.steps)
        while remaining:
            try:
                remaining[0](self.channel)
                del remaining[0]
            except ChannelClosedByBroker as error:
                if error.reply_code not in (404, 405) or time.monotonic() > end:
                    raise
                # 405: the old connection's exclusive objects may not be deleted yet; try again, as
                # clients do. 404: an auto-delete object may still be deleted after we declared it,
                # when the old connection's consumers are removed; start again from the first step,
                # as Java's client does with a retry handler.
                if error.reply_code == 404:
                    self.connection.close()
                    self._open()
                    remaining = list(self.steps)
                else:
                    self.channel = self.connection.channel()

    def _open(self) -> None:
        self.connection = self._connect(**self._parameters)
        self.channel: BlockingChannel = self.connection.channel()


def drop(connection: pika.BlockingConnection) -> None:
    """Break the connection as a network failure would."""
    connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(AMQPError):
        connection.sleep(WITHIN_S)


@pytest.fixture
def client(connect: Connect) -> Recovering:
    return Recovering(connect)


def declares(queue: str, **how: Any) -> Step:
    return lambda channel: channel.queue_declare(queue, **how)


def binds(queue: str, exchange: str, key: str = "") -> Step:
    return lambda channel: channel.queue_bind(queue, exchange, key)


def makes(exchange: str, kind: str = "fanout", **how: Any) -> Step:
    return lambda channel: channel.exchange_declare(exchange, kind, **how)


def routed(channel: BlockingChannel, exchange: str, key: str, queue: str) -> bool:
    """Whether a message published to the exchange reaches the queue."""
    channel.basic_publish(exchange, key, b"msg")
    return got(channel, queue) == b"msg"


def test_connection_recovery_connection_recovery(client: Recovering) -> None:
    client.lose()
    assert client.connection.is_open


def test_connection_recovery_named_connection_recovery(connect: Connect) -> None:
    client = Recovering(connect, client_properties={"connection_name": "custom name"})
    client.lose()
    assert client.connection.is_open


def test_connection_recovery_connection_recovery_with_server_restart(own_broker: Broker) -> None:
    """Transient queues are bound again and receive messages when their client has recovered."""

    def connect(**_: Any) -> pika.BlockingConnection:
        address = own_broker.address
        return pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port))

    client = Recovering(connect)
    names: list[str] = []

    def server_named(channel: BlockingChannel) -> None:
        names.append(channel.queue_declare("", auto_delete=True).method.queue)
        channel.queue_bind(names[-1], "tmp-fanout")

    client.do(makes("tmp-fanout"))
    client.do(declares("client-named", auto_delete=True))
    client.do(binds("client-named", "tmp-fanout"))
    client.do(server_named)
    own_broker.stop()
    with pytest.raises(AMQPError):
        client.connection.sleep(WITHIN_S)
    own_broker.start()
    client.recover()
    assert names[0] != names[1]
    client.channel.confirm_delivery()
    client.channel.basic_publish("tmp-fanout", "", b"msg")
    assert [ready(client.channel, queue) for queue in ("client-named", names[1])] == [1, 1]
    client.connection.close()


def test_connection_recovery_connection_recovery_with_disabled_topology_recovery(
    client: Recovering, name: Named
) -> None:
    queue = name("queue")
    client.channel.queue_declare(queue, exclusive=True)
    client.lose()
    with pytest.raises(ChannelClosedByBroker) as caught:
        wait_until(
            client.connection, lambda: client.channel.queue_declare(queue, passive=True) and False
        )
    assert caught.value.reply_code in (404, 405)


def test_connection_recovery_channel_recovery(client: Recovering) -> None:
    client.do(lambda channel: channel.connection.channel(5))
    client.lose()
    assert client.connection.channel(6).is_open


def test_connection_recovery_return_listener_recovery(client: Recovering) -> None:
    returned: list[Any] = []
    client.do(lambda channel: channel.add_on_return_callback(lambda *all_: returned.append(all_)))
    client.lose()
    client.channel.basic_publish("", "unknown", b"mandatory1", mandatory=True)
    wait_until(client.connection, lambda: returned)


def test_connection_recovery_confirm_listener_recovery(client: Recovering, queue: str) -> None:
    client.do(lambda channel: channel.confirm_delivery())
    client.channel.basic_publish("", queue, b"1")
    client.lose()
    client.channel.basic_publish("", queue, b"2")
    assert [got(client.channel, queue) for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize("nowait", [False, True], ids=["", "nowait"])
def test_connection_recovery_exchange_recovery(
    client: Recovering, name: Named, nowait: bool
) -> None:
    exchange = name("exchange")
    if nowait:
        client.do(lambda channel: channel._impl.exchange_declare(exchange, "fanout"))
    else:
        client.do(makes(exchange))
    client.lose()
    queue = temporary(client.channel)
    client.channel.queue_bind(queue, exchange, "routing-key")
    assert routed(client.channel, exchange, "routing-key", queue)


@pytest.mark.parametrize("nowait", [False, True], ids=["", "nowait"])
def test_connection_recovery_client_named_queue_recovery(
    client: Recovering, name: Named, nowait: bool
) -> None:
    queue = name("queue")
    if nowait:
        client.do(lambda channel: channel._impl.queue_declare(queue, durable=True))
    else:
        client.do(declares(queue, durable=True))
    client.lose()
    assert client.channel.queue_declare(queue, durable=True).method.message_count == 0
    assert routed(client.channel, "", queue, queue)


def test_connection_recovery_client_named_queue_binding_recovery(
    client: Recovering, name: Named
) -> None:
    queue, exchange = name("queue"), name("exchange")
    client.do(makes(exchange))
    client.do(declares(queue, durable=True, auto_delete=True))
    client.do(binds(queue, exchange))
    client.lose()
    client.channel.queue_purge(queue)
    assert routed(client.channel, exchange, "", queue)


MANY = 150


def used_up(channel: BlockingChannel, name: Callable[[], str], kind: str) -> str:
    """Declare something that is deleted automatically, and have that happen; the result is its
    name."""
    made, other = name(), name()
    if kind == "QueuesWithTransientConsumer":
        channel.queue_declare(made, auto_delete=True)
        channel.basic_cancel(channel.basic_consume(made, lambda *_: None, auto_ack=True))
        return made
    channel.exchange_declare(made, "fanout", auto_delete=True)
    if "TransientQueues" in kind:
        queue = temporary(channel)
        channel.queue_bind(queue, made)
        if kind.endswith("Unbound"):
            channel.queue_unbind(queue, made)
        channel.queue_delete(queue)
    else:
        channel.exchange_declare(other, "fanout", auto_delete=True)
        channel.exchange_bind(other, made, "")
        if kind.endswith("Unbound"):
            channel.exchange_unbind(other, made, "")
        channel.exchange_delete(other)
    return made


@pytest.mark.parametrize(
    "kind",
    [
        "QueuesWithTransientConsumer",
        "ExchangesWithTransientQueuesThatAreUnbound",
        "ExchangesWithTransientQueuesThatAreDeleted",
        "ExchangesWithTransientExchangesThatAreUnbound",
        "ExchangesWithTransientExchangesThatAreDeleted",
    ],
)
def test_connection_recovery_declaration_of_many_auto_delete(
    connect: Connect, name: Named, kind: str
) -> None:
    """Nothing of it remains."""
    channel = connect().channel()
    stem = name("auto")
    numbers = iter(range(10 * MANY))
    made = [used_up(channel, lambda: f"{stem}-{next(numbers)}", kind) for _ in range(MANY)]
    for each in (made[0], made[MANY // 2], made[-1]):
        if kind.startswith("Queues"):
            wait_gone(connect, each)
        else:
            assert no_exchange(channel, each)


def test_connection_recovery_server_named_queue_recovery(client: Recovering) -> None:
    names: list[str] = []

    def server_named(channel: BlockingChannel) -> None:
        names.append(temporary(channel))
        channel.queue_bind(names[-1], "amq.fanout")

    client.do(server_named)
    client.lose()
    assert names[0] != names[1]
    assert routed(client.channel, "amq.fanout", "", names[1])


@pytest.fixture
def chained(client: Recovering, name: Named) -> dict[str, Any]:
    """An exchange bound to another, with a queue behind the second."""
    first, second, queue = name("first"), name("second"), name("queue")
    made = {
        "first": first,
        "queue": queue,
        "bind": binds(queue, second),
        "exchange_bind": lambda channel: channel.exchange_bind(second, first, ""),
        "unbind": lambda channel: channel.queue_unbind(queue, second, ""),
        "exchange_unbind": lambda channel: channel.exchange_unbind(second, first, ""),
    }
    for step in (makes(first), makes(second), declares(queue), made["bind"], made["exchange_bind"]):
        client.do(step)
    return made


def test_connection_recovery_exchange_to_exchange_binding_recovery(
    client: Recovering, chained: dict[str, Any]
) -> None:
    client.lose()
    assert routed(client.channel, chained["first"], "", chained["queue"])


@pytest.mark.parametrize("kind", ["bind", "exchange_bind"], ids=["Queue", "Exchange"])
def test_connection_recovery_that_deleted_bindings_dont_reappear_on_recovery(
    client: Recovering, chained: dict[str, Any], kind: str
) -> None:
    client.undo(chained[kind], chained[kind.replace("bind", "unbind")])
    client.lose()
    assert not routed(client.channel, chained["first"], "", chained["queue"])


@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_connection_recovery_that_deleted_does_not_reappear_on_recover(
    client: Recovering, name: Named, kind: str
) -> None:
    made = name(kind)
    step = declares(made) if kind == "queue" else makes(made)
    client.do(step)
    client.undo(step, lambda channel: getattr(channel, f"{kind}_delete")(made))
    client.lose()
    with refused(404, f"NOT_FOUND - no {kind} '{made}' in vhost '/'"):
        getattr(client.channel, f"{kind}_declare")(made, passive=True)


def consumers(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.consumer_count)


def wait_consumers(client: Recovering, queue: str, count: int) -> None:
    """Wait until consumers of the lost connection are no longer counted, and ours are."""
    wait_until(client.connection, lambda: consumers(client.channel, queue) == count)


def test_connection_recovery_that_cancelled_consumer_does_not_reappear_on_recover(
    client: Recovering, queue: str
) -> None:
    tag = client.channel.basic_consume(queue, lambda *_: None)
    assert consumers(client.channel, queue) == 1
    client.channel.basic_cancel(tag)
    client.lose()
    wait_consumers(client, queue, 0)


def test_connection_recovery_consumer_recovery_with_many_consumers(
    client: Recovering, queue: str
) -> None:
    count = 1024

    def consume(channel: BlockingChannel) -> None:
        for number in range(count):
            channel.basic_consume(queue, lambda *_: None, consumer_tag=f"c{number}")

    client.do(consume)
    wait_consumers(client, queue, count)
    client.lose()
    wait_consumers(client, queue, count)


def test_connection_recovery_subsequent_recoveries_with_client_named_queue(
    client: Recovering, queue: str
) -> None:
    client.do(lambda channel: channel.basic_consume(queue, lambda *_: None))
    for _ in range(10):
        wait_consumers(client, queue, 1)
        client.lose()
    wait_consumers(client, queue, 1)


def test_connection_recovery_queue_recovery_with_many_queues(
    client: Recovering, name: Named
) -> None:
    stem = name("many")
    queues = [f"{stem}-{number}" for number in range(64)]
    for queue in queues:
        client.do(declares(queue, durable=True))
    client.lose()
    for queue in queues:
        assert routed(client.channel, "", queue, queue)
        client.channel.queue_delete(queue)


def test_connection_recovery_basic_ack_after_channel_recovery(
    client: Recovering, connect: Connect, queue: str
) -> None:
    """Deliveries of the lost connection come again, but only those that were not acknowledged."""
    inboxes: list[Inbox] = []
    client.do(lambda channel: inboxes.append(Inbox(channel, queue)))
    sender = connect().channel()
    for number in range(5):
        sender.basic_publish("", queue, b"%d" % number)
    inboxes[0].wait(5)
    client.channel.basic_ack(inboxes[0].tags[3], multiple=True)
    client.channel.basic_qos(prefetch_count=0)
    client.lose()
    assert inboxes[1].wait(1) == [b"4"]
    assert inboxes[1].got[0][0].redelivered
    client.channel.basic_ack(inboxes[1].tags[0])
    client.channel.close()
    assert ready(sender, queue) == 0


def test_topology_recovery_filtering_topology_recovery_filtering_exchanges_and_queues(
    client: Recovering, channel: BlockingChannel, name: Named
) -> None:
    kept, left = name("kept"), name("left")
    for made in (kept, left):
        client.do(makes(made, "direct"))
        client.do(declares(made, exclusive=True, auto_delete=True))
    del client.steps[2:]
    for made in (kept, left):
        channel.exchange_delete(made)
    client.lose()
    assert not no_exchange(client.channel, kept)
    assert no_exchange(client.channel, left)
    client.channel.queue_declare(kept, passive=True)
    with pytest.raises(ChannelClosedByBroker):
        client.channel.queue_declare(left, passive=True)


def test_topology_recovery_filtering_topology_recovery_filtering_bindings(
    client: Recovering, channel: BlockingChannel, name: Named
) -> None:
    exchange, kept, left = name("exchange"), name("kept"), name("left")
    client.do(makes(exchange, "direct"))
    for queue in (kept, left):
        client.do(declares(queue))
        client.do(binds(queue, exchange, queue))
    del client.steps[-1]
    for queue in (kept, left):
        channel.queue_unbind(queue, exchange, queue)
    client.lose()
    assert routed(client.channel, exchange, kept, kept)
    assert not routed(client.channel, exchange, left, left)


def test_topology_recovery_filtering_topology_recovery_filtering_consumers(
    client: Recovering, name: Named
) -> None:
    kept, left = name("kept"), name("left")
    inboxes: list[Inbox] = []
    for queue in (kept, left):
        client.do(declares(queue))
        client.do(
            lambda channel, queue=queue: inboxes.append(  # type: ignore[misc]
                Inbox(channel, queue, auto_ack=True)
            )
        )
    del client.steps[-1]
    client.lose()
    for queue in (kept, left):
        client.channel.basic_publish("", queue, b"x")
    assert inboxes[2].wait(1) == [b"x"]
    wait_ready(client.channel, left, 1)


def test_topology_recovery_retry_topology_recovery_retry(client: Recovering, name: Named) -> None:
    """Sixty auto-delete queues are declared again, with two bindings each."""
    stem = name("retry")
    queues = [f"{stem}-{number}" for number in range(60)]
    for queue in queues:
        client.do(declares(queue, durable=True, auto_delete=True))
        for key in (queue, queue + "2"):
            client.do(binds(queue, "amq.direct", key))
        client.do(
            lambda channel, queue=queue: channel.basic_consume(  # type: ignore[misc]
                queue, lambda *_: None, auto_ack=True
            )
        )
    client.lose()
    assert client.channel.is_open
    for queue in queues:
        assert consumers(client.channel, queue) >= 1
        client.channel.queue_delete(queue)


@pytest.mark.parametrize("broken", ["Binding", "Consumer"])
def test_topology_recovery_retry_topology_recovery_failure(
    client: Recovering, connect: Connect, name: Named, broken: str
) -> None:
    """The queue is deleted in the middle of the recovery: the next step fails, and everything is
    declared again."""
    queue = name("queue")
    inboxes: list[Inbox] = []
    client.do(declares(queue, durable=True))
    client.do(binds(queue, "amq.topic", "topic1"))
    client.do(binds(queue, "amq.topic", "topic2"))
    client.do(lambda channel: inboxes.append(Inbox(channel, queue, auto_ack=True)))
    failing = 2 if broken == "Binding" else 3
    drop(client.connection)
    client._open()
    for step in client.steps[:failing]:
        step(client.channel)
    connect().channel().queue_delete(queue)
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        client.steps[failing](client.channel)
    client.connection.close()
    client.recover()
    for key in ("topic1", "topic2"):
        client.channel.basic_publish("amq.topic", key, key.encode())
    assert inboxes[-1].wait(2) == [b"topic1", b"topic2"]
