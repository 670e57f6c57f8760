"""A connection's machine: each request is answered once, in whatever pieces the bytes come."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.client.connection.machines import (
    HELLO,
    Attached,
    made,
    message,
    opened,
    sent,
)

from arneb_pulsar.client.connection.machine import (
    GRACE_S,
    KEEP_ALIVE_S,
    State,
)
from arneb_pulsar.client.errors import (
    AuthenticationFailed,
    Disconnected,
    NotPulsar,
    PulsarError,
    TopicNotFound,
)
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.commands import NO_REQUEST, PING, PONG
from arneb_pulsar.wire.frame import simple_frame
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandFlow,
    CommandPartitionedTopicMetadata,
    CommandSubscribe,
)


def test_it_begins_with_connect_and_learns_the_bound() -> None:
    machine = made()
    (hello,) = sent(machine)
    assert hello.connect.client_version == "t"
    machine.receive(HELLO, 0.0)
    assert machine.message_bytes_max == 1_000


@given(st.data())
def test_bytes_may_be_cut_anywhere(data: st.DataObject) -> None:
    stream = HELLO + b"".join(message(entry, b"x" * entry) for entry in range(20)) + PING
    machine, consumer = made(), Attached()
    machine.receivers[1] = consumer
    at = 0
    while at < len(stream):
        step = data.draw(st.integers(1, len(stream)))
        machine.receive(stream[at : at + step], 0.0)
        at += step
    assert consumer.seen == [(entry, b"x" * entry) for entry in range(20)]
    assert machine.output[-1] == PONG


def test_answers_go_to_their_requests() -> None:
    machine = opened()
    calls: list[tuple[str, Any, PulsarError | None]] = []
    first = machine.request(
        CommandPartitionedTopicMetadata(topic="a"),
        "of a",
        lambda reply, error: calls.append(("a", reply, error)),
    )
    second = machine.request(
        CommandSubscribe(topic="b", subscription="s", subType=1, consumer_id=1),
        "of b",
        lambda reply, error: calls.append(("b", reply, error)),
    )
    third = machine.request(
        CommandPartitionedTopicMetadata(topic="c"),
        "of c",
        lambda reply, error: calls.append(("c", reply, error)),
    )
    machine.forget(third)
    machine.receive(
        commands.error(second, pb.TopicNotFound, "gone")
        + commands.partitions(third, 1)
        + commands.partitions(first, 3)
        + commands.partitions(first, 4),
        0.0,
    )
    assert [each[0] for each in calls] == ["b", "a"]
    assert isinstance(calls[0][2], TopicNotFound)
    assert str(calls[0][2]) == "of b: gone"
    assert calls[1][1].partitions == 3


def test_a_queued_producer_goes_on_waiting() -> None:
    machine = opened()
    calls: list[Any] = []
    number = machine.request(
        pb.CommandProducer(topic="t", producer_id=1), "p", lambda reply, _error: calls.append(reply)
    )
    machine.receive(commands.producer_success(number, "p", ready=False), 0.0)
    assert not calls
    machine.receive(commands.producer_success(number, "p", epoch=3), 0.0)
    assert calls[0].topic_epoch == 3


def test_all_learn_once_that_it_is_lost() -> None:
    machine = opened()
    calls: list[PulsarError | None] = []
    attached = Attached()
    machine.senders[1] = machine.receivers[1] = attached
    machine.request(
        CommandPartitionedTopicMetadata(topic="a"),
        "of a",
        lambda _reply, error: calls.append(error),
    )
    machine.lost(Disconnected("gone"))
    machine.lost(Disconnected("again"))
    assert [str(each) for each in calls] == ["gone"]
    assert attached.seen == [Disconnected, Disconnected]
    machine.request(
        CommandPartitionedTopicMetadata(topic="a"),
        "of a",
        lambda _reply, error: calls.append(error),
    )
    assert [str(each) for each in calls] == ["gone", "gone"]
    machine.receive(message(1, b""), 0.0)
    assert len(attached.seen) == 2


def test_a_refused_handshake_says_why() -> None:
    machine = made()
    machine.receive(commands.error(NO_REQUEST, pb.AuthenticationError, "bad token"), 0.0)
    assert isinstance(machine.failure, AuthenticationFailed)
    assert "bad token" in str(machine.failure)


@pytest.mark.parametrize("data", [b"\xff" * 40, b"\0\0\0\x08\0\0\0\x04\xff\xff\xff\xff"])
def test_what_is_no_protocol_ends_it(data: bytes) -> None:
    machine = opened()
    machine.receive(data, 0.0)
    assert isinstance(machine.failure, Disconnected)


def test_a_silent_broker_is_asked_and_then_given_up() -> None:
    machine = opened()
    machine.tick(KEEP_ALIVE_S - 1)
    assert not machine.output
    machine.tick(KEEP_ALIVE_S)
    assert machine.output == [PING]
    machine.receive(PONG, KEEP_ALIVE_S + 1)
    machine.output.clear()
    asked = machine.due()
    machine.tick(asked)
    assert machine.output == [PING]
    machine.tick(asked + KEEP_ALIVE_S)
    # What lies unread is read first by a process that stood still.
    assert machine.state is State.OPEN
    machine.tick(asked + KEEP_ALIVE_S + GRACE_S)
    assert machine.state is State.CLOSED
    assert "sign of life" in str(machine.failure)


def test_a_producer_that_its_broker_closes_learns_its_new_broker() -> None:
    machine, producer = opened(), Attached()
    machine.senders[1] = producer
    close = pb.CommandCloseProducer(
        producer_id=1, request_id=NO_REQUEST, assignedBrokerServiceUrl="pulsar://other:6650"
    )
    base = BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close)
    machine.receive(simple_frame(base.SerializeToString()), 0.0)
    assert producer.seen == [("closed", "pulsar://other:6650")]
    assert not machine.senders


def test_commands_without_an_answer_are_only_written() -> None:
    machine = opened()
    machine.send(CommandFlow(consumer_id=1, messagePermits=5))
    (flow,) = sent(machine)
    assert flow.flow.messagePermits == 5


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"AMQP\x00\x00\x09\x01", "speaks AMQP"),
        (bytes.fromhex("15030100020246"), "speaks TLS"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_server_that_is_not_a_broker_is_recognised_by_its_answer(
    answer: bytes, reason: str, at_once: int
) -> None:
    machine = made()
    for first in range(0, len(answer), at_once):
        machine.receive(answer[first : first + at_once], 0.0)
    assert isinstance(machine.failure, NotPulsar)
    assert not machine.failure.retriable
    assert reason in str(machine.failure)


def test_a_broker_that_sends_the_same_later_is_one_whose_connection_broke() -> None:
    machine = made()
    machine.receive(HELLO, 0.0)
    machine.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n", 0.0)
    assert type(machine.failure) is Disconnected
