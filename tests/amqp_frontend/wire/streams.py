"""Streams of frames as clients send them, and the plain facts that a reader must find in them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import pack

from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat
from tests.amqp_frontend.fields import properties

from arneb_amqp.wire.constants import BASIC_NACK
from arneb_amqp.wire.items import (
    Ack,
    AckRun,
    Broken,
    Heartbeat,
    Item,
    Method,
    Publish,
    PublishRun,
    RejectRun,
    VariedRun,
)
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.properties import encode_properties

FRAME_BYTES_MAX = 4096
"""Small, so that bodies of several frames are cheap to make."""

MESSAGE_BYTES_MAX = 20_000
"""Small too, so that messages over the limit are as well."""

PLAIN = pack(">H", 0x9000) + b"\x0atext/plain" + b"\x02"
"""Properties of a persistent message."""


def raw_frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return pack(">BHI", kind, channel, len(payload)) + payload + end


def publish_method(channel: int, exchange: bytes, key: bytes, bits: int = 0) -> bytes:
    fields = bytes((len(exchange),)) + exchange + bytes((len(key),)) + key + bytes((bits,))
    return raw_frame(1, channel, pack(">HHH", 60, 40, 0) + fields)


def content_header(channel: int, size: int, list_: bytes = PLAIN) -> bytes:
    return raw_frame(2, channel, pack(">HHQ", 60, 0, size) + list_)


def publish(
    channel: int,
    exchange: bytes = b"",
    key: bytes = b"orders",
    payload: bytes = b"hello",
    list_: bytes = PLAIN,
    bits: int = 0,
    part: int = FRAME_BYTES_MAX - 8,
) -> list[bytes]:
    """The frames of a publish."""
    parts = [payload[at : at + part] for at in range(0, len(payload), part)]
    return [
        publish_method(channel, exchange, key, bits),
        content_header(channel, len(payload), list_),
        *(raw_frame(3, channel, each) for each in parts),
    ]


def ack(channel: int, tag: int, bits: int = 0) -> bytes:
    return raw_frame(1, channel, pack(">HHQB", 60, 80, tag, bits))


HEARTBEAT_BYTES = raw_frame(8, 0, b"")

_channels = st.integers(1, 3)
_routes = st.sampled_from([(b"", b"orders"), (b"", b"k\xff"), (b"ex", b""), (b"ex", b"a.b")])
_lists = st.one_of(
    st.sampled_from(
        [
            PLAIN,
            pack(">H", 0x1000) + b"\x01",
            pack(">H", 0x1000) + b"\x03",
            pack(">H", 0),
            pack(">H", 0x1080) + b"\x02\x02id",
            pack(">H", 0x1080) + b"\x02\x02ID",
            pack(">H", 0x0100) + b"\x0210",
            pack(">HI", 0x2000, 5) + b"\x02CCb\x01",
        ]
    ),
    properties.map(encode_properties),
)
_payloads = st.one_of(
    st.sampled_from([b"", b"x", b"x" * 100, b"\xce" * 50, b"y" * 5000]), st.binary(max_size=60)
)

_METHODS = [
    commands.Channel.Open(),
    commands.Channel.Close(200, "bye", 0, 0),
    commands.Queue.Declare(queue="q", durable=True),
    commands.Basic.Consume(queue="q", consumer_tag="t", no_ack=True),
    commands.Basic.Qos(0, 10, True),
    commands.Basic.Nack(7, True, False),
    commands.Basic.Get(queue="q"),
    commands.Tx.Commit(),
    commands.Confirm.Select(),
]


@st.composite
def _publishes(draw: st.DrawFn) -> list[list[bytes]]:
    """Publishes of one client: many alike, so that they form runs."""
    channel, (exchange, key), bits = (
        draw(_channels),
        draw(_routes),
        draw(st.sampled_from([0, 0, 1])),
    )
    lists = draw(st.lists(_lists, min_size=1, max_size=2))
    payloads = draw(st.lists(_payloads, min_size=1, max_size=2))
    part = draw(st.sampled_from([FRAME_BYTES_MAX - 8, 40]))
    return [
        publish(
            channel, exchange, key, payloads[at % len(payloads)], lists[at % len(lists)], bits, part
        )
        for at in range(draw(st.sampled_from([1, 2, 3, 20])))
    ]


def reject(channel: int, tag: int, bits: int = 0) -> bytes:
    return raw_frame(1, channel, pack(">HHQB", 60, 90, tag, bits))


def nack(channel: int, tag: int, bits: int = 0) -> bytes:
    return raw_frame(1, channel, pack(">HHQB", 60, 120, tag, bits))


@st.composite
def _answers(draw: st.DrawFn) -> list[list[bytes]]:
    """Acks, rejects or nacks in a row, most with the same bits."""
    answer, channel = draw(st.sampled_from([ack, reject, nack])), draw(_channels)
    bits = draw(st.sampled_from([0, 0, 1, 2, 3]))
    others = st.sampled_from([bits] * 5 + [0, 1, 2, 3])
    tags = draw(st.lists(st.integers(0, 1 << 64 - 1), max_size=9))
    return [[answer(channel, tag, draw(others))] for tag in tags]


_others = st.one_of(
    st.builds(
        lambda channel, method: [[encode_method(channel, method)]],
        _channels,
        st.sampled_from(_METHODS),
    ),
    st.just([[HEARTBEAT_BYTES]]),
    st.just([[encode_method(0, commands.Connection.CloseOk())]]),  # type: ignore[arg-type]
)

scripts = st.lists(st.one_of(_publishes(), _answers(), _others), max_size=6).map(
    lambda groups: [action for group in groups for action in group]
)
"""What the channels do one after the other; each action is its frames."""


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """The frames of a script; frames of other channels may come between the frames of a content."""
    actions = draw(scripts)
    rank = 1 if draw(st.booleans()) else 3
    waiting: list[list[bytes]] = []
    frames: list[bytes] = []
    for action in actions:
        while waiting and (len(waiting) >= rank or _channel(waiting, action)):
            _drain_one(draw, waiting, frames, action)
        waiting.append(list(action))
    while waiting:
        _drain_one(draw, waiting, frames, None)
    return frames


def _channel(waiting: Sequence[list[bytes]], action: list[bytes]) -> bool:
    """Something on the action's channel is not finished yet; channel 0 is no exception."""
    return any(each[0][1:3] == action[0][1:3] for each in waiting)


def _drain_one(
    draw: st.DrawFn, waiting: list[list[bytes]], frames: list[bytes], action: list[bytes] | None
) -> None:
    chosen = draw(st.integers(0, len(waiting) - 1)) if len(waiting) > 1 else 0
    frames.append(waiting[chosen].pop(0))
    if not waiting[chosen]:
        del waiting[chosen]


@st.composite
def cuts(draw: st.DrawFn, raw: bytes) -> list[bytes]:
    """``raw`` in pieces."""
    places = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    edges = [0, *places, len(raw)]
    return [raw[a:b] for a, b in pairwise(edges)]


def _with_end(each: bytes) -> bytes:
    return each[:-1] + b"\x00"


def _on_channel(channel: int) -> Callable[[bytes], bytes]:
    return lambda each: each[:1] + bytes((0, channel)) + each[3:]


def _resized(by: int) -> Callable[[bytes], bytes]:
    return lambda each: each[:3] + pack(">I", max(0, len(each) - 8 + by)) + each[7:]


def _announcing(size: int) -> Callable[[bytes], bytes]:
    """The frame with another body size in its content header."""
    return lambda each: each[:11] + pack(">Q", size) + each[19:] if each[0] == 2 else each


_FAULTS: Sequence[Callable[[bytes], bytes]] = (
    _with_end,
    lambda each: b"",
    lambda each: each + each,
    lambda each: each + HEARTBEAT_BYTES,
    lambda each: each + ack(1, 1),
    lambda each: each + raw_frame(8, 1, b""),
    lambda each: raw_frame(3, each[2], b"z") + each,
    lambda each: each + raw_frame(3, each[2], b""),
    lambda each: bytes((each[0] % 4 + 1,)) + each[1:],
    _on_channel(0),
    _on_channel(1),
    _on_channel(2),
    _resized(1),
    _resized(-1),
    _resized(FRAME_BYTES_MAX * 2),
    lambda each: raw_frame(each[0], each[2], each[7:-2]),
    lambda each: raw_frame(each[0], each[2], each[7:-1] + b"\x00"),
    lambda each: each.replace(PLAIN, PLAIN[:2] + b"\x0b" + PLAIN[3:]),
    _announcing(0),
    _announcing(1),
    _announcing(4),
    _announcing(1 << 62),
    _announcing(MESSAGE_BYTES_MAX + 1),
)


@st.composite
def broken_streams(draw: st.DrawFn) -> list[bytes]:
    """Streams in which some frames are damaged, missing, doubled or in the wrong place."""
    frames = draw(streams().filter(bool))
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(frames) - 1))
        if draw(st.booleans()):
            frames[at] = draw(st.sampled_from(_FAULTS))(frames[at] or HEARTBEAT_BYTES)
        else:
            frames.insert(draw(st.integers(0, len(frames) - 1)), frames.pop(at))
    return frames


@dataclass(frozen=True)
class Fact:
    """One fact that a stream contains, independent of the runs in which a reader reports it."""

    what: str
    channel: int
    details: object = None


def facts_of(items: Iterable[Item]) -> list[Fact]:
    """The facts in a reader's items."""
    facts: list[Fact] = []
    for item in items:
        match item:
            case PublishRun(channel, route, persistent, mandatory, bodies):
                plain = ((route, persistent, mandatory, False, each) for each in bodies)
                facts += (Fact("publish", channel, each) for each in plain)
            case VariedRun(channel, persistent, mandatory, routes, bodies):
                details = zip(routes, bodies, strict=True)
                plain = ((route, persistent, mandatory, False, each) for route, each in details)
                facts += (Fact("publish", channel, each) for each in plain)
            case Publish(channel, route, persistent, mandatory, immediate, _, content):
                details = route, persistent, mandatory, immediate, content
                facts.append(Fact("publish", channel, details))
            case AckRun(channel, tags):
                facts += (Fact("ack", channel, (tag, False)) for tag in tags)
            case Ack(channel, tag):
                facts.append(Fact("ack", channel, (tag, True)))
            case RejectRun(channel, tags, requeue, basic):
                # The reference reads each of them as the method that it is.
                nack, reject = commands.Basic.Nack, commands.Basic.Reject
                for tag in tags:
                    one = nack(tag, False, requeue) if basic == BASIC_NACK else reject(tag, requeue)
                    facts += facts_of([Method(channel, one)])
            case Method(channel, method, content):
                fields = {name: getattr(method, name) for name in method.attributes()}
                facts.append(Fact(method.name, channel, (fields, content)))
            case Heartbeat():
                facts.append(Fact("heartbeat", 0))
            case Broken(channel, error, framing_lost):
                facts.append(Fact("broken", channel, (str(error), error.method, framing_lost)))
    return facts


class PamqpReader:
    """The reference: pamqp parses the frames one by one, from the whole stream."""

    def __init__(self) -> None:
        self._publishing: dict[int, tuple[commands.Basic.Publish, header.ContentHeader | None]] = {}
        self._bodies: dict[int, bytes] = {}
        self.facts: list[Fact] = []

    def receive(self, raw: bytes) -> list[Fact]:
        at = 0
        while at < len(raw):
            used, channel, content = frame.unmarshal(raw[at:])
            self._take(channel, content)
            at += used
        return self.facts

    def _take(self, channel: int, content: frame.FrameTypes) -> None:
        match content:
            case heartbeat.Heartbeat():
                self.facts.append(Fact("heartbeat", 0))
            case commands.Basic.Publish():
                self._publishing[channel] = content, None
                self._bodies[channel] = b""
            case commands.Basic.Ack():
                tag = content.delivery_tag & (1 << 64) - 1  # pamqp reads it as signed
                self.facts.append(Fact("ack", channel, (tag, content.multiple)))
            case commands.Basic.Reject() | commands.Basic.Nack():
                content.delivery_tag &= (1 << 64) - 1
                fields = {name: getattr(content, name) for name in content.attributes()}
                self.facts.append(Fact(content.name, channel, (fields, None)))
            case header.ContentHeader():
                self._publishing[channel] = self._publishing[channel][0], content
                self._finish(channel)
            case body.ContentBody():
                self._bodies[channel] += content.value
                self._finish(channel)
            case commands.base.Frame():
                fields = {name: getattr(content, name) for name in content.attributes()}
                self.facts.append(Fact(content.name, channel, (fields, None)))

    def _finish(self, channel: int) -> None:
        method, head = self._publishing[channel]
        assert head is not None
        if len(self._bodies[channel]) == head.body_size:
            del self._publishing[channel]
            details = (
                method.exchange,
                method.routing_key,
                head.properties.delivery_mode == 2,
                method.mandatory,
                method.immediate,
                self._bodies.pop(channel),
            )
            self.facts.append(Fact("publish", channel, details))
