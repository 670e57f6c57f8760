"""Connecting: versions, credentials, tuning, heartbeats, virtual hosts."""

import struct
import time
from contextlib import suppress

import pika
import pytest
from conformance.amqp.conftest import Connect
from conformance.amqp.helpers import WITHIN_S
from conformance.amqp.wire import HEADER, LOGIN, Wire
from conformance.conftest import Target
from pamqp import commands, frame
from pika.exceptions import ProbableAccessDeniedError, ProbableAuthenticationError

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "authentication_failure_close",
    "per_consumer_qos",
)


def test_the_server_says_what_it_can(connect: Connect) -> None:
    connection = connect()
    properties = connection._impl.server_properties
    for capability in CAPABILITIES:
        assert properties["capabilities"][capability] is True
    assert {"product", "version", "platform"} <= set(properties)


def test_a_wrong_protocol_header_is_answered_with_the_right_one(broker: Target) -> None:
    """4.2.2: the server sends its own header and closes the socket."""
    for header in (b"AMQP\x01\x01\x00\x0a", b"GET / HT", b"AMQP\x00\x01\x00\x00"):
        with Wire(broker) as wire:
            wire.socket.sendall(header)
            assert wire._exactly(100) == HEADER


def test_start_offers_plain_and_amqplain(broker: Target) -> None:
    with Wire(broker) as wire:
        wire.socket.sendall(HEADER)
        start = wire.read()
        assert isinstance(start, commands.Connection.Start)
        assert (start.version_major, start.version_minor) == (0, 9)
        assert {"PLAIN", "AMQPLAIN"} <= set(str(start.mechanisms).split())
        assert "en_US" in str(start.locales).split()


def test_tune_offers_what_clients_expect(broker: Target) -> None:
    with Wire(broker) as wire:
        wire.socket.sendall(HEADER)
        wire.read()
        wire.send(commands.Connection.StartOk({}, "PLAIN", LOGIN, "en_US"))
        tune = wire.read()
        assert isinstance(tune, commands.Connection.Tune)
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


@pytest.mark.parametrize("kind", [b"S", b"x"], ids=["as texts", "as octets"])
def test_amqplain_works(broker: Target, kind: bytes) -> None:
    pairs = ((b"LOGIN", b"guest"), (b"PASSWORD", b"guest"))
    response = b"".join(
        bytes([len(key)]) + key + kind + struct.pack(">I", len(value)) + value
        for key, value in pairs
    )
    with Wire(broker) as wire:
        wire.open("AMQPLAIN", response.decode("latin-1"))


def test_a_wrong_password_is_refused(connect: Connect) -> None:
    with pytest.raises(ProbableAuthenticationError) as caught:
        connect(credentials=pika.PlainCredentials("guest", "wrong"))
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in str(
        caught.value
    )


def test_an_unknown_virtual_host_is_refused(connect: Connect) -> None:
    with pytest.raises(ProbableAccessDeniedError) as caught:
        connect(virtual_host="nope")
    assert "(530) 'NOT_ALLOWED - vhost nope not found'" in str(caught.value)


def test_a_larger_frame_than_offered_is_refused(broker: Target) -> None:
    with Wire(broker) as wire:
        wire.socket.sendall(HEADER)
        wire.read()
        wire.send(commands.Connection.StartOk({}, "PLAIN", LOGIN, "en_US"))
        wire.read()
        wire.send(commands.Connection.TuneOk(0, 200_000, 0))
        answer = wire.read()
        if answer is not None:  # RabbitMQ 3.10 just closes the socket, after 3 s
            assert isinstance(answer, commands.Connection.Close)
            assert answer.reply_code == 530
            assert "frame_max = 200000 is higher than the maximum" in str(answer.reply_text)


def test_heartbeats_come_and_keep_an_idle_connection(broker: Target) -> None:
    with Wire(broker) as wire:
        wire.open(heartbeat=2)
        for _ in range(6):
            assert frame.unmarshal(wire._exactly(8))[2].name == "Heartbeat"
            wire.socket.sendall(b"\x08\x00\x00\x00\x00\x00\x00\xce")


def test_a_silent_client_is_closed_after_missed_heartbeats(broker: Target) -> None:
    with Wire(broker) as wire:
        wire.open(heartbeat=1)
        began = time.monotonic()
        wire.socket.settimeout(WITHIN_S)
        while wire.read() is not None:
            pass
        assert time.monotonic() - began > 1.5


def test_what_a_dead_client_held_comes_back(broker: Target, connect: Connect) -> None:
    """The client's machine has died: it sends no heartbeats, and its socket is never closed."""
    channel = connect().channel()
    channel.queue_declare("held by the dead", exclusive=False, auto_delete=False)
    with Wire(broker) as dead:
        dead.open(heartbeat=1)
        dead.send(commands.Channel.Open(), 1)
        assert isinstance(dead.read(), commands.Channel.OpenOk)
        dead.send(commands.Basic.Consume(queue="held by the dead", consumer_tag="c"), 1)
        assert isinstance(dead.read(), commands.Basic.ConsumeOk)
        channel.basic_publish("", "held by the dead", b"x")
        while not isinstance(dead.read(), commands.Basic.Deliver):
            pass
        came = channel.consume("held by the dead", auto_ack=True, inactivity_timeout=WITHIN_S)
        assert next(iter(came))[2] == b"x"
    channel.cancel()
    channel.queue_delete("held by the dead")


def test_the_client_closes_the_socket_first(broker: Target) -> None:
    """1.4.2.11 close-ok: "... it will close the socket". Some clients treat an earlier end of the
    stream as an error."""
    # if this process was stalled for seconds, the broker may rightly have given up waiting
    for _ in range(5):
        with Wire(broker) as wire:
            wire.open()
            wire.send(commands.Connection.Close(200, "bye", 0, 0))
            assert isinstance(wire.read(), commands.Connection.CloseOk)
            wire.socket.settimeout(0.2)
            with suppress(TimeoutError):
                assert wire.read() is None
                continue
            return
    raise AssertionError("the broker has closed the socket first, five times")


def test_close_is_answered(broker: Target) -> None:
    with Wire(broker) as wire:
        wire.open()
        wire.send(commands.Connection.Close(200, "bye", 0, 0))
        assert isinstance(wire.read(), commands.Connection.CloseOk)


def test_a_close_of_one_connection_leaves_the_others(connect: Connect) -> None:
    first, second = connect(), connect()
    first.close()
    assert second.channel().is_open
