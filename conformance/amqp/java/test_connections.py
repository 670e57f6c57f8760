"""Java's ChannelLimitNegotiation, ConnectionOpen, FrameMax, Heartbeat, SaslMechanisms,
UnexpectedFrames and UserIDHeader: what client and broker negotiate, and that both keep to it."""

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import refused, take
from conformance.amqp.java.common import bare_frame, temporary
from conformance.amqp.wire import HEADER, WireClient
from conformance.conftest import Target
from pamqp import body, commands, frame, header
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ProbableAuthenticationError

FRAME_MAX = 70_000
"""More than the minimum and less than what brokers suggest, in bytes."""
FRAME_EXTRA = 8
"""Bytes of a frame that are not payload."""
FRAME_MIN = 4_096
METHOD, CONTENT_HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
CAN_BE_TOLD = {"capabilities": {"authentication_failure_close": True}}


@pytest.fixture
def raw(broker: Target) -> Iterator[WireClient]:
    with WireClient(broker) as made:
        yield made


def ended(answer: Any) -> tuple[int, str]:
    """Check that the connection was closed; the result is the reply code and text."""
    assert isinstance(answer, commands.Connection.Close), answer
    return answer.reply_code or 0, answer.reply_text or ""


def test_channel_limit_negotiation_channel_max_lower_than_server_minimum(
    connect: Connect,
) -> None:
    connection = connect(channel_max=64)
    assert connection._impl.params.channel_max == 64
    assert connection.channel(64).is_open


def test_channel_limit_negotiation_channel_max_greater_than_server_value(
    raw: WireClient,
) -> None:
    """Refused, either with connection.close or, as in RabbitMQ 3.10.8, by just closing the
    socket."""
    text = "NOT_ALLOWED - negotiated channel_max = 4096 is higher than the maximum allowed value"
    answer = raw.tune(channel_max=4096)
    assert answer is None or ended(answer) == (530, f"{text} (2047)")


def test_channel_limit_negotiation_opening_too_many_channels(raw: WireClient) -> None:
    assert isinstance(raw.tune(channel_max=48), commands.Connection.OpenOk)
    for number in range(1, 49):
        assert isinstance(raw.open_channel(number), commands.Channel.OpenOk)
    text = (
        "NOT_ALLOWED - number of channels opened (48) has reached the negotiated channel_max (48)"
    )
    assert ended(raw.open_channel(49)) == (530, text)


def test_connection_open_correct_protocol_header(raw: WireClient) -> None:
    raw.socket.sendall(HEADER)
    start = raw.read()
    assert isinstance(start, commands.Connection.Start)
    assert (start.version_major, start.version_minor) == (0, 9)


def test_connection_open_crazy_protocol_header(raw: WireClient) -> None:
    raw.socket.sendall(b"AMQP\x01\x01\x64\x03")
    assert raw._exactly(len(HEADER) + 1) == HEADER


def test_connection_open_frame_max_less_than_frame_min_size(raw: WireClient) -> None:
    """RabbitMQ 3.10.8 just closes the socket; sending connection.close first is also correct."""
    text = "NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value (4096)"
    answer = raw.tune(frame_max=100)
    assert answer is None or ended(answer) == (530, text)


def test_frame_max_negotiation_ok(connect: Connect) -> None:
    connection = connect(frame_max=FRAME_MAX)
    assert connection._impl.params.frame_max == FRAME_MAX


def test_frame_max_frame_sizes(raw: WireClient, queue: str, channel: BlockingChannel) -> None:
    """A body longer than a frame may be comes in several frames."""
    channel.confirm_delivery()
    channel.basic_publish("", queue, bytes(2 * FRAME_MAX))
    raw.tune(frame_max=FRAME_MAX)
    raw.open_channel()
    raw.send(commands.Basic.Get(queue=queue, no_ack=True), 1)
    assert isinstance(raw.read(), commands.Basic.GetOk)
    assert raw.read_head()[0] == CONTENT_HEADER
    sizes = []
    while sum(sizes) < 2 * FRAME_MAX:
        kind, payload = raw.read_head()
        assert kind == BODY
        sizes.append(len(payload))
    assert sum(sizes) == 2 * FRAME_MAX
    assert max(sizes) <= FRAME_MAX - FRAME_EXTRA
    assert len(sizes) == 3


def test_frame_max_reject_large_frames_during_connection_negotiation(
    raw: WireClient,
) -> None:
    """Until tuning is complete, only the minimum frame size is allowed."""
    answer = raw.start(too_long="x" * FRAME_MIN)
    assert answer is None or ended(answer)[0] == 501


def test_frame_max_reject_exceeding_frame_max(raw: WireClient) -> None:
    assert isinstance(raw.tune(frame_max=8192), commands.Connection.OpenOk)
    raw.open_channel()
    raw.send(commands.Basic.Publish(routing_key="void"), 1)
    content = header.ContentHeader(0, 2 * 8192, commands.Basic.Properties())
    raw.socket.sendall(frame.marshal(content, 1))
    raw.socket.sendall(bare_frame(BODY, 1, bytes(8192 + 1)))
    code, text = ended(raw.read())
    assert code == 501
    assert text == "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,8193,8184}"


def published(
    raw: WireClient, queue: str, properties: commands.Basic.Properties, data: bytes
) -> None:
    raw.send(commands.Basic.Publish(routing_key=queue), 1)
    raw.socket.sendall(frame.marshal(header.ContentHeader(0, len(data), properties), 1))
    for start in range(0, len(data), 60_000):
        raw.socket.sendall(frame.marshal(body.ContentBody(data[start : start + 60_000]), 1))


def with_headers(size: int) -> commands.Basic.Properties:
    return commands.Basic.Properties(headers={"x-huge-header": "x" * size})


def test_frame_max_reject_headers_exceeding_frame_max(
    raw: WireClient, queue: str, channel: BlockingChannel
) -> None:
    """A header frame of the maximum size is accepted, and a larger one is refused. Java's client
    never sends such a frame, but a broker checks it too. RabbitMQ lets the eight bytes of a frame
    that are not payload exceed the limit, so the refused frame here is larger by one more than
    that."""
    raw.tune(frame_max=FRAME_MAX)
    raw.open_channel()
    empty = frame.marshal(header.ContentHeader(0, 0, with_headers(0)), 1)
    most = FRAME_MAX - len(empty)
    published(raw, queue, with_headers(most), b"x" * 100)
    raw.send(commands.Basic.Qos(), 1)
    assert isinstance(raw.read(), commands.Basic.QosOk)
    assert take(channel, queue, 1)[0][2] == b"x" * 100
    published(raw, queue, with_headers(most + FRAME_EXTRA + 1), b"x")
    assert ended(raw.read())[0] == 501


def test_frame_max_unlimited_frame_max_with_headers(
    broker: Target, queue: str, channel: BlockingChannel
) -> None:
    """A client without a limit of its own accepts the server's."""
    with WireClient(broker) as raw:
        assert isinstance(raw.tune(), commands.Connection.OpenOk)
        raw.open_channel()
        published(raw, queue, with_headers(50_000), bytes(500_000))
        raw.send(commands.Basic.Qos(), 1)
        assert isinstance(raw.read(), commands.Basic.QosOk)
    assert take(channel, queue, 1)[0][2] == bytes(500_000)


def test_heartbeat_heartbeat(broker: Target) -> None:
    """A client that sends heartbeats stays connected; one that stops is disconnected."""
    with WireClient(broker) as raw:
        assert isinstance(raw.tune(heartbeat=1), commands.Connection.OpenOk)
        end = time.monotonic() + 3.1
        while time.monotonic() < end:
            assert raw.read_head() == (HEARTBEAT, b"")
            raw.socket.sendall(bare_frame(HEARTBEAT, 0, b""))
        raw.socket.settimeout(5)
        while (answer := raw.read()) is not None:
            assert "Heartbeat" in type(answer).__name__ or isinstance(
                answer, commands.Connection.Close
            )
        assert time.monotonic() < end + 5


WRONG = "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the "
AMQPLAIN = "\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05"


def test_sasl_mechanisms_plain_login(broker: Target) -> None:
    with WireClient(broker) as raw:
        assert isinstance(raw.start("PLAIN", "\0guest\0guest"), commands.Connection.Tune)
    with WireClient(broker) as raw:
        answer = raw.start("PLAIN", "\0guest\0wrong", **CAN_BE_TOLD)
        assert ended(answer) == (403, WRONG.format("PLAIN") + "broker logfile.")


def test_sasl_mechanisms_amqplain_login(broker: Target) -> None:
    with WireClient(broker) as raw:
        assert isinstance(raw.start("AMQPLAIN", AMQPLAIN + "guest"), commands.Connection.Tune)
    with WireClient(broker) as raw:
        answer = raw.start("AMQPLAIN", AMQPLAIN + "wrong", **CAN_BE_TOLD)
        assert ended(answer) == (403, WRONG.format("AMQPLAIN") + "broker logfile.")


def test_sasl_mechanisms_cr_login(raw: WireClient) -> None:
    """The mechanism comes with a demonstration plugin; without the plugin it is unknown, like any
    other unknown name."""
    answer = raw.start("RABBIT-CR-DEMO", "guest")
    text = "COMMAND_INVALID - unknown authentication mechanism 'RABBIT-CR-DEMO'"
    assert answer is None or ended(answer) == (503, text)


@pytest.mark.parametrize("user", ["incorrect-username", "guest"], ids=["Username", "Password"])
def test_sasl_mechanisms_connection_close_auth_failure(broker: Target, user: str) -> None:
    """A client that does not announce the capability ``authentication_failure_close`` just finds
    the socket closed."""
    with WireClient(broker) as raw:
        assert raw.start("PLAIN", f"\0{user}\0incorrect-password") is None
    parameters = pika.ConnectionParameters(
        broker.address.host, broker.address.port,
        credentials=pika.PlainCredentials(user, "incorrect-password"),
    )  # fmt: skip
    with pytest.raises((ProbableAuthenticationError, AMQPConnectionError)):
        pika.BlockingConnection(parameters)


@pytest.fixture
def confused(raw: WireClient) -> WireClient:
    """A client that has started a publish and not finished it."""
    raw.tune()
    raw.open_channel()
    raw.send(commands.Basic.Publish(routing_key="routing key"), 1)
    return raw


FIVE = header.ContentHeader(0, 5, commands.Basic.Properties())
UNEXPECTED = "UNEXPECTED_FRAME - expected "


def test_unexpected_frames_missing_header(confused: WireClient) -> None:
    confused.socket.sendall(bare_frame(BODY, 1, b"Hello"))
    text = "content header for class 60, got non content header frame instead"
    assert ended(confused.read()) == (505, UNEXPECTED + text)


def test_unexpected_frames_missing_method(raw: WireClient) -> None:
    raw.tune()
    raw.open_channel()
    payload = frame.marshal(commands.Basic.Publish(routing_key="routing key"), 1)[7:-1]
    raw.socket.sendall(bare_frame(CONTENT_HEADER, 1, payload))
    text = "method frame, got non method frame instead"
    assert ended(raw.read()) == (505, UNEXPECTED + text)


def test_unexpected_frames_missing_body(confused: WireClient) -> None:
    confused.socket.sendall(frame.marshal(FIVE, 1))
    confused.send(commands.Basic.Qos(), 1)
    text = "content body, got non content body frame instead"
    assert ended(confused.read()) == (505, UNEXPECTED + text)


def test_unexpected_frames_wrong_class_in_header(confused: WireClient) -> None:
    payload = b"\x0c\x22" + frame.marshal(FIVE, 1)[9:-1]
    confused.socket.sendall(bare_frame(CONTENT_HEADER, 1, payload))
    text = "content header for class 60, got one for class 3106 instead"
    assert ended(confused.read()) == (505, UNEXPECTED + text)


def test_unexpected_frames_heartbeat_on_channel(raw: WireClient) -> None:
    raw.tune()
    raw.open_channel()
    raw.socket.sendall(bare_frame(HEARTBEAT, 1, b""))
    assert ended(raw.read()) == (505, "UNEXPECTED_FRAME - type 8, all octets = <<>>")


def test_unexpected_frames_unknown_frame_type(raw: WireClient) -> None:
    raw.tune()
    raw.open_channel()
    raw.socket.sendall(bare_frame(0, 1, b"1234567890\0001234567890"))
    octets = "49,50,51,52,53,54,55,56,57,48,0,49,50,51,52,53"
    text = f"FRAME_ERROR - type 0, first 16 octets = <<{octets}>>: unknown_frame"
    assert ended(raw.read()) == (501, text)


def test_user_id_header_valid_user_id(channel: BlockingChannel) -> None:
    channel.basic_publish("amq.fanout", "", b"", pika.BasicProperties(user_id="guest"))
    temporary(channel)


def test_user_id_header_invalid_user_id(channel: BlockingChannel, name: Named) -> None:
    properties = pika.BasicProperties(user_id="not the guest, honest")
    channel.basic_publish("amq.fanout", "", b"", properties)
    text = (
        "PRECONDITION_FAILED - user_id property set to 'not the guest, honest' but authenticated "
        "user was 'guest'"
    )
    with refused(406, text):
        temporary(channel)
