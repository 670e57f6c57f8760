"""Consumers that are attached again: deliveries made before cannot be acknowledged afterwards."""

from typing import Any

import pytest
from tests.amqp_frontend.server.conftest import wait

TOPIC = "persistent://public/default/"


def backlog(broker: Any, queue: str) -> int:
    async def count() -> int:
        found = broker.engine.topic(TOPIC + queue).subscriptions["amqp"]
        return found.statistics().backlog_entries

    return broker.call(count)


def seek(broker: Any, queue: str) -> None:
    async def begin_again() -> None:
        topic = broker.engine.topic(TOPIC + queue)
        await topic.subscriptions["amqp"].seek(topic.first)

    broker.call(begin_again)


def fill(channel: Any, queue: str, count: int) -> None:
    channel.queue_declare(queue, durable=True)
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number)


def settle(channel: Any) -> None:
    """Wait until everything sent before has been carried out."""
    channel.queue_declare("", exclusive=True)


@pytest.mark.parametrize("answer", ["ack", "multiple", "requeue", "reject", "transaction"])
def test_deliveries_from_before_a_seek_cannot_be_acknowledged_after_it(
    broker: Any, channel: Any, answer: str
) -> None:
    """The same entries are delivered again with new tags, and only those tags acknowledge them."""
    queue = f"again-{answer}"
    if answer == "transaction":
        channel.tx_select()
    fill(channel, queue, 5)
    if answer == "transaction":
        channel.tx_commit()
    tags: list[int] = []
    channel.basic_consume(queue, lambda _c, method, *_: tags.append(method.delivery_tag))
    wait(channel, lambda: len(tags) == 5)
    seek(broker, queue)
    wait(channel, lambda: len(tags) == 10)
    match answer:
        case "multiple":
            channel.basic_ack(5, multiple=True)
        case "requeue":
            channel.basic_nack(5, multiple=True, requeue=True)
        case "reject":
            channel.basic_nack(5, multiple=True, requeue=False)
        case _:
            for tag in range(1, 6):
                channel.basic_ack(tag)
    if answer == "transaction":
        channel.tx_commit()
    settle(channel)
    assert backlog(broker, queue) == 5
    channel.connection.process_data_events(0)
    assert tags == list(range(1, 11)), "no delivery was returned either"
    channel.basic_ack(10, multiple=True)
    if answer == "transaction":
        channel.tx_commit()
    settle(channel)
    assert backlog(broker, queue) == 0


def test_a_second_seek_invalidates_deliveries_made_after_the_first(
    broker: Any, channel: Any
) -> None:
    fill(channel, "twice", 2)
    tags: list[int] = []
    channel.basic_consume("twice", lambda _c, method, *_: tags.append(method.delivery_tag))
    for round_ in range(1, 4):
        wait(channel, lambda count=2 * round_: len(tags) == count)
        if round_ < 3:
            seek(broker, "twice")
    channel.basic_ack(4, multiple=True)
    settle(channel)
    assert backlog(broker, "twice") == 2
    channel.basic_ack(6, multiple=True)
    settle(channel)
    assert backlog(broker, "twice") == 0


def test_a_consumer_that_was_attached_again_is_cancelled_like_any_other(
    broker: Any, channel: Any
) -> None:
    fill(channel, "cancelled", 1)
    tags: list[int] = []
    tag = channel.basic_consume(
        "cancelled", lambda _c, method, *_: tags.append(method.delivery_tag)
    )
    wait(channel, lambda: len(tags) == 1)
    seek(broker, "cancelled")
    wait(channel, lambda: len(tags) == 2)
    channel.basic_cancel(tag)  # pika returns the messages that it holds
    assert channel.queue_declare("cancelled", passive=True).method.consumer_count == 0
    channel.basic_publish("", "cancelled", b"later")
    settle(channel)
    assert len(tags) == 2 and backlog(broker, "cancelled") == 2
    channel.close()
    again = channel.connection.channel()
    assert again.queue_declare("cancelled", passive=True).method.message_count == 2


def test_messages_got_before_a_seek_cannot_be_acknowledged_after_it(
    broker: Any, channel: Any
) -> None:
    fill(channel, "got", 1)
    before, _, _ = channel.basic_get("got")
    seek(broker, "got")
    after, _, body = channel.basic_get("got")
    assert (after.delivery_tag, body) == (2, b"0")
    channel.basic_ack(before.delivery_tag)
    settle(channel)
    assert backlog(broker, "got") == 1
    channel.basic_ack(after.delivery_tag)
    settle(channel)
    assert backlog(broker, "got") == 0


def test_messages_got_from_a_queue_cannot_be_acknowledged_in_a_new_queue_of_its_name(
    broker: Any, channel: Any
) -> None:
    """The first message of each queue is at the same position."""
    fill(channel, "made-again", 1)
    before, _, _ = channel.basic_get("made-again")
    channel.queue_delete("made-again")
    fill(channel, "made-again", 1)
    after, _, _ = channel.basic_get("made-again")
    channel.basic_ack(before.delivery_tag)
    settle(channel)
    assert backlog(broker, "made-again") == 1
    channel.basic_ack(after.delivery_tag)
    settle(channel)
    assert backlog(broker, "made-again") == 0
