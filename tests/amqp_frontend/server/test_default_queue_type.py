"""A vhost's queue type applies to queues that do not name one."""

from pathlib import Path
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread

from arneb_amqp.config import AmqpConfig


@pytest.fixture
def quorum(broker: Broker) -> Any:
    """A channel in a vhost whose default queue type is quorum."""

    async def make() -> None:
        async with broker.catalogue.changing() as edit:
            edit.put_vhost("q", default_queue_type="quorum")
            edit.set_permissions("guest", "q", ".*", ".*", ".*")

    broker.call(make)
    connection = broker.connect(virtual_host="q")
    yield connection.channel()
    connection.close()


def test_a_vhost_without_a_type_uses_that_of_the_settings(tmp_path: Path) -> None:
    config = AmqpConfig(vhosts=("/", "c"), default_queue_type="quorum")
    for broker in serve_in_thread(tmp_path / "data", config):

        async def make(broker: Broker = broker) -> None:
            async with broker.catalogue.changing() as edit:
                edit.put_vhost("c", default_queue_type="classic")

        broker.call(make)
        with broker.connect() as connection, broker.connect(virtual_host="c") as other:
            for each, fits in ((connection, "quorum"), (other, "classic")):
                channel = each.channel()
                channel.queue_declare("a", durable=True)
                assert arguments(channel, "a") == [fits]


def arguments(channel: Any, name: str) -> list[str]:
    """The types with which the queue can be declared again."""
    fit = []
    for kind in ("classic", "quorum"):
        again = channel.connection.channel()
        try:
            again.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
        except ChannelClosedByBroker as error:
            assert error.reply_code == 406
        else:
            fit.append(kind)
    return fit


def test_a_durable_queue_has_the_type_of_the_vhost(quorum: Any) -> None:
    quorum.queue_declare("a", durable=True)
    quorum.queue_declare("a", durable=True)
    assert arguments(quorum, "a") == ["quorum"]
    quorum.queue_declare("b", durable=True, arguments={"x-queue-type": "classic"})
    assert arguments(quorum, "b") == ["classic"]


def test_queues_that_cannot_have_that_type_are_classic(quorum: Any) -> None:
    quorum.queue_declare("c")
    quorum.queue_declare("d", exclusive=True)
    quorum.queue_declare("e", durable=True, auto_delete=True)
    assert quorum.queue_declare("", exclusive=True).method.queue
    quorum.queue_declare("e", durable=True, auto_delete=True, arguments={"x-queue-type": "classic"})
