"""Relayed clients under load: they receive whole frames to the last byte, whatever happens to the
leader, and what was confirmed is stored."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pika
import pytest
from pamqp.commands import Channel, Connection
from pika.exceptions import AMQPError
from tests.amqp_frontend.server.raw import RawClient
from tests.cluster.routing.nodes import Nodes, in_thread, two_nodes

from arneb_amqp.wire.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER, ChannelId
from arneb_amqp.wire.frames import cut_frame
from arneb_amqp.wire.methods import decode_method, encode_method
from arneb_amqp.wire.replies import make
from arneb_cluster.routing.relay import LEADER_GONE, close_frame

MESSAGES = 400


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with in_thread(two_nodes(), tmp_path) as both:
        yield both


def fill(nodes: Nodes, queue: str, body: bytes) -> None:
    """Messages that wait in the queue."""
    connection = nodes.first.connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    for _ in range(MESSAGES):
        channel.basic_publish("", queue, body)
    connection.close()


def heard_until_the_end(sock: socket.socket, first: bytes) -> bytes:
    """Everything, until the other side ends it."""
    heard = bytearray(first)
    sock.settimeout(20)
    with suppress(ConnectionResetError):
        while data := sock.recv(65_536):
            heard += data
    return bytes(heard)


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
def test_a_consumers_stream_ends_between_frames_or_inside_the_last_one(
    nodes: Nodes, size: int
) -> None:
    for count in (1, size * MESSAGES // 4):
        fill(nodes, "q", bytes(size))
        with RawClient(nodes.second.port).open() as raw:
            raw.consume("q")
            begun = b""
            while len(begun) < count:
                begun += raw.socket.recv(65_536)
            nodes.lead(None)
            heard = heard_until_the_end(raw.socket, raw._held + begun)
        nodes.lead(nodes.first)
        at, last = 0, None
        while at < len(heard):
            frame = cut_frame(heard, at, 1 << 30)  # raises if this is not a frame
            if isinstance(frame, int):
                last = None
                break
            last, at = frame, at + frame.bytes_on_wire
        if last is not None and last.channel == 0:
            method = decode_method(last.payload)
            assert isinstance(method, Connection.Close)
            assert method.reply_code == 320
        else:
            assert at < len(heard), "cut between two frames, where a close would have fitted"


def test_messages_confirmed_through_another_node_are_stored_when_the_leader_changes(
    nodes: Nodes,
) -> None:
    connection = nodes.second.connect()
    channel = connection.channel()
    channel.queue_declare("confirmed", durable=True)
    channel.confirm_delivery()
    confirmed = 0

    def publish() -> None:
        nonlocal confirmed
        with suppress(AMQPError):
            while True:
                channel.basic_publish("", "confirmed", b"%d" % confirmed)
                confirmed += 1

    thread = Thread(target=publish)
    thread.start()
    while confirmed < 200:
        thread.join(0.01)
    nodes.lead(None)
    thread.join(20)
    assert not thread.is_alive()
    nodes.lead(nodes.first)
    again = nodes.first.connect()
    there = again.channel().queue_declare("confirmed", passive=True)
    assert there.method.message_count - confirmed in (0, 1), "one may be stored and not confirmed"
    again.close()


def test_data_sent_together_with_connection_open_is_not_lost(nodes: Nodes) -> None:
    with RawClient(nodes.second.port) as raw:
        raw.socket.sendall(PROTOCOL_HEADER)
        raw.expect(Connection.Start)
        raw.send(
            Connection.StartOk, client_properties={}, mechanism="PLAIN",
            response=b"\0guest\0guest", locale="en_US",
        )  # fmt: skip
        tune = raw.expect(Connection.Tune)
        methods = [
            (0, make(Connection.TuneOk, channel_max=tune.channel_max, frame_max=tune.frame_max,
                     heartbeat=0)),
            (0, make(Connection.Open, virtual_host="/", capabilities="", insist=False)),
            (1, make(Channel.Open, out_of_band="0")),
            (2, make(Channel.Open, out_of_band="0")),
        ]  # fmt: skip
        data = b"".join(encode_method(ChannelId(number), each) for number, each in methods)
        raw.socket.sendall(data)
        raw.expect(Connection.OpenOk)
        raw.expect(Channel.OpenOk)
        raw.expect(Channel.OpenOk)


def test_heartbeats_are_passed_from_end_to_end(nodes: Nodes) -> None:
    with RawClient(nodes.second.port).open(heartbeat=1) as raw:
        raw.expect_heartbeat()
        heard = heard_until_the_end(raw.socket, b"")
    beats, close, _ = heard.partition(close_frame(LEADER_GONE))
    assert close, "the leader closed a silent client without a reason"
    assert beats == HEARTBEAT_FRAME * (len(beats) // len(HEARTBEAT_FRAME))


def test_the_relaying_node_closes_its_clients_when_it_stops(nodes: Nodes) -> None:
    connection = nodes.second.connect()
    nodes.do(nodes.second.scope.cancel)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
        connection.channel()
    assert closed.value.reply_code == 320
    assert "shutdown" in closed.value.reply_text


def test_a_leader_whose_process_is_gone_is_reported_as_such(nodes: Nodes) -> None:
    connection = nodes.second.connect()

    def cut() -> None:
        for each in list(nodes.first.roster):
            each.link.reset()
            each.link.abort()

    nodes.do(cut)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
        connection.channel()
    assert closed.value.reply_code == 320
    assert LEADER_GONE in closed.value.reply_text
