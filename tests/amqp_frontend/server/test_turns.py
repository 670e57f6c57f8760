"""Turns: while the server handles what one client sent, all other tasks get their turns."""

import socket
from collections.abc import Callable

import pytest
import trio
from pamqp.commands import Channel
from tests.amqp_frontend.server.conftest import Broker
from tests.amqp_frontend.session.playbook import make

from arneb_amqp.server.transport.link import Link
from arneb_amqp.server.transport.polling import Polling
from arneb_amqp.wire.methods import encode_method


class Turns(trio.abc.Instrument):
    """Counts the turns of all tasks; nearly all of them here belong to one connection."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


def turns_taken(broker: Broker, work: Callable[[], object]) -> int:
    """How many turns happen while ``work`` is done."""
    turns = Turns()

    async def begin() -> None:
        trio.lowlevel.add_instrument(turns)

    async def end() -> None:
        trio.lowlevel.remove_instrument(turns)

    broker.call(begin)
    try:
        work()
    finally:
        broker.call(end)
    return turns.count


def exchanged(sock: socket.socket, data: bytes, size: int) -> bytes:
    """Send ``data`` and read the ``size`` bytes of the answer."""
    sock.setblocking(True)
    sock.settimeout(30)
    sock.sendall(data)
    got = b""
    while len(got) < size:
        got += sock.recv(1 << 20)
    sock.setblocking(False)
    return got


def test_ten_thousand_methods_from_a_few_reads_take_many_turns(broker: Broker) -> None:
    connection = broker.connect()
    connection.channel(1)
    sock = connection._impl._transport._sock
    flow = encode_method(1, make(Channel.Flow, active=True))
    flow_ok = encode_method(1, make(Channel.FlowOk, active=True)) * 10_000
    got = b""

    def exchange() -> None:
        nonlocal got
        got = exchanged(sock, flow * 10_000, len(flow_ok))

    count = turns_taken(broker, exchange)
    connection.close()
    assert got == flow_ok
    assert count >= 100


def test_whether_a_client_waits_for_its_answers_is_checked_before_each(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, sent = Polling.__init__, []

    def asking(self: Polling, link: Link) -> None:
        begin(self, link)
        self.asks = True

    def asked(self: Polling) -> None:
        link = self._link
        assert isinstance(link, Link)
        sent.append((link.writes, link.sent_bytes))

    monkeypatch.setattr(Polling, "__init__", asking)
    monkeypatch.setattr(Polling, "answers", asked)
    connection = broker.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("asked")
    for _ in range(5):
        channel.basic_publish("", "asked", b"x")
    connection.close()
    writes = [each for each, _ in sent]
    assert writes == list(range(len(writes))), "an answer left before its question came"
    assert sent[0] == (0, 0)
    assert len(sent) > 5
