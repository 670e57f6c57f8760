"""The client's session, however the broker's bytes are split and whatever they contain."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Connection
from tests.amqp_frontend.wire.test_methods import methods

from arneb_amqp.client.events import (
    Answered,
    Blocked,
    Cancelled,
    ChannelEnded,
    Confirmed,
    Delivered,
    Ended,
    Event,
    Opened,
)
from arneb_amqp.client.session import ClientSession, ClientState
from arneb_amqp.client.uris import parse_uri
from arneb_amqp.wire.constants import (
    FRAME_BYTES_MIN,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    ChannelId,
)
from arneb_amqp.wire.content import compose, payload_of
from arneb_amqp.wire.deliver import readdress
from arneb_amqp.wire.fast import FastReader
from arneb_amqp.wire.items import Method, Publish, PublishRun
from arneb_amqp.wire.methods import encode_ack, encode_method, encode_nack
from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.replies import make

ONE, TWO = ChannelId(1), ChannelId(2)
ZERO = ChannelId(0)
PROPERTIES = encode_properties(Properties(content_type="a/b", delivery_mode=2))


def start(mechanisms: bytes = b"PLAIN AMQPLAIN") -> bytes:
    method = make(
        Connection.Start, version_major=0, version_minor=9, server_properties={},
        mechanisms=mechanisms, locales=b"en_US",
    )  # fmt: skip
    return encode_method(ZERO, method)


def tune(frame_max: int = 131_072, heartbeat: int = 60) -> bytes:
    method = make(Connection.Tune, channel_max=2047, frame_max=frame_max, heartbeat=heartbeat)
    return encode_method(ZERO, method)


OPEN_OK = encode_method(ZERO, make(Connection.OpenOk, known_hosts=""))


def deliver(tag: int, payload: bytes, frame_max: int = 131_072) -> bytes:
    method = make(
        Basic.Deliver, consumer_tag="c", delivery_tag=tag, redelivered=False, exchange="x",
        routing_key="k",
    )  # fmt: skip
    content = readdress(compose(ONE, PROPERTIES, payload), 0, ONE, frame_max)
    return encode_method(ONE, method)[:-1] + b"".join(content)


def opened(uri: str = "amqp://u:p@h/v", frame_max: int = 131_072, beat: int = 60) -> ClientSession:
    session = ClientSession(parse_uri(uri), "me", 0.0)
    assert session.receive(start(), 0.0) == []
    assert session.receive(tune(frame_max, beat), 0.0) == []
    assert session.receive(OPEN_OK, 0.0) == [Opened()]
    assert session.state is ClientState.OPEN
    return session


def items_sent(session: ClientSession, now: float = 0.0) -> list[Any]:
    """What a broker would read from these bytes."""
    data = session.data_to_send(now).removeprefix(PROTOCOL_HEADER)
    reader = FastReader(131_072)
    items = reader.receive(data)
    return [each.method if isinstance(each, Method) else each for each in items]


def test_it_logs_in_and_opens_a_vhost() -> None:
    session = opened()
    ok, tuned, wanted = items_sent(session)
    assert (ok.mechanism, ok.response) == ("PLAIN", b"\0u\0p")
    assert b"connection.blocked" in repr(ok.client_properties).encode()
    assert (tuned.frame_max, tuned.heartbeat) == (131_072, 10)
    assert wanted.virtual_host == "v"


def test_it_ends_when_no_mechanism_is_shared() -> None:
    session = ClientSession(parse_uri("amqp://h?auth_mechanism=external"), "me", 0.0)
    (ended,) = session.receive(start(), 0.0)
    assert "does not offer EXTERNAL" in str(ended.error)  # type: ignore[union-attr]
    assert session.receive(tune(), 0.0) == []


PLAY: list[tuple[bytes, list[Event]]] = [
    (deliver(1, b"one"), [Delivered(ONE, 1, "x", "k", PROPERTIES, b"one")]),
    (deliver(2, b"", 4096), [Delivered(ONE, 2, "x", "k", PROPERTIES, b"")]),
    (deliver(3, b"z" * 9000, 4096), [Delivered(ONE, 3, "x", "k", PROPERTIES, b"z" * 9000)]),
    (encode_nack(TWO, 3, multiple=True), [Confirmed(TWO, [3], True, False)]),  # type: ignore[arg-type]
    (encode_ack(TWO, 9, multiple=True), [Confirmed(TWO, [9], True)]),  # type: ignore[arg-type]
    (HEARTBEAT_FRAME, []),
    (encode_method(ONE, make(Basic.Cancel, consumer_tag="c", nowait=True)), [Cancelled(ONE)]),
    (encode_method(ZERO, make(Connection.Blocked, reason="low")), [Blocked(True)]),
    (encode_method(ZERO, make(Connection.Unblocked)), [Blocked(False)]),
]


@given(st.lists(st.sampled_from(PLAY), max_size=12), st.integers(1, 5000))
def test_how_the_bytes_are_split_makes_no_difference(
    play: list[tuple[bytes, list[Event]]], size: int
) -> None:
    session, data = opened(), b"".join(part for part, _ in play)
    events = []
    for at in range(0, len(data), size):
        events += session.receive(data[at : at + size], 1.0)
    assert events == [event for _, part in play for event in part]


def test_everything_in_a_large_read_is_handled() -> None:
    data = b"".join(deliver(tag, b"x") for tag in range(1, 1000))
    assert len(opened().receive(data, 0.0)) == 999


def test_confirms_of_a_run_arrive_together() -> None:
    session = opened()
    data = b"".join(encode_ack(ONE, tag) for tag in (1, 2, 5))  # type: ignore[arg-type]
    assert session.receive(data, 0.0) == [Confirmed(ONE, [1, 2, 5])]


def test_a_broker_reads_what_was_published() -> None:
    for frame_max in (4096, 131_072):
        session = opened(frame_max=frame_max)
        items_sent(session)
        session.publish(ONE, "x", "k", compose(TWO, PROPERTIES, b"p" * 10_000))
        session.publish(ONE, "x", "k", compose(TWO, PROPERTIES, b""))
        bodies = []
        for item in items_sent(session):
            assert isinstance(item, Publish | PublishRun)
            bodies += item.bodies if isinstance(item, PublishRun) else [item.body]
        assert [len(each) > 10_000 for each in bodies] == [True, False]


def test_answers_arrive_by_channel_and_a_closed_channel_gives_its_reason() -> None:
    session = opened()
    items_sent(session)
    answer = make(Channel.OpenOk, channel_id=b"")
    (answered,) = session.receive(encode_method(TWO, answer), 0.0)
    assert isinstance(answered, Answered)
    assert (answered.channel, type(answered.method)) == (TWO, Channel.OpenOk)
    close = make(
        Channel.Close, reply_code=404, reply_text="NOT_FOUND - q", class_id=50, method_id=10
    )
    (ended,) = session.receive(encode_method(TWO, close), 0.0)
    assert isinstance(ended, ChannelEnded)
    assert (ended.error.code, str(ended.error)) == (404, "NOT_FOUND - q")
    assert [type(each) for each in items_sent(session)] == [Channel.CloseOk]


def test_a_close_from_the_broker_is_answered_and_ends_the_session() -> None:
    session = opened()
    items_sent(session)
    close = make(Connection.Close, reply_code=320, reply_text="bye", class_id=0, method_id=0)
    (ended,) = session.receive(encode_method(ZERO, close), 0.0)
    assert isinstance(ended, Ended)
    assert [type(each) for each in items_sent(session)] == [Connection.CloseOk]
    assert session.receive(deliver(1, b"late"), 0.0) == []


def test_closing_ends_with_the_brokers_answer() -> None:
    session = opened()
    session.close()
    (ended,) = session.receive(encode_method(ZERO, make(Connection.CloseOk)), 0.0)
    assert isinstance(ended, Ended)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        OPEN_OK,
        start() + start(),
        start() + tune() + OPEN_OK + OPEN_OK,
        start() + tune() + OPEN_OK + encode_method(ZERO, make(Channel.OpenOk, channel_id=b"")),
        start() + tune() + OPEN_OK + deliver(1, b"x")[:-1] + b"\x00",
    ],
)
def test_a_broker_that_breaks_the_protocol_is_disconnected(data: bytes) -> None:
    session = ClientSession(parse_uri("amqp://h"), "me", 0.0)
    events = session.receive(data, 0.0)
    assert isinstance(events[-1], Ended)
    assert sum(isinstance(each, Ended) for each in events) == 1


@pytest.mark.parametrize("frame_max", [1, 7, 8, FRAME_BYTES_MIN - 1])
def test_a_broker_that_offers_smaller_frames_than_amqp_allows_is_disconnected(
    frame_max: int,
) -> None:
    """Else no frame would have room for a body, or the loop would be busy with tiny ones."""
    session = ClientSession(parse_uri("amqp://h"), "me", 0.0)
    (ended,) = session.receive(start() + tune(frame_max), 0.0)
    assert isinstance(ended, Ended)
    assert f"a frame_max of {frame_max}" in str(ended.error)


def test_a_body_is_divided_into_the_smallest_frames_that_amqp_allows() -> None:
    session = opened(frame_max=FRAME_BYTES_MIN)
    items_sent(session)
    session.publish(ONE, "x", "k", compose(ONE, PROPERTIES, bytes(FRAME_BYTES_MIN)))
    (run,) = items_sent(session)
    assert payload_of(run.bodies[0]) == bytes(FRAME_BYTES_MIN)


frames = st.one_of(
    st.builds(encode_method, st.sampled_from([ZERO, ONE, TWO]), methods()),
    st.sampled_from([start(), tune(), OPEN_OK, deliver(1, b"x"), HEARTBEAT_FRAME]),
)


@given(st.lists(frames, max_size=6), st.booleans(), st.data())
def test_no_bytes_raise_and_nothing_follows_the_end(
    sent: list[bytes], is_open: bool, data: st.DataObject
) -> None:
    """Whole frames of every kind, in any order, some of them damaged."""
    raw = bytearray(b"".join(sent))
    for _ in range(data.draw(st.integers(0, 2)) if raw else 0):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    make_session: Callable[[], ClientSession] = opened
    session = make_session() if is_open else ClientSession(parse_uri("amqp://h"), "me", 0.0)
    events = session.receive(bytes(raw), 0.0)
    is_over = session.state is ClientState.CLOSED
    assert [isinstance(each, Ended) for each in events[-1:]] == [True] * is_over or not is_over
    assert sum(isinstance(each, Ended) for each in events) == is_over


def test_heartbeats_are_sent_and_missing_ones_noticed() -> None:
    session = opened(beat=4)
    items_sent(session, 10.0)
    session.receive(HEARTBEAT_FRAME, 10.0)
    assert session.next_timer() == 12.0
    assert session.handle_timer(12.0) == []
    assert session.data_to_send(12.0) == HEARTBEAT_FRAME
    (ended,) = session.handle_timer(18.0)
    assert isinstance(ended, Ended)
    assert opened("amqp://h?heartbeat=0", beat=0).next_timer() == float("inf")
