"""Back-pressure: a client that is too fast or too slow does not affect the others."""

import socket

import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, Inbox

BODY = bytes(40_000)
BACKLOG = 500
"""Twenty megabytes, more than all buffers between a broker and a client hold."""


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets with small buffers, which fill up soon if their owner does not read."""
    connect = socket.socket.connect

    def connect_small(sock: socket.socket, address: object) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        connect(sock, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", connect_small)


def test_a_consumer_that_reads_nothing_delays_no_other(
    connect: Connect, queue: str, name: Named, small_buffers: None
) -> None:
    lazy = connect().channel()
    Inbox(lazy, queue, auto_ack=True)
    other = name("other")
    channel = connect().channel()
    channel.queue_declare(other)
    for _ in range(BACKLOG):
        channel.basic_publish("", queue, BODY, PERSISTENT)
    for number in range(50):
        channel.basic_publish("", other, b"%d" % number, PERSISTENT)
        assert channel.basic_get(other, auto_ack=True)[2] == b"%d" % number
    left = channel.queue_declare(queue, passive=True).method.message_count
    assert 0 < left < BACKLOG
    assert len(Inbox(channel, queue, auto_ack=True).wait(left)) == left
