"""A client that consumes what it publishes: the message is delivered before the publish is
answered."""

from collections import Counter

import pytest
from conformance.amqp.conftest import Named
from conformance.amqp.wire import WireClient
from conformance.conftest import Target
from pamqp import base, body, commands, frame, header

TIMES = 300
MOST = 0.9
"""The share of publishes that must be answered in order. RabbitMQ's processes race: about one
confirm in two hundred comes before its message."""

CANCELS = 20

Piece = tuple[str, ...]


@pytest.mark.parametrize(
    ("mode", "commit", "answer"),
    [
        (commands.Confirm.Select(), None, "Basic.Ack"),
        (commands.Tx.Select(), commands.Tx.Commit(), "Tx.CommitOk"),
    ],
    ids=["confirms", "transactions"],
)
def test_a_message_comes_before_the_answer_to_its_publish(
    broker: Target, name: Named, mode: base.Frame, commit: base.Frame | None, answer: str
) -> None:
    """A publisher that sees the answer has already received the message. So a connection that is
    cut between the two never leaves the client waiting for it. Usually both arrive in one read; how
    often depends on RabbitMQ's load."""
    queue = name("own")
    with WireClient(broker) as raw:
        _declare(raw, queue, durable=True)
        raw.send(mode, 1)
        raw.read()
        raw.send(commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=True), 1)
        assert isinstance(raw.read(), commands.Basic.ConsumeOk)
        heard = Counter(_heard(raw, queue, commit, answer) for _ in range(TIMES))
    whole = (("Basic.Deliver", answer),)
    in_order = heard[whole] + heard[("Basic.Deliver",), (answer,)]
    assert in_order >= MOST * TIMES, heard
    if not broker.is_rabbitmq:
        assert heard[whole] >= MOST * TIMES, heard


@pytest.mark.parametrize("durable", [True, False])
def test_what_was_published_before_a_cancel_still_comes(
    broker: Target, name: Named, durable: bool
) -> None:
    queue = name("cancelled")
    with WireClient(broker) as raw:
        _declare(raw, queue, durable=durable)
        for _ in range(CANCELS):
            raw.send(commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=True), 1)
            assert isinstance(raw.read(), commands.Basic.ConsumeOk)
            cancel = frame.marshal(commands.Basic.Cancel(consumer_tag="c"), 1)
            raw.socket.sendall(_publish(queue) * 10 + cancel)
            heard = [raw.read() for _ in range(31)]
            assert [type(each) for each in heard[:30:3]] == [commands.Basic.Deliver] * 10
            assert isinstance(heard[30], commands.Basic.CancelOk)


@pytest.mark.parametrize("durable", [True, False])
def test_what_was_published_before_another_consumer_came_goes_to_the_first(
    broker: Target, name: Named, durable: bool
) -> None:
    queue = name("shared")
    with WireClient(broker) as raw:
        _declare(raw, queue, durable=durable)
        raw.send(commands.Basic.Consume(queue=queue, consumer_tag="first", no_ack=True), 1)
        assert isinstance(raw.read(), commands.Basic.ConsumeOk)
        comes = commands.Basic.Consume(queue=queue, consumer_tag="second", no_ack=True)
        raw.socket.sendall(_publish(queue) * 10 + frame.marshal(comes, 1))
        heard = [raw.read() for _ in range(31)]
        tags = [each.consumer_tag for each in heard if isinstance(each, commands.Basic.Deliver)]
        assert tags == ["first"] * 10


def _declare(raw: WireClient, queue: str, *, durable: bool) -> None:
    """Open channel 1 and declare the queue."""
    raw.open()
    assert isinstance(raw.open_channel(), commands.Channel.OpenOk)
    raw.send(commands.Queue.Declare(queue=queue, durable=durable), 1)
    assert isinstance(raw.read(), commands.Queue.DeclareOk)


def _publish(queue: str) -> bytes:
    """The frames that publish one persistent message."""
    properties = commands.Basic.Properties(delivery_mode=2)
    frames = (
        commands.Basic.Publish(routing_key=queue),
        header.ContentHeader(0, 1, properties),
        body.ContentBody(b"x"),
    )
    return b"".join(frame.marshal(each, 1) for each in frames)


def _heard(
    raw: WireClient, queue: str, commit: base.Frame | None, answer: str
) -> tuple[Piece, ...]:
    """Publish one message; the result is the methods received, grouped by read of the socket."""
    frames = [_publish(queue)]
    if commit is not None:
        frames.append(frame.marshal(commit, 1))
    raw.socket.sendall(b"".join(frames))
    pieces: list[Piece] = []
    missing = {"Basic.Deliver", answer}
    while missing:
        data = raw.socket.recv(65536)
        assert data, f"the connection was closed with {missing} missing"
        methods = []
        while data:
            size, _, value = frame.unmarshal(data)
            data = data[size:]
            if isinstance(value, base.Frame):
                methods.append(value.name)
        pieces.append(tuple(methods))
        missing.difference_update(methods)
    return tuple(pieces)
