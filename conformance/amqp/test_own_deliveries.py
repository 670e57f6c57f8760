"""A client that consumes what it publishes: the message first, then what answers the publish."""

from collections import Counter

import pytest
from conformance.amqp.conftest import Named
from conformance.amqp.wire import WireClient
from conformance.conftest import Target
from pamqp import base, body, commands, frame, header

TIMES = 300
MOST = 0.9
"""RabbitMQ's processes race: of two hundred confirms one is the first."""

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
    """Who hears that it is kept has it already, so nobody waits for it whose connection is cut
    between the two. Mostly they come in one piece; how often depends on RabbitMQ's load."""
    queue = name("own")
    with WireClient(broker) as raw:
        raw.open()
        assert isinstance(raw.open_channel(), commands.Channel.OpenOk)
        raw.send(commands.Queue.Declare(queue=queue, durable=True), 1)
        assert isinstance(raw.read(), commands.Queue.DeclareOk)
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


def _heard(
    raw: WireClient, queue: str, commit: base.Frame | None, answer: str
) -> tuple[Piece, ...]:
    """Publish one message; the methods that come, piece by piece."""
    properties = commands.Basic.Properties(delivery_mode=2)
    frames = [
        frame.marshal(commands.Basic.Publish(routing_key=queue), 1),
        frame.marshal(header.ContentHeader(0, 1, properties), 1),
        frame.marshal(body.ContentBody(b"x"), 1),
    ]
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
