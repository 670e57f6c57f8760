"""Channels: many on one connection, and errors that end only one of them."""

import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import publish, refused
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker


def test_an_error_closes_its_channel_only(connect: Connect, queue: str) -> None:
    connection = connect()
    first, second = connection.channel(), connection.channel()
    with refused(404, "NOT_FOUND - no queue 'nope' in vhost '/'"):
        first.queue_declare("nope", passive=True)
    assert first.is_closed
    publish(second, queue, b"still here")
    assert second.basic_get(queue, auto_ack=True)[2] == b"still here"


def test_a_channel_number_can_be_used_again(connect: Connect) -> None:
    connection = connect()
    for _ in range(5):
        channel = connection.channel(7)
        with pytest.raises(ChannelClosedByBroker):
            channel.exchange_declare("nope", passive=True)
    assert connection.channel(7).is_open


def test_a_hundred_channels_work_side_by_side(connect: Connect, queue: str) -> None:
    connection = connect()
    channels = [connection.channel() for _ in range(100)]
    for number, channel in enumerate(channels):
        channel.basic_publish("", queue, b"%d" % number)
    # A message published on one channel may be overtaken by one on another channel, so each channel
    # waits for an answer first.
    for channel in channels:
        channel.basic_qos(prefetch_count=1)
    got = {channels[0].basic_get(queue, auto_ack=True)[2] for _ in range(100)}
    assert got == {b"%d" % number for number in range(100)}


def test_channels_come_and_go_quickly(connect: Connect) -> None:
    connection = connect()
    for _ in range(300):
        connection.channel().close()


def test_flow_can_be_asked_to_be_active(channel: BlockingChannel) -> None:
    assert channel.flow(True) is True


def test_unacked_messages_come_back_when_the_channel_closes(
    connect: Connect, queue: str, name: Named
) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, b"a", b"b")
    assert channel.basic_get(queue)[2] == b"a"
    channel.close()
    other = connection.channel()
    method, _, body = other.basic_get(queue)
    assert (body, method.redelivered) == (b"a", True)
    method, _, body = other.basic_get(queue)
    assert (body, method.redelivered) == (b"b", False)
