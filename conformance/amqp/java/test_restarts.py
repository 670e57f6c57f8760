"""Java's DeadLetterExchangeDurable, DurableBindingLifecycle, ExclusiveQueueDurability,
MessageRecovery, PersistenceGuarantees, Shutdown and the restart tests of other classes: what still
exists after a restart.

A restart is slow, so all scenarios share one: each has a part that runs before it, registered with
``before``, and a part that runs after it, the test itself.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from conformance.amqp.helpers import PERSISTENT, bodies_in, take
from conformance.amqp.java.common import got, many, ready
from conformance.brokers.process import Broker
from conformance.conftest import end, mortal
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker

PERSISTED = 10_000
DOWN_S = 1.2
LIFE_MS = 1_000
"""Shorter than the broker is down, in milliseconds."""

Before = Callable[[BlockingChannel], None]
PREPARATIONS: list[Before] = []


def before(prepare: Before) -> Before:
    """Register this to run before the restart."""
    PREPARATIONS.append(prepare)
    return prepare


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.config.getoption("broker") or ["rabbitmq", "arneb"]
    if "restarted" in metafunc.fixturenames:
        metafunc.parametrize("restarted", names, indirect=True, scope="module")


class Restarted:
    """A broker that was stopped and started again, and the error with which it closed a client's
    connection."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.farewell: Any = None

    def connect(self) -> pika.BlockingConnection:
        address = self.broker.address
        return pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port))

    def restart(self) -> None:
        connection = self.connect()
        for prepare in PREPARATIONS:
            prepare(connection.channel())
        self.broker.stop()
        with pytest.raises(AMQPError) as caught:
            connection.sleep(5)
        self.farewell = caught.value
        time.sleep(DOWN_S)
        self.broker.start()


@pytest.fixture(scope="module")
def restarted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restarted]:
    broker = mortal(request.param, tmp_path_factory.mktemp("restarted"), request.config)
    try:
        made = Restarted(broker.start())
        made.restart()
        yield made
    finally:
        end(broker)


@pytest.fixture
def channel(restarted: Restarted) -> Iterator[BlockingChannel]:
    connection = restarted.connect()
    yield connection.channel()
    connection.close()


@before
def _dead_letters(channel: BlockingChannel) -> None:
    channel.exchange_declare("dlx", "direct", durable=True)
    channel.queue_declare("dlq", durable=True)
    arguments = {"x-message-ttl": LIFE_MS, "x-dead-letter-exchange": "dlx"}
    channel.queue_declare("mortal", durable=True, arguments=arguments)
    channel.queue_bind("mortal", "amq.direct", "test")
    channel.queue_bind("dlq", "dlx", "test")
    channel.confirm_delivery()
    for _ in range(10):
        channel.basic_publish("amq.direct", "test", b"test message", PERSISTENT)


def test_dead_letter_exchange_durable_dead_letter_queue_ttl_expired_while_down(
    channel: BlockingChannel,
) -> None:
    assert got(channel, "mortal") is None
    for _, properties, _ in take(channel, "dlq", 10):
        (death,) = properties.headers["x-death"]
        assert (death["queue"], death["reason"]) == ("mortal", "expired")
        assert (death["exchange"], death["routing-keys"]) == ("amq.direct", ["test"])


@before
def _bindings(channel: BlockingChannel) -> None:
    for made in ("kept", "deleted"):
        channel.exchange_declare(made, "topic", durable=True)
        channel.queue_declare(f"{made}-queue", durable=True)
        channel.queue_bind(f"{made}-queue", made, "k")
    channel.exchange_delete("deleted")


def test_durable_binding_lifecycle_durable_binding_recovery(channel: BlockingChannel) -> None:
    channel.basic_publish("kept", "k", b"x")
    method, _, body = take(channel, "kept-queue", 1)[0]
    assert (method.redelivered, body) == (False, b"x")


def test_durable_binding_lifecycle_durable_bindings_deletion(channel: BlockingChannel) -> None:
    channel.exchange_declare("deleted", "topic", durable=True)
    channel.basic_publish("deleted", "k", b"x")
    assert got(channel, "deleted-queue") is None


@before
def _queue(channel: BlockingChannel) -> None:
    channel.queue_declare("default-bound", durable=True)


def test_durable_binding_lifecycle_default_binding_recovery(channel: BlockingChannel) -> None:
    channel.basic_publish("", "default-bound", b"x")
    assert take(channel, "default-bound", 1)[0][2] == b"x"


@before
def _exclusive(channel: BlockingChannel) -> None:
    channel.queue_declare("scenario1", durable=True, exclusive=True)


def test_exclusive_queue_durability_connection_queue_same_node(channel: BlockingChannel) -> None:
    channel.queue_declare("scenario1")


@before
def _messages(channel: BlockingChannel) -> None:
    channel.queue_declare("recovered", durable=True)
    channel.exchange_declare("recovering", "direct", durable=True)
    channel.queue_bind("recovered", "recovering", "k")
    channel.confirm_delivery()
    for number in range(1, 3):
        channel.basic_publish("recovering", "k", b"%d" % number, PERSISTENT)


def test_message_recovery_message_recovery(channel: BlockingChannel) -> None:
    """Messages that were never delivered are not marked as redelivered."""
    found = take(channel, "recovered", 2)
    assert [body for _, _, body in found] == [b"1", b"2"]
    assert [method.redelivered for method, _, _ in found] == [False, False]
    assert got(channel, "recovered") is None


@before
def _persistence(channel: BlockingChannel) -> None:
    for queue in ("transactional", "confirmed"):
        channel.queue_declare(queue, durable=True)
    channel.tx_select()
    many(channel, "", "transactional", PERSISTED)
    channel.tx_commit()
    other = channel.connection.channel()
    # The last one's confirm suffices: by then all before it are in the queue.
    many(other, "", "confirmed", PERSISTED - 1)
    other.confirm_delivery()
    other.basic_publish("", "confirmed", b"last", PERSISTENT)


def test_persistence_guarantees_tx_persistence(channel: BlockingChannel) -> None:
    assert channel.queue_delete("transactional").method.message_count == PERSISTED


def test_persistence_guarantees_confirm_persistence(channel: BlockingChannel) -> None:
    assert channel.queue_delete("confirmed").method.message_count == PERSISTED


def test_shutdown_error_on_shutdown(restarted: Restarted) -> None:
    farewell = restarted.farewell
    text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    assert (farewell.reply_code, farewell.reply_text) == (320, text)


@before
def _expiring(channel: BlockingChannel) -> None:
    properties = pika.BasicProperties(delivery_mode=2, expiration=str(LIFE_MS))
    for kind, arguments in (("message", {}), ("both", {"x-message-ttl": 2 * LIFE_MS})):
        channel.queue_declare(f"expiring-{kind}", durable=True, arguments=arguments)
        channel.basic_publish("", f"expiring-{kind}", b"", properties)


@pytest.mark.parametrize("kind", ["message", "both"])
def test_ttl_handling_restarting_expiry(channel: BlockingChannel, kind: str) -> None:
    assert bodies_in(channel, f"expiring-{kind}") == []


@before
def _durable_on_transient(channel: BlockingChannel) -> None:
    channel.exchange_declare("fleeting", "direct")
    channel.queue_declare("lasting", durable=True)
    channel.queue_bind("lasting", "fleeting", "")


def test_durable_on_transient_semi_durable_binding_removal(channel: BlockingChannel) -> None:
    """On a single node, a transient exchange disappears when the node stops, and its bindings with
    it."""
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.connection.channel().exchange_declare("fleeting", passive=True)
    assert caught.value.reply_code == 404
    channel.exchange_declare("fleeting", "direct")
    channel.basic_publish("fleeting", "", b"x")
    assert ready(channel, "lasting") == 0
