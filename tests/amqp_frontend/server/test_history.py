"""x-history: records what becomes of a queue's messages, and anybody can read it."""

import json
from typing import Any

import pika
import pytest
import trio
from pika.exceptions import ChannelClosedByBroker
from tests.amqp_frontend.server.conftest import Broker, wait

from arneb_core.api.topics.history import history_topic

ON = {"x-history": True}


def topic_of(queue: str) -> str:
    return history_topic(f"persistent://public/default/{queue}", "amqp")


def history(broker: Broker, queue: str) -> list[dict[str, Any]]:
    """The lines of the history without their headings, once everything is written."""

    async def read() -> list[dict[str, Any]]:
        engine = broker.engine
        subscription = engine.topic(f"persistent://public/default/{queue}").subscriptions["amqp"]
        while subscription.machine.state.history or not engine.is_quiet:
            await trio.lowlevel.checkpoint()
        topic = engine.topic(topic_of(queue))
        runs = [] if topic.first is None else await topic.read(topic.first, 1 << 30)
        texts = [entry[40:].decode() for _, entries in runs for entry in entries]
        return [json.loads(line) for text in texts for line in text.splitlines()[1:]]

    return broker.call(read)


def test_the_life_of_messages_is_recorded(broker: Broker, channel: Any) -> None:
    channel.queue_declare("dead", durable=True)
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("h1", durable=True, arguments=ON | dead)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "h1", b"x")
    tags = [channel.basic_get("h1")[0].delivery_tag for _ in range(3)]
    channel.basic_ack(tags[0])
    channel.basic_nack(tags[1], requeue=False)
    channel.basic_nack(tags[2], requeue=True)
    wait(channel, lambda: channel.basic_get("h1", auto_ack=True)[2] == b"x")
    wait(channel, lambda: channel.basic_get("dead", auto_ack=True)[2] == b"x")
    recorded = [(line["event"], line["entries"]) for line in history(broker, "h1")]
    assert recorded == [
        ("delivered", [0]),
        ("delivered", [1]),
        ("delivered", [2]),
        ("acknowledged", [0]),
        ("departed", [1]),
        ("returned", [2]),
        ("delivered", [2]),
        ("acknowledged", [2]),
    ]


def test_a_history_is_read_over_amqp_as_text(broker: Broker, channel: Any) -> None:
    """The topic of a history is a topic like any other: AMQP clients see it as a queue."""
    channel.queue_declare("h2", durable=True, arguments=ON)
    channel.basic_publish("", "h2", b"x")
    wait(channel, lambda: channel.basic_get("h2", auto_ack=True)[2] == b"x")
    history(broker, "h2")
    body = channel.basic_get("h2-amqp-HISTORY", auto_ack=True)[2]
    head, *lines = [json.loads(line) for line in body.decode().splitlines()]
    assert head["topic"] == "persistent://public/default/h2" and head["subscription"] == "amqp"
    assert [line["event"] for line in lines] == ["delivered", "acknowledged"]


def history_ended(broker: Broker, queue: str) -> None:
    """Wait until the broker knows that the topic of the history is gone."""

    async def end() -> None:
        topic = broker.engine.topic(f"persistent://public/default/{queue}")
        while topic.subscriptions["amqp"].machine.state.history is not None:
            await trio.lowlevel.checkpoint()

    broker.call(end)


@pytest.mark.parametrize(
    "options",
    [{"durable": False}, {"durable": False, "exclusive": True}, {"type": "stream"}],
)
def test_it_is_refused_where_nothing_is_kept(broker: Broker, options: dict[str, Any]) -> None:
    kind = options.pop("type", None)
    arguments = ON | ({"x-queue-type": kind} if kind else {})
    with broker.connect() as connection, pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare(
            "no", **({"durable": True} | options), arguments=arguments
        )
    assert caught.value.reply_code == 406 and "x-history" in caught.value.reply_text


def test_without_the_argument_no_topic_is_made(broker: Broker, channel: Any) -> None:
    for arguments in ({}, {"x-history": False}):
        channel.queue_declare("h3", durable=True, arguments=arguments)
    assert topic_of("h3") not in broker.engine.topics
    with pytest.raises(ChannelClosedByBroker, match="x-history"):
        channel.queue_declare("odd", durable=True, arguments={"x-history": "yes"})


def test_declaring_the_queue_again_restores_a_deleted_history(broker: Broker, channel: Any) -> None:
    channel.queue_declare("h4", durable=True, arguments=ON)
    broker.call(broker.engine.delete_topic, topic_of("h4"))
    channel.basic_publish("", "h4", b"x", pika.BasicProperties(delivery_mode=2))
    wait(channel, lambda: channel.basic_get("h4", auto_ack=True)[2] == b"x")
    history_ended(broker, "h4")
    channel.queue_declare("h4", durable=True, arguments=ON)
    assert topic_of("h4") in broker.engine.topics
