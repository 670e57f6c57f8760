"""A client that consumes what it publishes: in what order, and in how many pieces, it hears."""

import socket
from collections import Counter

from conformance.amqp.conftest import Named
from conformance.amqp.wire import Peer
from conformance.conftest import Target
from pamqp import body, commands, frame, header

TIMES = 300
MOST = 0.9
"""RabbitMQ's processes race: of two hundred confirms one comes by itself, or is the first."""

HALF = 0.5
"""They race more between two channels, and the confirm is mostly the first."""

Piece = tuple[tuple[str, int], ...]
DELIVERY, CONFIRM = "Basic.Deliver", "Basic.Ack"


def test_on_one_channel_a_message_comes_before_its_confirm_and_in_the_same_piece(
    broker: Target, name: Named
) -> None:
    """Who hears of the confirm has the message, so nobody waits for ever whose connection is cut
    between them."""
    with Peer(broker) as peer:
        queue = _prepared(peer, name("own"), consuming=1)
        heard = Counter(_heard(peer.socket, queue, consuming=1) for _ in range(TIMES))
    assert heard[(((DELIVERY, 1), (CONFIRM, 1)),)] >= MOST * TIMES, heard


def test_between_two_channels_a_message_and_its_confirm_come_in_one_piece(
    broker: Target, name: Named
) -> None:
    with Peer(broker) as peer:
        queue = _prepared(peer, name("own"), consuming=2)
        heard = Counter(len(_heard(peer.socket, queue, consuming=2)) for _ in range(TIMES))
    assert heard[1] >= HALF * TIMES, heard


def _prepared(peer: Peer, queue: str, *, consuming: int) -> str:
    """Channel 1 publishes with confirms, channel ``consuming`` consumes."""
    peer.open()
    for channel in sorted({1, consuming}):
        assert isinstance(peer.open_channel(channel), commands.Channel.OpenOk)
    peer.send(commands.Queue.Declare(queue=queue, durable=True), 1)
    assert isinstance(peer.read(), commands.Queue.DeclareOk)
    peer.send(commands.Confirm.Select(), 1)
    assert isinstance(peer.read(), commands.Confirm.SelectOk)
    peer.send(commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=True), consuming)
    assert isinstance(peer.read(), commands.Basic.ConsumeOk)
    return queue


def _heard(peer: socket.socket, queue: str, *, consuming: int) -> tuple[Piece, ...]:
    """Publish one message; the methods that come, with their channels, piece by piece."""
    properties = commands.Basic.Properties(delivery_mode=2)
    peer.sendall(
        frame.marshal(commands.Basic.Publish(routing_key=queue), 1)
        + frame.marshal(header.ContentHeader(0, 1, properties), 1)
        + frame.marshal(body.ContentBody(b"x"), 1)
    )
    pieces: list[Piece] = []
    missing = {(DELIVERY, consuming), (CONFIRM, 1)}
    while missing:
        data = peer.recv(65536)
        assert data, f"the connection was closed with {missing} missing"
        methods = []
        while data:
            size, channel, value = frame.unmarshal(data)
            data = data[size:]
            if isinstance(value, commands.Basic.Deliver | commands.Basic.Ack):
                methods.append((value.name, channel))
        pieces.append(tuple(methods))
        missing.difference_update(methods)
    return tuple(pieces)
