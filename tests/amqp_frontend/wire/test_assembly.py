"""What the readers answer to frames out of order, with RabbitMQ's codes and texts.

The cases are those of RabbitMQ's ``UnexpectedFrames`` and ``FrameMax`` suites, and of section 4.2.6
of the specification. Each is read both by the fast reader and frame by frame.
"""

from struct import pack

import pytest
from pamqp import commands
from tests.amqp_frontend.wire.slow_reader import SlowReader
from tests.amqp_frontend.wire.streams import (
    FRAME_BYTES_MAX,
    HEARTBEAT_BYTES,
    PLAIN,
    ack,
    content_header,
    publish,
    publish_method,
    raw_frame,
)

from arneb_amqp.errors import NO_METHOD, ChannelException, ReplyCode
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.fast import FastReader
from arneb_amqp.wire.items import HEARTBEAT, Broken, Content, Method, PublishRun
from arneb_amqp.wire.methods import encode_method

ONE, TWO = ChannelId(1), ChannelId(2)
DECLARE = encode_method(ONE, commands.Queue.Declare(queue="q"))
CLOSE = encode_method(ChannelId(0), commands.Connection.Close(200, "", 0, 0))
BEFORE = b"".join(publish(1, payload=b"x")) * 12

UNEXPECTED, FRAME, SYNTAX = (
    ReplyCode.UNEXPECTED_FRAME,
    ReplyCode.FRAME_ERROR,
    ReplyCode.SYNTAX_ERROR,
)
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
NOT_A_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
METHOD, HEADER, BODY = publish_method(1, b"", b"q"), content_header(1, 5), raw_frame(3, 1, b"hello")
PUBLISH = (60, 40)

CASES = [
    ("a header is missing", METHOD + BODY, UNEXPECTED, NO_HEADER, PUBLISH),
    ("a body is missing", METHOD + HEADER + METHOD, UNEXPECTED, NO_BODY, PUBLISH),
    ("an ack comes for a body", METHOD + HEADER + ack(1, 1), UNEXPECTED, NO_BODY, PUBLISH),
    ("a declare comes for a header", METHOD + DECLARE, UNEXPECTED, NO_HEADER, PUBLISH),
    ("two headers", METHOD + HEADER + HEADER, UNEXPECTED, NO_BODY, PUBLISH),
    ("a header without method", HEADER, UNEXPECTED, NOT_A_METHOD, NO_METHOD),
    ("a body without method", BODY, UNEXPECTED, NOT_A_METHOD, NO_METHOD),
    (
        "a header of another class",
        METHOD + raw_frame(2, 1, pack(">HHQ", 50, 0, 5) + PLAIN),
        UNEXPECTED,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        PUBLISH,
    ),
    (
        "a header with a weight",
        METHOD + raw_frame(2, 1, pack(">HHQ", 60, 1, 5) + PLAIN),
        UNEXPECTED,
        NO_HEADER,
        PUBLISH,
    ),
    (
        "a body that is too long",
        METHOD + HEADER + raw_frame(3, 1, b"hello!"),
        UNEXPECTED,
        NO_BODY,
        PUBLISH,
    ),
    (
        "a heartbeat on a channel",
        raw_frame(8, 1, b""),
        UNEXPECTED,
        "UNEXPECTED_FRAME - type 8, all octets = <<>>",
        NO_METHOD,
    ),
    (
        "a body on channel 0",
        raw_frame(3, 0, b"hello"),
        UNEXPECTED,
        'UNEXPECTED_FRAME - type 3, all octets = <<"hello">>',
        NO_METHOD,
    ),
    (
        "an unknown type",
        raw_frame(4, 1, bytes(20)),
        FRAME,
        f"FRAME_ERROR - type 4, first 16 octets = <<{','.join('0' * 16)}>>: unknown_frame",
        NO_METHOD,
    ),
    (
        "a heartbeat with a payload",
        raw_frame(8, 0, b"x"),
        FRAME,
        'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame',
        NO_METHOD,
    ),
    (
        "a method too short to be one",
        raw_frame(1, 1, b"\x00\x3c"),
        FRAME,
        "FRAME_ERROR - type 1, all octets = <<0,60>>: unknown_frame",
        NO_METHOD,
    ),
    (
        "a method with fields missing",
        raw_frame(1, 1, b"\x00\x3c\x00\x28\x00\x00"),
        FRAME,
        "FRAME_ERROR - cannot decode <<0,0>>",
        PUBLISH,
    ),
    (
        "a method with octets left over",
        raw_frame(1, 1, METHOD[7:-1] + b"\x00"),
        FRAME,
        "FRAME_ERROR - cannot decode <<0,0,0,1,113,0,0>>",
        PUBLISH,
    ),
    (
        "a name that is no text",
        DECLARE.replace(b"\x01q", b"\x01\xff"),
        FRAME,
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        NO_METHOD,
    ),
    (
        "an unknown method",
        raw_frame(1, 1, pack(">HH", 60, 999)),
        ReplyCode.NOT_IMPLEMENTED,
        "NOT_IMPLEMENTED - unknown method 60.999",
        NO_METHOD,
    ),
    (
        "malformed properties",
        METHOD + content_header(1, 5, b"\x80\x00\x0athree") + BODY,
        SYNTAX,
        "SYNTAX_ERROR - malformed property list of 8 octets, flags 8000",
        PUBLISH,
    ),
]


@pytest.mark.parametrize("kind", [FastReader, SlowReader])
@pytest.mark.parametrize(
    ("raw", "code", "text", "method"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_breaking_the_rules_is_answered_like_rabbitmq(
    kind: type[FastReader | SlowReader],
    raw: bytes,
    code: ReplyCode,
    text: str,
    method: tuple[int, int],
) -> None:
    reader = kind(FRAME_BYTES_MAX)
    before, broken = reader.receive(BEFORE + raw)
    assert isinstance(before, PublishRun)
    assert len(before.bodies) == 12
    assert isinstance(broken, Broken)
    assert not broken.framing_lost
    assert broken.error.reply_code is code
    assert broken.error.reply_text == text
    assert (broken.error.method or NO_METHOD) == method
    # From now on only channel 0 is read.
    (close,) = reader.receive(BEFORE + HEADER + HEARTBEAT_BYTES + CLOSE)
    assert isinstance(close, Method)
    assert isinstance(close.method, commands.Connection.Close)


@pytest.mark.parametrize("kind", [FastReader, SlowReader])
def test_an_empty_message_has_no_body_frame(kind: type[FastReader | SlowReader]) -> None:
    empty = METHOD + content_header(1, 0)
    run, broken = kind(FRAME_BYTES_MAX).receive(empty + empty + raw_frame(3, 1, b"") + empty)
    assert isinstance(run, PublishRun)
    assert len(run.bodies) == 2
    assert isinstance(broken, Broken)
    assert broken.error.reply_text == NOT_A_METHOD
    assert broken.error.reply_code is UNEXPECTED


@pytest.mark.parametrize("kind", [FastReader, SlowReader])
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            raw_frame(3, 1, b"hello", end=b"\x00"),
            'type 3, all octets = <<"hello">>: {invalid_frame_end_marker,0}',
        ),
        (
            b"".join(publish(1))[:-1] + b"\xcd",
            'type 3, all octets = <<"hello">>: {invalid_frame_end_marker,205}',
        ),
        (
            METHOD[:-1] + b"\x00" + HEADER + BODY,
            "type 1, all octets = <<0,60,0,40,0,0,0,1,113,0>>: {invalid_frame_end_marker,0}",
        ),
        (
            METHOD + content_header(1, 0)[:-1] + b"\x00" + HEARTBEAT_BYTES,
            (
                "type 2, first 16 octets = <<0,60,0,0,0,0,0,0,0,0,0,0,144,0,10,116>>: "
                "{invalid_frame_end_marker,0}"
            ),
        ),
        (
            ack(1, 1)[:-1] + b"\x00",
            "type 1, all octets = <<0,60,0,80,0,0,0,0,0,0,0,1,0>>: {invalid_frame_end_marker,0}",
        ),
        (
            raw_frame(1, 1, bytes(FRAME_BYTES_MAX + 1)),
            "type 1, all octets = <<>>: {frame_too_large,4097,4088}",
        ),
        (
            METHOD + content_header(1, 9000) + raw_frame(3, 1, bytes(9000)),
            "type 3, all octets = <<>>: {frame_too_large,9000,4088}",
        ),
    ],
)
def test_after_losing_the_frame_boundaries_nothing_more_is_read(
    kind: type[FastReader | SlowReader], raw: bytes, text: str
) -> None:
    """4.2.3: a frame that is too large, or lacks its end octet, is fatal."""
    reader = kind(FRAME_BYTES_MAX)
    before, broken = reader.receive(BEFORE + raw)
    assert isinstance(before, PublishRun)
    assert isinstance(broken, Broken)
    assert broken.framing_lost
    assert broken.error.reply_text == f"FRAME_ERROR - {text}"
    assert reader.receive(CLOSE) == []


def test_a_payload_eight_octets_over_the_limit_is_tolerated() -> None:
    """RabbitMQ accepts payloads of frame_max octets, and some clients send them."""
    frames = publish(1, payload=b"x" * FRAME_BYTES_MAX, part=FRAME_BYTES_MAX)
    (run,) = FastReader(FRAME_BYTES_MAX).receive(b"".join(frames))
    assert isinstance(run, PublishRun)


def test_without_a_frame_limit_the_largest_message_is_the_limit() -> None:
    reader = FastReader(0, message_bytes_max=100_000)
    assert reader.frame_bytes_max == 0
    frames = publish(1, payload=b"x" * 100_000, part=100_000)
    (run,) = reader.receive(b"".join(frames))
    assert isinstance(run, PublishRun)
    (broken,) = reader.receive(raw_frame(3, 1, b"")[:3] + pack(">I", 1 << 31))
    assert isinstance(broken, Broken)


@pytest.mark.parametrize("kind", [FastReader, SlowReader])
def test_a_message_that_is_too_large_closes_only_its_channel(
    kind: type[FastReader | SlowReader],
) -> None:
    reader = kind(FRAME_BYTES_MAX, message_bytes_max=10)
    large = publish(1, payload=b"x" * 11, part=4)
    items = reader.receive(BEFORE + b"".join(large) + BEFORE + ack(2, 1))
    assert len(items) == 4
    broken, after = items[1:3]
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, ChannelException)
    assert broken.channel == 1
    assert broken.error.reply_text == (
        "PRECONDITION_FAILED - message size 11 is larger than configured max size 10"
    )
    assert isinstance(after, PublishRun)
    assert len(after.bodies) == 12


def test_unfinished_messages_are_bounded_in_sum() -> None:
    reader = FastReader(FRAME_BYTES_MAX, partial_bytes_max=10_000)
    opened = [publish_method(n, b"", b"q") + content_header(n, 4000) for n in range(1, 4)]
    assert reader.receive(b"".join(opened)) == []
    items = reader.receive(b"".join(raw_frame(3, n, bytes(3999)) for n in range(1, 4)))
    (broken,) = items
    assert isinstance(broken, Broken)
    assert broken.error.reply_code is ReplyCode.RESOURCE_ERROR


def test_finished_messages_free_their_room() -> None:
    reader = FastReader(FRAME_BYTES_MAX, partial_bytes_max=10_000)
    for _ in range(10):
        (run,) = reader.receive(b"".join(publish(1, payload=b"x" * 9000)))
        assert isinstance(run, PublishRun)


def test_contents_of_other_methods_are_read_with_them() -> None:
    """A client must not send these; the session decides how to answer."""
    method = commands.Basic.Return(312, "NO_ROUTE", "", "q")
    raw = encode_method(TWO, method) + content_header(2, 5) + raw_frame(3, 2, b"hello")
    (item,) = FastReader(FRAME_BYTES_MAX).receive(raw)
    assert isinstance(item, Method)
    assert item.content == Content(PLAIN, b"hello")


def test_a_publish_on_channel_0_is_a_bare_method() -> None:
    (item,) = FastReader(FRAME_BYTES_MAX).receive(publish_method(0, b"", b"q"))
    assert isinstance(item, Method)
    assert item.channel == 0
    assert isinstance(item.method, commands.Basic.Publish)


@pytest.mark.parametrize("bits", [0, 1])
def test_an_ack_on_channel_0_is_a_bare_method(bits: int) -> None:
    (item,) = FastReader(FRAME_BYTES_MAX).receive(ack(0, 1, bits))
    assert isinstance(item, Method)
    assert isinstance(item.method, commands.Basic.Ack)


def test_after_close_only_channel_0_is_read() -> None:
    reader = FastReader(FRAME_BYTES_MAX)
    assert reader.receive(METHOD + HEADER) == []
    reader.close()
    raw = BODY + BEFORE + HEARTBEAT_BYTES + raw_frame(1, 0, b"\x00\x0a\xff\xff") + CLOSE
    (close,) = reader.receive(raw)
    assert isinstance(close, Method)


def test_heartbeats_are_items() -> None:
    assert FastReader(FRAME_BYTES_MAX).receive(HEARTBEAT_BYTES * 2) == [HEARTBEAT, HEARTBEAT]


def test_many_small_reads_of_a_large_frame_are_copied_once() -> None:
    """Bounded work: octets that do not complete a frame are only put aside."""
    reader = FastReader(0, message_bytes_max=1 << 22)
    raw = b"".join(publish(1, payload=bytes(1 << 21), part=1 << 21))
    items = []
    for at in range(0, len(raw), 64):
        items += reader.receive(raw[at : at + 64])
    assert len(items) == 1
