"""What survives a restart of the broker: durable objects and persistent messages, and nothing
else."""

import time
from collections.abc import Callable

import pika
import pytest
from conformance.amqp.helpers import PERSISTENT, WITHIN_S, Inbox, bodies_in, publish, take
from conformance.brokers.process import Broker
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker

ACKS_WRITTEN_S = 0.5

ENDS: dict[str, Callable[[Broker], None]] = {
    "stop": lambda broker: broker.stop(),
    "kill": lambda broker: broker.kill(),
}


@pytest.fixture(params=ENDS)
def end(request: pytest.FixtureRequest) -> Callable[[Broker], None]:
    return ENDS[request.param]


def connect(broker: Broker) -> pika.BlockingConnection:
    address = broker.address
    return pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port))


def restart(
    broker: Broker, end: Callable[[Broker], None], witness: pika.BlockingConnection
) -> None:
    """End the broker with ``end`` and start it again. The connection ``witness`` notices the end
    and closes its socket."""
    end(broker)
    with pytest.raises(AMQPError):
        witness.sleep(WITHIN_S)
    broker.start()


def exists(broker: Broker, queue: str) -> bool:
    connection = connect(broker)
    try:
        connection.channel().queue_declare(queue, passive=True)
    except ChannelClosedByBroker as error:
        assert error.reply_code == 404
        return False
    finally:
        connection.close()
    return True


def set_up(channel: BlockingChannel) -> None:
    channel.exchange_declare("kept", "topic", durable=True)
    channel.exchange_declare("lost", "fanout", durable=False)
    channel.queue_declare("orders", durable=True)
    channel.queue_bind("orders", "kept", "order.#")
    channel.queue_declare("gone", durable=False)
    channel.queue_declare("mine", exclusive=True)


def test_a_restart_keeps_what_is_durable(own_broker: Broker, end: Callable[[Broker], None]) -> None:
    """Queues, exchanges, bindings, and confirmed persistent messages in order."""
    connection = connect(own_broker)
    channel = connection.channel()
    set_up(channel)
    wanted = [b"%d" % number for number in range(300)]
    publish(channel, "orders", *wanted)
    inbox = Inbox(channel, "orders")
    inbox.wait(300)
    for tag in inbox.tags[:100]:
        channel.basic_ack(tag)
    # RabbitMQ writes these acknowledgements to the queue's journal when it confirms the next
    # publish. An idle queue's journal is written too, but on a busy machine nobody knows when.
    # Arneb needs at most 100 ms.
    publish(channel, "orders", b"later")
    connection.sleep(ACKS_WRITTEN_S)
    restart(own_broker, end, connection)

    assert [exists(own_broker, queue) for queue in ("orders", "gone", "mine")] == [
        True,
        False,
        False,
    ]
    connection = connect(own_broker)
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker):
        connection.channel().exchange_declare("lost", passive=True)
    back = Inbox(channel, "orders")
    assert back.wait(201) == [*wanted[100:], b"later"]
    assert all(method.redelivered for method, _, _ in back.got[:200])
    channel.basic_ack(0, multiple=True)
    channel.basic_cancel(back.tag)
    channel.confirm_delivery()
    channel.basic_publish("kept", "order.new", b"routed", PERSISTENT, mandatory=True)
    assert bodies_in(channel, "orders") == [b"routed"]
    connection.close()


def test_what_was_deleted_stays_deleted(own_broker: Broker, end: Callable[[Broker], None]) -> None:
    connection = connect(own_broker)
    channel = connection.channel()
    set_up(channel)
    publish(channel, "orders", b"x")
    channel.queue_purge("orders")
    channel.queue_unbind("orders", "kept", "order.#")
    channel.queue_declare("other", durable=True)
    publish(channel, "other", b"y")
    channel.queue_delete("other")
    restart(own_broker, end, connection)
    assert not exists(own_broker, "other")
    connection = connect(own_broker)
    channel = connection.channel()
    assert bodies_in(channel, "orders") == []
    channel.basic_publish("kept", "order.new", b"nowhere", PERSISTENT)
    assert bodies_in(channel, "orders") == []
    connection.close()


def test_priorities_outlive_the_broker(own_broker: Broker, end: Callable[[Broker], None]) -> None:
    connection = connect(own_broker)
    channel = connection.channel()
    channel.queue_declare("urgent", durable=True, arguments={"x-max-priority": 5})
    channel.confirm_delivery()
    for priority in (1, 4, 1, 9):
        properties = pika.BasicProperties(delivery_mode=2, priority=priority)
        channel.basic_publish("", "urgent", b"%d" % priority, properties)
    restart(own_broker, end, connection)
    connection = connect(own_broker)
    assert bodies_in(connection.channel(), "urgent") == [b"9", b"4", b"1", b"1"]
    connection.close()


def test_what_expires_meanwhile_is_dead_lettered(
    own_broker: Broker, end: Callable[[Broker], None]
) -> None:
    connection = connect(own_broker)
    channel = connection.channel()
    channel.exchange_declare("dlx", "direct", durable=True)
    channel.queue_declare("grave", durable=True)
    channel.queue_bind("grave", "dlx", "short")
    arguments = {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "short"}
    channel.queue_declare("own", durable=True, arguments=arguments)
    channel.queue_declare("all", durable=True, arguments={**arguments, "x-message-ttl": 3000})
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=2, expiration="3000")
    channel.basic_publish("", "own", b"own", properties)
    channel.basic_publish("", "all", b"all", PERSISTENT)
    assert channel.queue_declare("grave", passive=True).method.message_count == 0
    end(own_broker)
    with pytest.raises(AMQPError):
        connection.sleep(WITHIN_S)
    time.sleep(3)
    own_broker.start()
    connection = connect(own_broker)
    channel = connection.channel()
    assert sorted(body for _, _, body in take(channel, "grave", 2)) == [b"all", b"own"]
    connection.close()
