"""A channel that is closed gives back what its cancelled consumers had been delivered, too."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from pamqp.commands import Basic, Channel, Tx
from tests.amqp_frontend.server.conftest import Broker
from tests.amqp_frontend.server.raw import RawClient

from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.methods import encode_method

QUEUE: Final = "cancelled"
COUNT: Final = 4
ALL: Final = range(1, COUNT + 1)

ANSWERS: Final = {
    "ack": Basic.Ack,
    "reject": lambda tag: Basic.Reject(tag, requeue=True),
    "nack": lambda tag: Basic.Nack(tag, requeue=True),
}


@pytest.fixture
def client(broker: Broker, channel: Any) -> Iterator[RawClient]:
    """A client whose queue has messages."""
    channel.queue_declare(QUEUE)
    channel.confirm_delivery()
    for _ in ALL:
        channel.basic_publish("", QUEUE, b"x")
    with RawClient(broker.port).open() as client:
        yield client
    channel.queue_delete(QUEUE)


def cancel_with_deliveries(client: RawClient) -> None:
    """Cancel a consumer that has been delivered all messages."""
    client.send(Basic.Consume, 1, queue=QUEUE, consumer_tag="t")
    client.expect(Basic.ConsumeOk)
    for _ in ALL:
        client.skip_delivery()
    client.send(Basic.Cancel, 1, consumer_tag="t")
    client.expect(Basic.CancelOk)


def begin_transaction(client: RawClient) -> None:
    client.send(Tx.Select, 1)
    client.expect(Tx.SelectOk)


def answer(client: RawClient, kind: str, *tags: int) -> None:
    """Answer in one write, which is read as one run."""
    client.socket.sendall(b"".join(encode_method(ChannelId(1), ANSWERS[kind](tag)) for tag in tags))


def close(client: RawClient, number: int) -> None:
    client.send(Channel.Close, number, reply_code=200, class_id=0, method_id=0)
    client.expect(Channel.CloseOk)


def ready(channel: Any) -> int:
    """The messages that nobody holds."""
    return int(channel.queue_declare(QUEUE, passive=True).method.message_count)


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("kind", ANSWERS)
def test_after_an_unknown_tag_before_all_others(
    client: RawClient, channel: Any, kind: str, in_transaction: bool
) -> None:
    if in_transaction:
        begin_transaction(client)
    cancel_with_deliveries(client)
    answer(client, kind, 99, *ALL)
    assert client.expect(Channel.Close).reply_code == 406
    client.send(Channel.CloseOk, 1)
    client.send(Channel.Open, 2)
    client.expect(Channel.OpenOk)
    assert ready(channel) == COUNT


@pytest.mark.parametrize("kind", ANSWERS)
def test_after_a_transaction_that_answered_all_and_was_not_committed(
    client: RawClient, channel: Any, kind: str
) -> None:
    begin_transaction(client)
    cancel_with_deliveries(client)
    answer(client, kind, *ALL)
    close(client, 1)
    assert ready(channel) == COUNT


def test_but_not_when_another_channel_is_closed(client: RawClient, channel: Any) -> None:
    cancel_with_deliveries(client)
    client.send(Channel.Open, 3)
    client.expect(Channel.OpenOk)
    close(client, 3)
    assert ready(channel) == 0
    close(client, 1)
    assert ready(channel) == COUNT
