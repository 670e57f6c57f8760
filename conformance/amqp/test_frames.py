"""Frames that are correct, unusual or wrong in ways that no client library would send."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from conformance.amqp.wire import LOGIN, WireClient
from conformance.conftest import Target
from pamqp import commands, frame

METHOD, CONTENT_HEADER, BODY = 1, 2, 3
NOBODY = (0, 0)
PUBLISH = (60, 40)

FIELDS: dict[str, bytes] = {
    "byte": b"b\xff",
    "unsigned byte": b"B\xff",
    "short": b"s\xff\xfe",
    "unsigned short": b"u\xff\xfe",
    "int": b"I\xff\xff\xff\xfe",
    "unsigned int": b"i\xff\xff\xff\xfe",
    "long": b"l" + bytes(7) + b"\x05",
    "long by its other name": b"L" + b"\xff" * 8,
    "decimal": b"D\x02\xff\xff\xff\xff",
    "float": b"f" + struct.pack(">f", 1.5),
    "double": b"d" + struct.pack(">d", 1.5),
    "timestamp": b"T" + b"\xff" * 8,
    "void": b"V",
    "truth": b"t\x01",
    "text that is none": b"S\x00\x00\x00\x02\xff\x00",
    "octets": b"x\x00\x00\x00\x02\x00\xff",
    "nothing in a table": b"F\x00\x00\x00\x00",
    "nothing in an array": b"A\x00\x00\x00\x00",
    "a bit of everything": b"A\x00\x00\x00\x0et\x01I\x00\x00\x00\x01VF\x00\x00\x00\x00V",
}


def framed(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def text(value: str) -> bytes:
    return bytes((len(value),)) + value.encode()


def publish(queue: str) -> bytes:
    return framed(METHOD, b"\x00\x3c\x00\x28\x00\x00\x00" + text(queue) + b"\x00")


def header(size: int, properties: bytes = b"\x00\x00") -> bytes:
    return framed(CONTENT_HEADER, struct.pack(">HHQ", 60, 0, size) + properties)


def body(data: bytes) -> bytes:
    return framed(BODY, data)


@pytest.fixture
def raw(broker: Target) -> Iterator[WireClient]:
    """A connection with one open channel."""
    with WireClient(broker) as made:
        made.tune()
        made.open_channel()
        yield made


@pytest.fixture
def own(raw: WireClient) -> str:
    """An exclusive queue of the raw connection."""
    raw.send(commands.Queue.Declare(exclusive=True), 1)
    answer = raw.read()
    assert isinstance(answer, commands.Queue.DeclareOk)
    return answer.queue or ""


def got(raw: WireClient, queue: str) -> tuple[bytes, bytes]:
    """Get the next message; the result is its encoded properties and its body."""
    raw.send(commands.Basic.Get(queue=queue, no_ack=True), 1)
    kind, method = raw.read_head()
    assert (kind, method[:4]) == (METHOD, b"\x00\x3c\x00\x47"), method
    kind, start = raw.read_head()
    assert kind == CONTENT_HEADER
    (size,) = struct.unpack_from(">Q", start, 4)
    data = b""
    while len(data) < size:
        kind, part = raw.read_head()
        assert kind == BODY
        data += part
    return start[12:], data


def ended(answer: Any) -> tuple[int, str, tuple[int, int]]:
    """Reply code, text and the failing method's class and id, from the method that closed the
    connection."""
    assert isinstance(answer, commands.Connection.Close), answer
    return answer.reply_code or 0, answer.reply_text or "", (answer.class_id, answer.method_id)


@pytest.mark.parametrize("name", FIELDS)
def test_a_header_of_any_type_comes_back_octet_by_octet(
    raw: WireClient, own: str, name: str
) -> None:
    fields = text(name) + FIELDS[name]
    properties = b"\x20\x00" + struct.pack(">I", len(fields)) + fields
    raw.socket.sendall(publish(own) + header(0, properties))
    assert got(raw, own) == (properties, b"")


def test_flags_of_no_property_are_passed_on(raw: WireClient, own: str) -> None:
    for properties in (b"\x00\x01", b"\x00\x02", b"\x80\x02\x01t"):
        raw.socket.sendall(publish(own) + header(1, properties) + body(b"x"))
        assert got(raw, own) == (properties, b"x")


def test_a_body_may_be_cut_anywhere(raw: WireClient, own: str) -> None:
    pieces = (b"", b"a", b"", b"bcdef", b"g")
    raw.socket.sendall(publish(own) + header(7) + b"".join(map(body, pieces)))
    assert got(raw, own) == (b"\x00\x00", b"abcdefg")


def test_an_empty_message_has_no_body_frame(raw: WireClient, own: str) -> None:
    raw.socket.sendall(publish(own) + header(0) + body(b""))
    words = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    assert ended(raw.read()) == (505, words, NOBODY)


@pytest.mark.parametrize("pieces", [(b"abcd",), (b"ab", b"cd")])
def test_more_body_than_announced(raw: WireClient, own: str, pieces: tuple[bytes, ...]) -> None:
    raw.socket.sendall(publish(own) + header(3) + b"".join(map(body, pieces)))
    # RabbitMQ notices the surplus only when another frame follows.
    raw.send(commands.Basic.Qos(), 1)
    words = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
    assert ended(raw.read()) == (505, words, PUBLISH)


def test_contents_of_two_channels_may_alternate(raw: WireClient, own: str) -> None:
    raw.open_channel(2)
    first = [publish(own), header(2), body(b"a"), body(b"b")]
    second = [each[:1] + b"\x00\x02" + each[3:] for each in first]
    mixed = zip(first, second, strict=True)
    raw.socket.sendall(b"".join(part for pair in mixed for part in pair))
    raw.send(commands.Basic.Qos(), 2)
    assert isinstance(raw.read(), commands.Basic.QosOk)
    assert [got(raw, own)[1] for _ in range(2)] == [b"ab", b"ab"]


def test_the_old_access_class_gets_a_ticket(raw: WireClient) -> None:
    raw.socket.sendall(framed(METHOD, b"\x00\x1e\x00\x0a" + text("/data") + b"\x1e"))
    assert raw.read_head() == (METHOD, b"\x00\x1e\x00\x0b\x00\x01")


def test_any_ticket_and_unknown_bits_do(raw: WireClient) -> None:
    declare = b"\x00\x32\x00\x0a\xff\xff\x00\xe4\x00\x00\x00\x00"
    raw.socket.sendall(framed(METHOD, declare))
    assert isinstance(raw.read(), commands.Queue.DeclareOk)


def test_only_brokers_answer_channel_flow(raw: WireClient) -> None:
    raw.send(commands.Channel.FlowOk(True), 1)
    assert ended(raw.read()) == (503, "COMMAND_INVALID - unimplemented method", (20, 21))


def test_a_closing_channel_cannot_be_opened(raw: WireClient) -> None:
    raw.send(commands.Queue.Declare(queue="nope", passive=True), 1)
    assert isinstance(raw.read(), commands.Channel.Close)
    words = "CHANNEL_ERROR - second 'channel.open' seen"
    assert ended(raw.open_channel()) == (504, words, (20, 10))


def test_what_a_closing_channel_is_sent_is_thrown_away(raw: WireClient, own: str) -> None:
    raw.send(commands.Queue.Declare(queue="nope", passive=True), 1)
    assert isinstance(raw.read(), commands.Channel.Close)
    raw.socket.sendall(publish(own) + header(1) + body(b"x"))
    raw.send(commands.Queue.Purge(queue="nope"), 1)
    raw.send(commands.Channel.CloseOk(), 1)
    assert isinstance(raw.open_channel(), commands.Channel.OpenOk)
    raw.send(commands.Basic.Get(queue=own), 1)
    assert isinstance(raw.read(), commands.Basic.GetEmpty)


def test_what_comes_together_with_a_close_is_thrown_away(raw: WireClient, own: str) -> None:
    close = frame.marshal(commands.Channel.Close(200, "bye", 0, 0), 1)
    get = frame.marshal(commands.Basic.Get(queue="nope"), 1)
    raw.socket.sendall(close + publish(own) + header(1) + body(b"x") + get + close)
    assert [type(raw.read()) for _ in range(2)] == [commands.Channel.CloseOk] * 2
    assert isinstance(raw.open_channel(), commands.Channel.OpenOk)
    raw.send(commands.Basic.Get(queue=own), 1)
    assert isinstance(raw.read(), commands.Basic.GetEmpty)


def test_what_comes_after_the_answer_to_a_close_needs_a_channel(raw: WireClient) -> None:
    close = commands.Channel.Close(200, "bye", 0, 0)
    raw.send(close, 1)
    assert isinstance(raw.read(), commands.Channel.CloseOk)
    raw.send(close, 1)
    assert ended(raw.read()) == (504, "CHANNEL_ERROR - expected 'channel.open'", (20, 40))


def test_a_failed_login_names_no_method(broker: Target) -> None:
    can_be_told = {"capabilities": {"authentication_failure_close": True}}
    with WireClient(broker) as raw:
        code, words, blamed = ended(raw.start(response="\0guest\0wrong", **can_be_told))
    assert (code, blamed) == (403, NOBODY)
    assert words.startswith("ACCESS_REFUSED - Login was refused")


def test_a_channel_too_many_names_no_method(broker: Target) -> None:
    with WireClient(broker) as raw:
        raw.tune(channel_max=1)
        raw.open_channel()
        words = "number of channels opened (1) has reached the negotiated channel_max (1)"
        assert ended(raw.open_channel(2)) == (530, f"NOT_ALLOWED - {words}", NOBODY)


def test_a_name_that_is_not_text_names_no_method(raw: WireClient) -> None:
    raw.socket.sendall(framed(METHOD, b"\x00\x32\x00\x0a\x00\x00\x01\xff\x00\x00\x00\x00\x00"))
    words = "FRAME_ERROR - Malformed UTF-8 in shortstr"
    assert ended(raw.read()) == (501, words, NOBODY)


def test_channels_come_after_the_virtual_host(broker: Target) -> None:
    with WireClient(broker) as raw:
        assert isinstance(raw.start(response=LOGIN), commands.Connection.Tune)
        raw.send(commands.Connection.TuneOk(10, 131_072, 0))
        raw.send(commands.Channel.Open(), 1)
        words = "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,1,48>>"
        assert ended(raw.read()) == (505, words, NOBODY)


@pytest.mark.parametrize("tag", [0, 1, (1 << 63) - 1, (1 << 64) - 1])
def test_a_tag_of_any_size_is_unknown(raw: WireClient, tag: int) -> None:
    nack = b"\x00\x3c\x00\x78" + struct.pack(">Q", tag) + b"\x02"
    raw.socket.sendall(framed(METHOD, nack))
    answer = raw.read()
    assert isinstance(answer, commands.Channel.Close)
    assert answer.reply_text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_answers_come_once_whatever_the_tag_and_the_arguments(raw: WireClient) -> None:
    consume = commands.Basic.Consume(
        queue="amq.rabbitmq.reply-to", consumer_tag="c", no_ack=True, arguments={"x-priority": "x"}
    )
    raw.send(consume, 1)
    assert isinstance(raw.read(), commands.Basic.ConsumeOk)
    raw.send(consume, 1)
    answer = raw.read()
    assert isinstance(answer, commands.Channel.Close)
    assert answer.reply_text == "PRECONDITION_FAILED - reply consumer already set"


def test_frames_are_what_pamqp_makes_of_them() -> None:
    """Our own encoding of frames agrees with pamqp's."""
    assert publish("q") == frame.marshal(commands.Basic.Publish(routing_key="q"), 1)
