"""Consumer arguments: what each type of queue lets its consumers ask for."""

import pytest

from arneb_amqp.errors import ChannelException
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.consumer_arguments import (
    check_consumer_arguments,
    consumer_priority,
)
from arneb_amqp.wire.tables import longstr, signedint

WORDS = "queue 'q' in vhost '/'"


def test_consumer_priorities() -> None:
    assert consumer_priority({}) == 0
    assert consumer_priority({"x-priority": signedint(-3)}) == -3
    with pytest.raises(ChannelException, match="expected integer, got longstr"):
        check_consumer_arguments({"x-priority": longstr("x")}, WORDS, QueueType.CLASSIC)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (QueueType.CLASSIC, "x-stream-offset"),
        (QueueType.QUORUM, "x-stream-offset"),
        (QueueType.QUORUM, "x-cancel-on-ha-failover"),
        (QueueType.STREAM, "x-priority"),
        (QueueType.STREAM, "x-cancel-on-ha-failover"),
    ],
)
def test_consumer_arguments_of_another_queue_type(kind: QueueType, name: str) -> None:
    words = f"invalid arg '{name}' for {WORDS} of queue type {kind.in_words}"
    with pytest.raises(ChannelException, match=words):
        check_consumer_arguments({name: signedint(1)}, WORDS, kind)
    check_consumer_arguments({"x-credit": signedint(1)}, WORDS, kind)
