"""A connection's channels: one that was opened and never used is only a number."""

import gc
import struct
import tracemalloc

import pytest
from pamqp.commands import Basic, Channel, Connection, Queue
from tests.amqp_frontend.session.playbook import (
    CHANNEL,
    Bytes,
    FakeCounts,
    Playbook,
    client,
    connected,
    make,
    opened,
    publishes,
    sent,
)

from arneb_amqp.session.connection.channels import Channels
from arneb_amqp.session.consume.deliverer import Deliverer
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Consume, EndConnection, Leave, Perform
from arneb_amqp.session.events import ConsumerClosed, QueueDeclared, RequestDone
from arneb_amqp.session.publish.publisher import Publisher
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.methods import encode_method

CHANNELS = 2_000
UNUSED_BYTES = 256
"""A number in a set, and what the playbook keeps. A channel that was used takes about 2 KiB."""
CLOSE = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}


def open_many(play: Playbook) -> None:
    for number in range(1, CHANNELS + 1):
        play >> client(Channel.Open, number)


def test_an_unused_channel_takes_no_memory() -> None:
    play = connected()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        open_many(play)
        play.frames.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < CHANNELS * UNUSED_BYTES
    assert repr(play.session.channels) == f"<Channels 0 used, {CHANNELS} unused>"


def test_its_first_method_creates_it_and_no_other() -> None:
    play = connected()
    open_many(play)
    play >> client(Basic.Qos, 7, prefetch_count=1)
    assert [*play.session.channels.used] == [7]
    assert len(play.session.channels) == CHANNELS


def halves() -> int:
    return sum(isinstance(each, (Publisher, Deliverer)) for each in gc.get_objects())


def test_a_channel_that_only_declares_and_sets_limits_has_neither_half() -> None:
    before = halves()
    with opened() as play:
        play >> client(Basic.Qos, prefetch_count=5) << sent(Basic.QosOk)
        play >> client(Queue.Declare, queue="q")
        play.effect(Perform)
        play >> RequestDone(QueueDeclared("q", 0, 0)) << sent(Queue.DeclareOk, queue="q")
        play >> ConsumerClosed(ConsumerId(7))
        channel = play.session.channels.used[ChannelId(1)]
        channel.check_ack_timeouts(1e9, 1.0)
        assert "0 unacked" in repr(channel)
        play >> client(Channel.Close, **CLOSE) << Leave(CHANNEL, ()) >> RequestDone(None)
        assert halves() == before
        play << sent(Channel.CloseOk)


def test_limits_apply_to_later_consumers() -> None:
    with opened() as play:
        play >> client(Basic.Qos, prefetch_count=5) << sent(Basic.QosOk)
        play >> client(Basic.Qos, prefetch_count=9, global_=True) << sent(Basic.QosOk)
        play >> client(Basic.Consume, queue="q", consumer_tag="c")
        assert [each.limit for each in play.effect(Consume).wanted.windows] == [5, 9]
        play >> RequestDone() << sent(Basic.ConsumeOk)


def test_a_channel_has_no_other_attributes() -> None:
    channels = Channels(FakeCounts())
    play = connected()
    channels.open(ChannelId(1), "u")
    channel = channels.first_used(ChannelId(1), play.session, play.session.vhost)
    with pytest.raises(AttributeError, match="publishers"):
        _ = channel.publishers  # type: ignore[union-attr]


def test_an_unused_channel_closes_like_any_other_and_opens_again() -> None:
    with opened() as play:
        play >> client(Channel.Close, **CLOSE) << Leave(CHANNEL, ()) >> RequestDone(None)
        play << sent(Channel.CloseOk)
        assert len(play.session.channels) == 0
        play >> client(Channel.Open) << sent(Channel.OpenOk)


def test_an_unused_channel_is_open() -> None:
    with opened() as play:
        play >> client(Channel.Open)
        play << sent(Connection.Close, 0, reply_code=504) << EndConnection()


def test_a_number_that_was_not_opened_is_not_a_channel() -> None:
    channels = Channels(FakeCounts())
    play = connected()
    assert channels.first_used(ChannelId(1), play.session, play.session.vhost) is None
    assert ChannelId(1) not in channels


@pytest.mark.parametrize("used", [False, True])
def test_all_channels_end_at_once(used: bool) -> None:
    channels = Channels(FakeCounts())
    play = connected()
    channels.open(ChannelId(1), "u")
    if used:
        assert channels.first_used(ChannelId(1), play.session, play.session.vhost) is not None
    assert ChannelId(1) in channels
    channels.end()
    assert len(channels) == 0


def test_open_channels_are_counted_and_limited() -> None:
    with connected() as play:
        counts = play.counts
        counts.most = 2
        opened(play, 1)
        opened(play, 2)
        play >> client(Channel.Close, **CLOSE)
        play.effect(Leave)
        play >> RequestDone(None) << sent(Channel.CloseOk)
        assert counts.open == 1
        opened(play, 3)
        play >> client(Channel.Open, 4)
        text = "NOT_ALLOWED - no more for 'guest'"
        play << sent(Connection.Close, 0, reply_code=530, reply_text=text) << EndConnection()
        assert counts.open == 0


def together(*commands: tuple[type, dict[str, object]]) -> Bytes:
    """Methods on the channel that come in one read."""
    return Bytes(b"".join(encode_method(CHANNEL, make(kind, **these)) for kind, these in commands))


def publish_announced(size: int) -> Bytes:
    """A publish whose body has not begun."""
    method = encode_method(CHANNEL, make(Basic.Publish, ticket=0, routing_key="q"))
    head = struct.pack(">HHQH", 60, 0, size, 0)
    return Bytes(method + struct.pack(">BHI", 2, CHANNEL, len(head)) + head + b"\xce")


@pytest.mark.parametrize(
    "late",
    [
        together((Basic.Get, {"queue": "q"})),
        together((Basic.Ack, {"delivery_tag": 9, "multiple": True})),
        together((Basic.Ack, {"delivery_tag": 9}), (Basic.Reject, {"delivery_tag": 8})),
        publishes(b"a"),
        publishes(b"a", expiration="x"),
        together((Channel.CloseOk, {})),
    ],
)
def test_what_was_sent_before_the_close_was_answered_means_nothing(late: Bytes) -> None:
    with opened() as play:
        play >> Bytes(together((Channel.Close, CLOSE)).data + late.data)
        play << Leave(CHANNEL, ()) >> RequestDone(None) << sent(Channel.CloseOk)
        play >> client(Channel.Open) << sent(Channel.OpenOk)


def test_a_message_that_is_too_large_for_a_channel_that_was_just_closed_means_nothing() -> None:
    with opened() as play:
        play >> Bytes(together((Channel.Close, CLOSE)).data + publish_announced(1 << 40).data)
        play << Leave(CHANNEL, ()) >> RequestDone(None) << sent(Channel.CloseOk)


def test_a_channel_that_is_closed_twice_at_once_is_answered_twice() -> None:
    with opened() as play:
        play >> together((Channel.Close, CLOSE), (Channel.Close, CLOSE))
        play << Leave(CHANNEL, ()) >> RequestDone(None)
        play << sent(Channel.CloseOk) << sent(Channel.CloseOk)
        assert play.counts.open == 0


def test_a_number_may_be_opened_again_right_behind_its_close() -> None:
    with opened() as play:
        play >> together((Channel.Close, CLOSE), (Channel.Open, {}), (Basic.Qos, {}))
        play << Leave(CHANNEL, ()) >> RequestDone(None)
        play << sent(Channel.CloseOk) << sent(Channel.OpenOk) << sent(Basic.QosOk)
        assert not play.session.channels.left


@pytest.mark.parametrize("kind", [Basic.Qos, Channel.Close])
def test_what_comes_after_the_answer_to_the_close_needs_a_channel(kind: type) -> None:
    with opened() as play:
        play >> client(Channel.Close, **CLOSE) << Leave(CHANNEL, ()) >> RequestDone(None)
        play << sent(Channel.CloseOk)
        play >> client(kind, **(CLOSE if kind is Channel.Close else {}))
        play << sent(Connection.Close, 0, reply_code=504) << EndConnection()
